//! Several workers: who is the owner now, and who is called when there is more to do (rules H1 to
//! H10).

use core::ptr::NonNull;

use super::Scheduler;
use crate::atomic::Ordering;
use crate::baton::Baton;
use crate::block::NONE;
#[cfg(feature = "heap")]
use crate::executor::{Step, SystemView};
use crate::priority::{Levels, Priority};
use crate::seat::{Calling, Seat};

impl Scheduler {
    /// The scheduler lock, unless it is held from this seat already.
    #[inline]
    pub(crate) fn pick_up(&self, seat: &Seat) {
        if !seat.holds.get() {
            self.baton.pick_up();
            seat.holds.set(true);
        }
    }

    /// Releases the scheduler lock. If a worker should know of what is ready now, it is called.
    #[inline]
    pub(crate) fn put_down(&self, seat: &Seat) {
        loop {
            let worker = if seat.takes_in.get() {
                None
            } else {
                self.choose_worker()
            };
            seat.holds.set(false);
            let rung = self.baton.put_down();
            if let Some(worker) = worker {
                // SAFETY: it was announced, so its seat waits for the call to return.
                unsafe { Calling::call(worker) };
            }
            if !rung || !self.baton.ring() {
                return;
            }
            // Somebody rang, and nobody else has looked for a worker since.
            seat.holds.set(true);
        }
    }

    /// As [`put_down`](Self::put_down), for a caller for whom nothing keeps the scheduler once the
    /// scheduler lock is free: nothing touches it from then on.
    ///
    /// # Safety
    /// The scheduler lock is held from `seat`, and the scheduler stays until it is put down.
    pub(crate) unsafe fn put_down_for_good(this: NonNull<Self>, seat: &Seat) {
        loop {
            // SAFETY: the caller's promise.
            let (worker, baton) = unsafe {
                let takes_in = seat.takes_in.get();
                let worker = if takes_in {
                    None
                } else {
                    this.as_ref().choose_worker()
                };
                (worker, &raw const (*this.as_ptr()).baton)
            };
            seat.holds.set(false);
            if let Some(worker) = worker {
                // The worker that comes finds what was announced by a ring, too, and passes the
                // call on if there is more. SAFETY: the caller's promise; the worker was announced,
                // so its seat waits for the call to return.
                unsafe {
                    Baton::put_down_for_good(baton);
                    Calling::call(worker);
                }
                return;
            }
            // SAFETY: the caller's promise.
            if unsafe { Baton::try_put_down(baton) } {
                return;
            }
            seat.holds.set(true);
        }
    }

    /// Something was announced by someone who is not the owner, and who must not wait to be.
    pub(super) fn ring(&self) {
        if self.baton.ring() {
            let seat = Seat::new(self);
            seat.holds.set(true);
            self.put_down(&seat);
        }
    }

    /// Who is to look at the most urgent that waits: one that is idle; else the one that polls the
    /// least urgent coroutine, if that is strictly less urgent and a call interrupts it. One at a
    /// time: the called worker finds what else there is, and passes the call on when it releases
    /// the lock.
    #[inline]
    fn choose_worker(&self) -> Option<NonNull<Calling>> {
        // Mostly all are busy and can only be left alone. Then no other one's seat is looked at:
        // its worker writes there.
        if self.may_call() {
            self.search_worker()
        } else {
            None
        }
    }

    /// Whether there is anybody to call. Without the baton: for what was made ready from here
    /// before. Who is idle since then has looked at it.
    #[inline]
    fn may_call(&self) -> bool {
        self.idle.load(Ordering::Relaxed) != 0 || self.interrupts.load(Ordering::Relaxed) != 0
    }

    /// The poll that goes on at this seat lasts: others are called for what is ready.
    #[cfg(feature = "heap")]
    pub(crate) fn pass_on(&self, seat: &Seat) {
        // If the scheduler lock is held from here, the caller puts it down, and then a worker is
        // chosen.
        if !seat.holds.get() && self.may_call() {
            self.pick_up(seat);
            self.put_down(seat);
        }
    }

