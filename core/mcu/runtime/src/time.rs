//! Timers (rules T1 to T8): a list of deadlines, through the futures that sleep.
//!
//! A [`Clock`] knows no hardware: the handler of a timer's interrupt, or the main loop, says what
//! time it is. So it works for a periodic tick and for a timer that is set to the next deadline.
//! `embassy-time` brings a clock of its own; see the module `systick`.

use core::cell::Cell;
use core::marker::PhantomPinned;
use core::pin::Pin;
use core::ptr;
use core::task::{Context, Poll, Waker};

use crate::critical;

/// A clock with the futures that wait for it, in whatever unit its caller counts.
///
/// Cost: `advance` masks interrupts for one timer at a time, and each first poll of a sleep for a
/// visit of the timers that are due earlier.
pub struct Clock {
    now: Cell<u64>,
    first: Cell<*const Timer>,
}

// SAFETY: the state is touched with interrupts masked.
unsafe impl Sync for Clock {}

impl core::fmt::Debug for Clock {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

struct Timer {
    deadline: u64,
    state: Cell<TimerState>,
    waker: Cell<Option<Waker>>,
    next: Cell<*const Timer>,
    _pinned: PhantomPinned,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TimerState {
    Out,
    Listed,
    Fired,
}

impl Clock {
    /// Creates a clock at time 0.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            now: Cell::new(0),
            first: Cell::new(ptr::null()),
        }
    }

    /// Returns the time that was set last.
    #[must_use]
    pub fn now(&self) -> u64 {
        critical(|| self.now.get())
    }

    /// Returns when the next timer is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        // SAFETY: timers in the list are pinned, and removed before they are dropped.
        critical(|| unsafe { self.first.get().as_ref() }.map(|timer| timer.deadline))
    }

    /// Sets the time, and fires the timers that are due (rules T2, T6). From any context.
    pub fn advance(&self, now: u64) {
        critical(|| self.now.set(now.max(self.now.get())));
        loop {
            let fired = critical(|| {
                // SAFETY: as in `next_deadline`.
                let timer = unsafe { self.first.get().as_ref() }?;
                (timer.deadline <= self.now.get()).then(|| {
                    self.first.set(timer.next.get());
                    timer.state.set(TimerState::Fired);
                    timer.waker.take()
                })
            });
            match fired {
                None => return,
                Some(waker) => waker.map_or((), Waker::wake),
            }
        }
    }

    /// Waits until the time is `deadline` or later (rules T1, T3, T4).
    pub fn sleep_until(&self, deadline: u64) -> Sleep<'_> {
        Sleep {
            clock: self,
            timer: Timer {
                deadline,
                state: Cell::new(TimerState::Out),
                waker: Cell::new(None),
                next: Cell::new(ptr::null()),
                _pinned: PhantomPinned,
            },
        }
    }

    /// Waits for so long, from the first poll's time on.
    pub async fn sleep(&self, duration: u64) {
        self.sleep_until(self.now().saturating_add(duration)).await;
    }

    /// Requires masked interrupts.
    fn insert(&self, timer: &Timer) {
        let mut at = &self.first;
        // SAFETY: as in `next_deadline`.
        while let Some(other) = unsafe { at.get().as_ref() } {
            if other.deadline > timer.deadline {
                break;
            }
            at = &other.next;
        }
        timer.next.set(at.get());
        at.set(timer);
    }

    /// Requires masked interrupts, and that the timer is in the list.
    fn remove(&self, timer: &Timer) {
        let mut at = &self.first;
        while !ptr::eq(at.get(), timer) {
            // SAFETY: as in `next_deadline`.
            at = unsafe { &(*at.get()).next };
        }
        at.set(timer.next.get());
    }
}

/// Future of [`Clock::sleep_until`].
#[must_use = "a future does nothing unless awaited"]
pub struct Sleep<'a> {
    clock: &'a Clock,
    timer: Timer,
}

// SAFETY: the timer is touched with interrupts masked once the clock knows it.
unsafe impl Send for Sleep<'_> {}

impl core::fmt::Debug for Sleep<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sleep").finish_non_exhaustive()
    }
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let (clock, timer) = (self.clock, &self.timer);
        let waker = cx.waker().clone();
        let (fired, _former) = critical(|| {
            let due = timer.deadline <= clock.now.get();
            match timer.state.get() {
                TimerState::Fired => {}
                TimerState::Listed if due => clock.remove(timer),
                TimerState::Out if due => {}
                TimerState::Listed => return (false, timer.waker.replace(Some(waker))),
                TimerState::Out => {
                    clock.insert(timer);
                    timer.state.set(TimerState::Listed);
                    return (false, timer.waker.replace(Some(waker)));
                }
            }
            timer.state.set(TimerState::Fired);
            (true, timer.waker.take())
        });
        match fired {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        drop(critical(|| {
            if self.timer.state.get() == TimerState::Listed {
                self.clock.remove(&self.timer);
            }
            self.timer.waker.take()
        }));
    }
}
