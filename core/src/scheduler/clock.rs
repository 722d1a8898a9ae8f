//! Time: running beside a clock, and firing timers (rules T1 to T8).

use core::pin::Pin;

use super::Scheduler;
use crate::block::BlockRef;
use crate::context::{self, Entered};
use crate::executor::{Step, SystemView};
use crate::seat::Seat;
use crate::time::POLLS_PER_LOOK;
use crate::timers::Timer;

impl Scheduler {
    /// [`run_by_clock`](Self::run_by_clock) of a scheduler that is not shared.
    pub(crate) fn run_alone(&self, view: &impl SystemView, limit: u64) -> (Step, u64) {
        self.run_by_clock::<false>(&self.seat, view, limit)
    }

    /// Runs up to `limit` polls, and looks at the clock if there is one. `SHARED` as for
    /// [`run`](Self::run).
    pub(crate) fn run_by_clock<const SHARED: bool>(
        &self,
        seat: &Seat,
        view: &impl SystemView,
        limit: u64,
    ) -> (Step, u64) {
        let round = if self.timers.has_clock() {
            POLLS_PER_LOOK
        } else {
            u64::MAX
        };
        let mut polls = 0;
        self.look_at_clock(seat);
        loop {
            let (step, more) = self.run::<SHARED>(seat, view, round.min(limit - polls));
            polls += more;
            match step {
                Step::Ran if polls < limit => drop(self.look_at_clock(seat)),
                Step::Idle if self.look_at_clock(seat) > 0 => {}
                step => return (step, polls),
            }
        }
    }

    /// Fires what is due by the clock, if there are timers; returns how many.
    #[inline]
    fn look_at_clock(&self, seat: &Seat) -> usize {
        match self.timers.look_at_clock() {
            None => 0,
            Some(now) => {
                let _entered = Entered::new(seat);
                self.fire_timers(now)
            }
        }
    }

    pub(crate) fn fire_timers(&self, now: u64) -> usize {
        self.timers.fire(now, |waker| self.aside(|| waker.wake()))
    }

    /// No timer refers to the scheduler any more.
    pub(crate) fn abandon_timers(&self) {
        self.timers.abandon(|waker| self.aside(|| drop(waker)));
    }

    /// The time now: what the clock says, or else the latest that the home has told.
    pub(crate) fn now(&self) -> u64 {
        self.timers.now()
    }

    /// When the next timer is due.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.timers.next_deadline()
    }

    /// Starts a timer of whoever is polled here.
    ///
    /// # Safety
    /// Before the timer is dropped, the caller calls [`cancel_timer`](Self::cancel_timer) if it
    /// still waits.
    pub(crate) unsafe fn set_timer(&self, timer: Pin<&Timer>, deadline: u64) {
        if self.is_shared() {
            self.note_deadline(deadline);
        }
        // SAFETY: the caller's promise.
        unsafe { self.timers.set(timer, deadline, self.sleeper()) }
    }

    /// A timer that waits is that of whoever is polled here from now on.
    pub(crate) fn hand_over_timer(&self, timer: &Timer) {
        self.timers.hand_over(timer, self.sleeper());
    }

    /// Who is polled here; a coroutine of another scheduler is none of ours, and its block may go
    /// first.
    fn sleeper(&self) -> Option<BlockRef> {
        context::current().filter(|block| core::ptr::eq(block.scheduler().as_ptr(), self))
    }

    /// Takes a timer that waits out of the heap.
    pub(crate) fn cancel_timer(&self, timer: &Timer) {
        self.timers.cancel(timer);
    }
}
