//! Sleeping, and time limits (rules T1 to T8).
//!
//! Time is a number of nanoseconds that never goes back. Where it begins is the platform's choice.
//! It comes from [`Config::clock`](crate::Config::clock), or from calls of [`Executor::advance`],
//! or from both. Within [`coroutine_run`](crate::coroutine_run) it is the system's monotonic clock.
//!
//! A sleeping future holds its own timer: sleeping allocates nothing, and any number of coroutines
//! can sleep.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use std::cell::Cell;
//! use std::rc::Rc;
//! use corank::{Executor, Priority, time};
//!
//! let executor = Executor::new();
//! let woken_at = Rc::new(Cell::new(0));
//! let log = woken_at.clone();
//! executor.spawn(Priority::DEFAULT, async move {
//!     time::sleep_until(1_000).await;
//!     log.set(time::now());
//! })?;
//! executor.run_until_idle();
//! assert_eq!(executor.next_deadline(), Some(1_000));
//! assert_eq!(executor.advance(1_500), 1);
//! executor.run_until_idle();
//! assert_eq!(woken_at.get(), 1_500);
//! # }
//! # Ok::<(), corank::SpawnError>(())
//! ```

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::{Context, Poll};
use core::time::Duration;

use crate::executor::Executor;
use crate::ownership::{Local, Ownership};
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::time::timers::{Stage, Timer};
use crate::scheduling::wake::stored_waker::StoredWaker;
use crate::scheduling::workers::budget;
use crate::scheduling::workers::context::{self, Entered};

pub use crate::scheduling::time::POLLS_PER_CLOCK_READ;

impl Executor {
    /// Advances the time to `now`, in nanoseconds, and fires every timer whose deadline has been
    /// reached; returns how many.
    ///
    /// They fire in order of deadline and then of creation. A time before one that was passed
    /// earlier counts as that one.
    pub fn advance(&self, now: u64) -> usize {
        let _entered = Entered::new(self.scheduler().worker_context());
        self.scheduler().fire_timers(now)
    }

    /// Returns when the next timer is due, in nanoseconds; `None` if there is none.
    ///
    /// A platform sleeps until then.
    pub fn next_deadline(&self) -> Option<u64> {
        self.scheduler().next_deadline()
    }

    /// Returns the time, in nanoseconds.
    ///
    /// This is the time of the clock or, without one, the latest that was passed to
    /// [`advance`](Self::advance).
    pub fn now(&self) -> u64 {
        self.scheduler().now()
    }
}

/// Returns the scheduler that runs here.
fn here<'a>() -> &'a Scheduler {
    match context::here() {
        Some(scheduler) => scheduler,
        None => panic!(
            "corank::time was used outside an executor: call it from a coroutine that corank polls"
        ),
    }
}

/// Returns the time of the executor that runs here, in nanoseconds.
///
/// # Panics
/// Outside an executor.
pub fn now() -> u64 {
    let scheduler = here();
    scheduler.locked(|| scheduler.now())
}

/// Waits until `deadline`, in nanoseconds of the executor's time.
///
/// The future is ready at once if the deadline has been reached.
///
/// The timer starts when the future is first polled. That poll panics outside an executor. It also
/// panics in a [`SharedExecutor`](crate::SharedExecutor), whose coroutines use
/// [`workers::sleep_until`](crate::workers::sleep_until).
pub fn sleep_until(deadline: u64) -> Sleep {
    Sleep::new(Until::Deadline(deadline))
}

/// Waits for `duration`, which runs from the future's first poll.
///
/// That poll panics where [`sleep_until`] says.
pub fn sleep(duration: Duration) -> Sleep {
    Sleep::new(Until::After(nanoseconds(duration)))
}

/// Gives `future` up to `duration`, which runs from the first poll.
///
/// When the time is over, `future` is dropped with the `Timeout`.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use std::time::Duration;
/// use corank::{Priority, coroutine_run, sync::Event, time::{Elapsed, timeout}};
///
/// coroutine_run(async {
///     let never = Event::new();
///     assert_eq!(timeout(Duration::from_millis(1), never.wait()).await, Err(Elapsed));
/// }, Priority::DEFAULT).unwrap();
/// # }
/// ```
///
/// # Errors
/// [`Elapsed`] if the time was over first. If both happen between two polls, the output counts.
pub fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    Timeout::new(future, sleep(duration))
}

