//! Decides which spare workers are on duty, and lets the others sleep.
//!
//! While no poll lasts, all of them sleep, and nothing is paid for them. A worker whose poll has
//! lasted puts one on duty. That one goes back to sleep some time after the last such poll. A
//! second one is needed only while the first is itself inside a poll that does not end. The
//! [watchdog](crate::watchdog) finds that, and it starts the threads.
//!
//! ```text
//!            call                   begin_polling
//!   asleep ────────▶ on duty, free ───────────────▶ on duty, polls
//!          ◀────────               ◀───────────────
//!            sleep                   end_polling
//! ```

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(loom)]
use loom::sync::{Condvar, Mutex, MutexGuard};
use std::sync::PoisonError;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// The default of [`Builder::spare_workers`](crate::Builder::spare_workers).
pub const SPARE_WORKER_AFTER: Duration = Duration::from_micros(200);

/// The shortest time after which a spare worker polls.
pub(crate) const SHORTEST: Duration = Duration::from_micros(20);

/// Counts the spare workers of a runtime by what they do.
pub(crate) struct SparePool {
    /// Set by a worker whose poll has lasted; cleared by the last spare worker that goes to sleep.
    long_poll: AtomicBool,
    /// Set while no spare worker is on duty.
    asleep: AtomicBool,
    counts: Mutex<Counts>,
    called: Condvar,
}

#[derive(Default)]
struct Counts {
    /// Those on duty, including those that poll and those that were called and still sleep.
    on_duty: usize,
    /// Those on duty that poll in the place of a worker.
    polling: usize,
    asleep: usize,
    /// Those that sleep and were called.
    called: usize,
    /// Another one was needed, and none was asleep.
    wanted: bool,
    /// How often one began to poll in the place of a worker.
    takeovers: u64,
    stopped: bool,
}

impl Counts {
    fn has_another(&self) -> bool {
        self.on_duty > self.polling + 1
    }
}

impl SparePool {
    pub(crate) fn new() -> Self {
        Self {
            long_poll: AtomicBool::new(false),
            asleep: AtomicBool::new(true),
            counts: Mutex::new(Counts::default()),
            called: Condvar::new(),
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a spare worker on duty unless one is; called by a worker whose poll has lasted.
    ///
    /// If there is none, the next [`needs_thread`](Self::needs_thread) says so.
    pub(crate) fn note_long_poll(&self) {
        self.long_poll.store(true, Ordering::Relaxed);
        // Either a spare worker that goes to sleep sees the poll, or this sees that it sleeps.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            let mut counts = self.counts();
            if counts.on_duty == 0 && !self.call(&mut counts) {
                counts.wanted = true;
            }
        }
    }

    /// Puts a sleeping spare worker on duty; returns false if there is none.
    fn call(&self, counts: &mut Counts) -> bool {
        let sleeps = counts.asleep > counts.called;
        if sleeps {
            counts.called += 1;
            self.put_on_duty(counts);
            self.called.notify_one();
        }
        sleeps
    }

    fn put_on_duty(&self, counts: &mut Counts) {
        counts.on_duty += 1;
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Sees to it that a spare worker is on duty if the poll of a worker lasts at this moment, or
    /// one was wanted before, and that another one is if the poll of a spare worker lasts.
    ///
    /// Returns true if the caller is to start a thread for one more. That counts as on duty from
    /// now on. Called by the watchdog.
    pub(crate) fn needs_thread(&self, worker_lasts: bool, spare_lasts: bool) -> bool {
        let mut counts = self.counts();
        let wanted = std::mem::take(&mut counts.wanted) || worker_lasts;
        if !(spare_lasts || wanted && counts.on_duty == 0)
            || counts.stopped
            || counts.on_duty > counts.polling
            || self.call(&mut counts)
        {
            return false;
        }
        self.put_on_duty(&mut counts);
        true
    }

    /// Takes back what [`needs_thread`](Self::needs_thread) has counted: no thread could be
    /// started.
    pub(crate) fn thread_failed(&self) {
        let mut counts = self.counts();
        counts.on_duty -= 1;
        self.asleep.store(counts.on_duty == 0, Ordering::Relaxed);
    }

    /// Tests whether another spare worker is on duty and free, as the caller is.
    pub(crate) fn has_another(&self) -> bool {
        self.counts().has_another()
    }

    /// Sleeps until this spare worker is needed again, or until the runtime stops.
    ///
    /// Returns at once if it is the last one on duty and a poll has lasted since the last call.
    /// Unless `is_calm`, it also does if no [other one](Self::has_another) is free any more.
    pub(crate) fn sleep(&self, is_calm: bool) {
        let mut counts = self.counts();
        if !is_calm && !counts.has_another() {
            return;
        }
        if counts.on_duty == 1 {
            self.asleep.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if self.long_poll.swap(false, Ordering::Relaxed) {
                self.asleep.store(false, Ordering::Relaxed);
                return;
            }
        }
        counts.on_duty -= 1;
        counts.asleep += 1;
        while counts.called == 0 && !counts.stopped {
            let woken = self.called.wait(counts);
            counts = woken.unwrap_or_else(PoisonError::into_inner);
        }
        counts.asleep -= 1;
        if counts.called > 0 {
            counts.called -= 1;
        } else {
            self.put_on_duty(&mut counts);
        }
    }

    /// Counts a spare worker as polling in the place of a worker.
    pub(crate) fn begin_polling(&self) {
        let mut counts = self.counts();
        counts.polling += 1;
        counts.takeovers += 1;
    }

    /// Returns how many spare workers poll in the place of a worker, and how often one began to.
    #[cfg(not(loom))]
    pub(crate) fn polling_and_takeovers(&self) -> (usize, u64) {
        let counts = self.counts();
        (counts.polling, counts.takeovers)
    }

    /// Ends what [`begin_polling`](Self::begin_polling) began.
    pub(crate) fn end_polling(&self) {
        self.counts().polling -= 1;
    }

    /// Ends every sleep, from now on; no thread is needed any more.
    pub(crate) fn stop(&self) {
        self.counts().stopped = true;
        self.called.notify_all();
    }
}