    #[cold]
    fn search_worker(&self) -> Option<NonNull<Calling>> {
        let waiting = self.ready.get().union(self.published().arriving());
        let sooner = self.sooner.replace(false);
        let mut least = match waiting.most_urgent() {
            // Nobody polls anything less urgent: only who is idle is called.
            None if sooner => Priority::LEAST_URGENT,
            level => level?,
        };
        let mut chosen = None;
        for seat in self.seats() {
            let Some(worker) = seat.worker() else {
                continue;
            };
            if worker.called.get() {
                continue;
            }
            if worker.idle.get() {
                chosen = Some(worker);
                break;
            }
            if let Some(level) = seat.running.get()
                && worker.is_interruptible()
                && least.is_more_urgent_than(level)
            {
                least = level;
                chosen = Some(worker);
            }
        }
        let chosen = chosen?;
        chosen.announce();
        Some(NonNull::from(chosen))
    }

    /// A timer is being set. Whoever sleeps asked before for how long (rule H10).
    pub(super) fn note_deadline(&self, deadline: u64) {
        if self.idle.load(Ordering::Relaxed) > 0
            && self.next_deadline().is_none_or(|next| deadline < next)
        {
            self.sooner.set(true);
        }
    }

    /// The seats from which coroutines are run.
    pub(crate) fn seats(&self) -> impl Iterator<Item = &Seat> {
        let mut next = self.seats.get();
        core::iter::from_fn(move || {
            // SAFETY: a seat in the list is in its place, and leaves the list before it goes.
            let seat = unsafe { next?.as_ref() };
            next = seat.next.get();
            Some(seat)
        })
    }

    #[cold]
    pub(super) fn all_running(&self) -> Levels {
        self.seats().fold(Levels::NONE, |levels, seat| {
            levels.union(Levels::of(seat.running.get()))
        })
    }

    /// The worker at this seat looks what there is to do, whether it was called or not.
    #[inline]
    pub(super) fn look(&self, seat: &Seat) {
        if let Some(worker) = seat.worker() {
            worker.called.set(false);
            if worker.idle.replace(false) {
                self.count_idle(u32::wrapping_sub);
            }
        }
    }

    /// Under the baton: nobody else writes.
    fn count_idle(&self, change: fn(u32, u32) -> u32) {
        let idle = self.idle.load(Ordering::Relaxed);
        self.idle.store(change(idle, 1), Ordering::Relaxed);
    }

    /// A worker looks what there is to do; it holds the baton.
    #[cfg(feature = "heap")]
    pub(crate) fn run_worker(
        &self,
        seat: &Seat,
        view: &impl SystemView,
        limit: u64,
    ) -> (Step, u64) {
        let ran = self.run_by_clock::<true>(seat, view, limit);
        if let Some(worker) = seat.worker() {
            // Before the scheduler lock is released: code that makes something ready after this
            // calls.
            if ran.0 == Step::Idle {
                worker.idle.set(true);
                self.count_idle(u32::wrapping_add);
            }
        }
        ran
    }

    /// A worker comes: its seat stays where it is until it [leaves](Self::leave).
    #[cfg(feature = "heap")]
    pub(crate) fn enter(&self, seat: NonNull<Seat>) {
        // SAFETY: the caller's seat is in its place.
        let this = unsafe { seat.as_ref() };
        if let Some(worker) = this.worker() {
            worker.tell_interruptible_to(&self.interrupts);
        }
        self.held(|| this.next.set(self.seats.replace(Some(seat))));
    }

    /// A worker goes.
    #[cfg(feature = "heap")]
    pub(crate) fn leave(&self, seat: &Seat) {
        let this = Some(NonNull::from(seat));
        self.held(|| {
            self.look(seat);
            match self.seats().find(|other| other.next.get() == this) {
                Some(before) => before.next.set(seat.next.get()),
                None => self.seats.set(seat.next.get()),
            }
        });
        if let Some(worker) = seat.worker() {
            worker.settle();
        }
    }

    /// Whether someone has taken signals from the inbox and was not done when it stepped aside.
    #[inline]
    pub(super) fn has_taken(&self) -> bool {
        self.taken.get() != NONE
    }
}