/// Converts a duration to nanoseconds, at most `u64::MAX`, which is 584 years.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Future of [`sleep`] and [`sleep_until`].
#[must_use = "a future does nothing unless awaited"]
pub struct Sleep<O: Ownership = Local> {
    until: Cell<Until>,
    timer: Timer,
    /// The scheduler in whose heap the timer may be.
    ///
    /// Of a shared scheduler we keep an anchor; one of one thread is there while the timer waits.
    scheduler: Cell<Option<NonNull<Scheduler>>>,
    _place: PhantomData<O>,
}

#[derive(Clone, Copy)]
pub(crate) enum Until {
    Deadline(u64),
    /// Nanoseconds from the first poll.
    After(u64),
}

// SAFETY: while `scheduler` names one, the timer is touched under its scheduler lock, and it is
// kept by our anchor; before and after, by the owner of the future.
#[cfg(feature = "alloc")]
unsafe impl Send for Sleep<crate::ownership::Shared> {}

impl<O: Ownership> Future for Sleep<O> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.as_ref().get_ref();
        if let Some(scheduler) = this.scheduler() {
            match scheduler.locked(|| this.poll_held(scheduler, cx)) {
                Stage::Waiting => return Poll::Pending,
                Stage::Fired | Stage::Idle => this.let_go(),
            }
        }
        if this.timer.stage() == Stage::Fired {
            return Poll::Ready(());
        }
        let scheduler = here();
        assert!(
            scheduler.is_shared() == O::SHARED,
            "a sleep of corank::time was polled in a SharedExecutor, or one of corank::workers elsewhere: use the other one"
        );
        let stage = scheduler.locked(|| match this.start(scheduler) {
            true => Some(this.poll_held(scheduler, cx)),
            false => None,
        });
        let Some(stage) = stage else {
            return budget::poll_proceed(cx);
        };
        if stage != Stage::Waiting {
            this.let_go();
        }
        match stage {
            Stage::Fired => Poll::Ready(()),
            Stage::Waiting | Stage::Idle => Poll::Pending,
        }
    }
}

impl<O: Ownership> Sleep<O> {
    pub(crate) fn new(until: Until) -> Self {
        Self {
            until: Cell::new(until),
            timer: Timer::new(),
            scheduler: Cell::new(None),
            _place: PhantomData,
        }
    }

    /// Returns the scheduler in whose heap the timer may be, while that is known to be there.
    fn scheduler(&self) -> Option<&Scheduler> {
        let scheduler = self.scheduler.get()?;
        if !O::SHARED && self.timer.stage() != Stage::Waiting {
            return None;
        }
        // SAFETY: our anchor keeps it; or it is of this thread, and would have abandoned the timer
        // before it went.
        Some(unsafe { scheduler.as_ref() })
    }

    /// Forgets the scheduler, and gives back its anchor: the timer is in no heap any more.
    fn let_go(&self) {
        if let Some(scheduler) = self.scheduler.take()
            && O::SHARED
        {
            Scheduler::unanchor(scheduler);
        }
    }

    /// Starts the timer, by the owner; returns false if there is nothing to wait for.
    fn start(&self, scheduler: &Scheduler) -> bool {
        let now = scheduler.now();
        let deadline = match self.until.get() {
            Until::Deadline(deadline) => deadline,
            Until::After(duration) => now.saturating_add(duration),
        };
        self.until.set(Until::Deadline(deadline));
        if deadline <= now {
            return false;
        }
        if O::SHARED {
            scheduler.anchor();
        }
        self.scheduler.set(Some(scheduler.pointer()));
        // SAFETY: the timer is part of the pinned future, whose `drop` cancels it.
        unsafe {
            let timer = Pin::new_unchecked(&self.timer);
            scheduler.set_timer(timer, deadline);
        }
        true
    }

    /// Makes the timer wake what polls now, by the owner, unless it has fired or was abandoned.
    fn poll_held(&self, scheduler: &Scheduler, cx: &Context<'_>) -> Stage {
        scheduler.assert_owned();
        if self.timer.stage() == Stage::Waiting && self.timer.sleeper() != context::current() {
            scheduler.hand_over_timer(&self.timer);
        }
        if self.timer.stage() == Stage::Waiting && !self.timer.remembers(cx) {
            let new = scheduler.unlocked(|| StoredWaker::new(cx.waker().clone()));
            let old = self.timer.remember(new);
            scheduler.unlocked(|| drop(old));
        }
        // It may have fired meanwhile.
        self.timer.stage()
    }
}

impl<O: Ownership> Drop for Sleep<O> {
    fn drop(&mut self) {
        if let Some(scheduler) = self.scheduler() {
            scheduler.locked(|| {
                scheduler.assert_owned();
                if self.timer.stage() == Stage::Waiting {
                    scheduler.cancel_timer(&self.timer);
                }
            });
            self.let_go();
        }
    }
}

impl<O: Ownership> fmt::Debug for Sleep<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").finish_non_exhaustive()
    }
}

/// Future of [`timeout`].
#[must_use = "a future does nothing unless awaited"]
#[derive(Debug)]
pub struct Timeout<F, O: Ownership = Local> {
    future: F,
    sleep: Sleep<O>,
}

impl<F, O: Ownership> Timeout<F, O> {
    pub(crate) fn new(future: F, sleep: Sleep<O>) -> Self {
        Self { future, sleep }
    }
}

/// The error of a time limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time limit was reached")
    }
}

impl core::error::Error for Elapsed {}

impl<F: Future, O: Ownership> Future for Timeout<F, O> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `future` is pinned whenever the `Timeout` is: nothing moves it out, and there is
        // no `Drop`.
        let future = unsafe { self.as_mut().map_unchecked_mut(|this| &mut this.future) };
        if let Poll::Ready(output) = future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        // SAFETY: as above, for `sleep`.
        let sleep = unsafe { self.map_unchecked_mut(|this| &mut this.sleep) };
        sleep.poll(cx).map(|()| Err(Elapsed))
    }
}

/// A periodic timer that does not drift: each tick is due one period after the one before was
/// *due*.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use std::time::Duration;
/// use corank::{Priority, coroutine_run, time::Ticker};
///
/// coroutine_run(async {
///     let mut ticker = Ticker::new(Duration::from_millis(1));
///     let first = ticker.tick().await;
///     assert_eq!(ticker.tick().await, first + 1_000_000);
/// }, Priority::DEFAULT).unwrap();
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Ticker<O: Ownership = Local> {
    period: u64,
    /// When the next tick is due; set by the first call.
    due: Option<u64>,
    _place: PhantomData<O>,
}

impl Ticker {
    /// Makes a ticker, whose first tick is due one period after [`tick`](Self::tick) is first
    /// called.
    ///
    /// # Panics
    /// If the period is zero.
    pub const fn new(period: Duration) -> Self {
        Self::every(period)
    }
}

impl<O: Ownership> Ticker<O> {
    pub(crate) const fn every(period: Duration) -> Self {
        let nanoseconds = period.as_nanos();
        assert!(nanoseconds > 0, "a ticker's period is not zero");
        Self {
            period: if nanoseconds > u64::MAX as u128 {
                u64::MAX
            } else {
                nanoseconds as u64
            },
            due: None,
            _place: PhantomData,
        }
    }

    /// Waits for the next tick and returns when it was due, in nanoseconds.
    ///
    /// Ticks that were missed come one by one, at once. A call that is dropped has not used its
    /// tick.
    pub async fn tick(&mut self) -> u64 {
        let due = match self.due {
            Some(due) => due,
            None => now().saturating_add(self.period),
        };
        self.due = Some(due);
        Sleep::<O>::new(Until::Deadline(due)).await;
        self.due = Some(due.saturating_add(self.period));
        due
    }
}
