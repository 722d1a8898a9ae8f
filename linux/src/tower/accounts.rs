//! The accounts of a layer that sheds load: how many requests are admitted and ready on each level,
//! what they take, and how long another one would wait.
//!
//! A request is *ready* from its admission until it waits for something other than a worker, such
//! as a database, and again from its next poll on. What it is polled for meanwhile is a *stretch*:
//!
//! ```text
//!               begin_poll            end_poll(Yields)
//!   admit ──▶ ready ─────▶ polled ─────────▶ ready
//!                             │ end_poll(Waits)           begin_poll
//!                             ├────────────────▶ waiting ───────────▶ polled
//!                             │ end_poll(Ends)
//!                             └────────────────▶ gone, as by a drop in any state
//! ```
//!
//! A request that waits for something else is no load until it is polled again. So a server whose
//! requests mostly wait for a database has short waits, however many requests it serves.
//!
//! All fields are atomic and independent of each other. Two admissions at the same moment may both
//! take the last room, so the accounts are exact and the limit is not, by one request per worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Relaxed};
use std::time::Duration;

use corank::{LEVELS, Priority};

use crate::time::nanoseconds;

/// The time after which the shares of the levels are measured again.
const WINDOW: u64 = nanoseconds(Duration::from_millis(10));
/// The time over which a share is averaged.
const MEMORY: u64 = nanoseconds(Duration::from_millis(50));
/// One, for shares and factors: they are in parts of this.
const ONE: u64 = 1 << 20;
/// The least share of the workers that a level is thought to have, however busy others are.
const LEAST_SHARE: u64 = ONE / 16;
/// The stretches over which their time is averaged.
const AVERAGED: u64 = 128;
/// Parts of a nanosecond in which a mean is kept.
const PARTS: u64 = 1 << 10;
/// The longest time that is averaged: so the parts fit into a word.
const LONGEST: u64 = 1 << 50;
/// A wait beyond its forecast raises the factor by this part of it …
const RAISE: u64 = 32;
/// … and a wait within it lowers the factor by this one. So it rests where one in 200 is beyond.
const LOWER: u64 = 199 * RAISE;
/// The greatest factor.
const GREATEST_FACTOR: u64 = 16 * ONE;
/// Forecasts below this part of the limit say nothing about the factor: most of such a wait is
/// chance.
const TELLING: u64 = 4;

/// The threads that serve the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    pub(super) workers: u64,
    /// The level from which others, as many, serve them.
    pub(super) bulk_from: Option<Priority>,
}

impl Capacity {
    /// Returns the levels that go before a new request of this one, its own included, as bits.
    fn at_least_as_urgent(self, level: Priority) -> u64 {
        let all = u64::MAX >> (LEVELS - 1 - usize::from(level.level()));
        match self.bulk_from {
            Some(from) if level >= from => all & u64::MAX << from.level(),
            _ => all,
        }
    }
}

/// How long a request would wait that is admitted now, its own first stretch included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forecast {
    /// In nanoseconds.
    pub(super) wait: u64,
    /// A worker is free of requests that are at least as urgent.
    pub(super) at_once: bool,
}

/// One level's account.
#[repr(align(64))]
struct Account {
    /// Requests that are ready or polled.
    ready: AtomicU64,
    /// The mean time of a stretch, in parts of a nanosecond; 0 before there was one.
    mean: AtomicU64,
    /// Stretches so far, up to [`AVERAGED`].
    stretches: AtomicU64,
    /// The time of all polls, in nanoseconds.
    polled: AtomicU64,
    /// The same at the beginning of the window.
    polled_before: AtomicU64,
    /// The share of the workers that the level had recently.
    share: AtomicU64,
    /// By what the forecasts are multiplied, because waits have turned out longer.
    factor: AtomicU64,
}

impl Account {
    fn new() -> Self {
        Self {
            ready: AtomicU64::new(0),
            mean: AtomicU64::new(0),
            stretches: AtomicU64::new(0),
            polled: AtomicU64::new(0),
            polled_before: AtomicU64::new(0),
            share: AtomicU64::new(0),
            factor: AtomicU64::new(ONE),
        }
    }

    /// Notes how long a stretch has lasted so far. Until one has ended, that is all that is known,
    /// and the longest is thought to take as long again.
    fn note_first(&self, so_far: u64) {
        if self.stretches.load(Relaxed) == 0 {
            let time = PARTS * so_far.saturating_mul(2).min(LONGEST);
            self.mean.fetch_max(time, Relaxed);
        }
    }

    /// Averages the time of a stretch that has ended. An update that races with another is lost.
    fn note_stretch(&self, time: u64) {
        let count = self.stretches.load(Relaxed) + 1;
        if count <= AVERAGED {
            self.stretches.store(count, Relaxed);
        }
        let mean = self.mean.load(Relaxed);
        let time = PARTS * time.min(LONGEST);
        let step = time.abs_diff(mean) / count.min(AVERAGED);
        let mean = if time > mean {
            mean + step
        } else {
            mean - step
        };
        self.mean.store(mean.max(1), Relaxed);
    }

    /// Corrects the factor by a wait whose forecast was near the limit.
    fn note_wait(&self, forecast: u64, wait: u64) {
        let factor = self.factor.load(Relaxed);
        let factor = if wait > forecast {
            (factor + factor / RAISE).min(GREATEST_FACTOR)
        } else {
            (factor - factor / LOWER).max(ONE)
        };
        self.factor.store(factor, Relaxed);
    }

    /// Averages the share of the workers, by what was polled in a window.
    fn note_window(&self, took: u64, workers: u64) {
        let polled = self.polled.load(Relaxed);
        let before = self.polled_before.swap(polled, Relaxed);
        let recent = part(polled.wrapping_sub(before), took.saturating_mul(workers)).min(ONE);
        let share = self.share.load(Relaxed);
        let weight = took.min(MEMORY);
        let step = |one: u64, other: u64| scale(one - other, weight, MEMORY);
        let share = if recent > share {
            share + step(recent, share)
        } else {
            share - step(share, recent)
        };
        self.share.store(share, Relaxed);
    }
}

/// Returns `value · numerator / denominator`, or the greatest number.
fn scale(value: u64, numerator: u64, denominator: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(numerator) / u128::from(denominator);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Returns how many parts of [`ONE`] one number is of another.
fn part(of: u64, whole: u64) -> u64 {
    scale(of, ONE, whole.max(1))
}

/// The accounts of all levels.
pub(super) struct Accounts {
    levels: [Account; LEVELS],
    /// The levels that have had a request, as bits.
    seen: AtomicU64,
    /// When the window began, in nanoseconds; 0 before the first request.
    window: AtomicU64,
}

/// Iterates over the levels of a word.
fn levels(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let level = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (level < LEVELS).then_some(level)
    })
}

impl Accounts {
    pub(super) fn new() -> Self {
        Self {
            levels: std::array::from_fn(|_| Account::new()),
            seen: AtomicU64::new(0),
            window: AtomicU64::new(0),
        }
    }

    fn of(&self, level: Priority) -> &Account {
        &self.levels[usize::from(level.level())]
    }

    /// Predicts the wait of a request. Costs a few loads for each level that has had requests.
    pub(super) fn forecast(&self, level: Priority, capacity: Capacity, now: u64) -> Forecast {
        self.turn_window(now, capacity.workers);
        let own = usize::from(level.level());
        let (mut ahead, mut work, mut taken) = (0, 0_u64, 0);
        for urgent in levels(self.seen.load(Relaxed) & capacity.at_least_as_urgent(level)) {
            let account = &self.levels[urgent];
            let ready = account.ready.load(Relaxed);
            ahead += ready;
            work = work.saturating_add(ready.saturating_mul(account.mean.load(Relaxed)));
            if urgent != own {
                // Those that come later will pass this one.
                taken += account.share.load(Relaxed);
            }
        }
        let account = self.of(level);
        let work = (work / capacity.workers).saturating_add(account.mean.load(Relaxed)) / PARTS;
        let left = ONE.saturating_sub(taken).max(LEAST_SHARE);
        Forecast {
            wait: scale(work, account.factor.load(Relaxed), left),
            at_once: ahead < capacity.workers,
        }
    }

    /// Measures the shares again if that is due.
    fn turn_window(&self, now: u64, workers: u64) {
        let begun = self.window.load(Relaxed);
        let took = now.saturating_sub(begun);
        let is_due = begun == 0 || took >= WINDOW;
        if !is_due || (self.window.compare_exchange(begun, now, AcqRel, Relaxed)).is_err() {
            return;
        }
        if begun > 0 {
            for level in levels(self.seen.load(Relaxed)) {
                self.levels[level].note_window(took, workers);
            }
        }
    }

    /// Counts a request as ready until its ticket is dropped.
    ///
    /// `limit` is that of its wait, if there is one. Then the forecast is compared with the wait.
    pub(super) fn admit(
        self: &Arc<Self>,
        level: Priority,
        forecast: Forecast,
        limit: Option<u64>,
        now: u64,
    ) -> Ticket {
        self.seen.fetch_or(1 << level.level(), Relaxed);
        self.of(level).ready.fetch_add(1, Relaxed);
        let is_telling = limit.is_some_and(|limit| forecast.wait >= limit / TELLING);
        Ticket {
            accounts: self.clone(),
            level,
            is_ready: true,
            stretch: 0,
            first: is_telling.then_some((now, forecast.wait)),
        }
    }
}

/// What a request does after a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Yields,
    Waits,
    Ends,
}

/// An admitted request's part in the accounts; dropping it gives that back.
pub struct Ticket {
    accounts: Arc<Accounts>,
    level: Priority,
    /// Whether it is counted as ready.
    is_ready: bool,
    /// The time of the polls since it became ready, in nanoseconds.
    stretch: u64,
    /// When it was admitted and its forecast, until its first stretch has ended; `None` if the
    /// forecast says nothing.
    first: Option<(u64, u64)>,
}

impl Ticket {
    pub(super) fn begin_poll(&mut self) {
        if !self.is_ready {
            self.is_ready = true;
            self.account().ready.fetch_add(1, Relaxed);
        }
    }

    /// Notes a poll from `began` to `ended`, in nanoseconds.
    pub(super) fn end_poll(&mut self, began: u64, ended: u64, after: After) {
        let took = ended.saturating_sub(began);
        self.stretch = self.stretch.saturating_add(took);
        self.account().polled.fetch_add(took, Relaxed);
        if after == After::Yields {
            self.account().note_first(self.stretch);
            return;
        }
        let stretch = std::mem::take(&mut self.stretch);
        let mean = self.account().mean.load(Relaxed) / PARTS;
        self.account().note_stretch(stretch);
        if let Some((admitted, forecast)) = self.first.take() {
            // The forecast counts on an average stretch of its own.
            let waited = ended.saturating_sub(admitted).saturating_sub(stretch);
            self.account()
                .note_wait(forecast, waited.saturating_add(mean));
        }
        self.leave();
    }

    fn account(&self) -> &Account {
        self.accounts.of(self.level)
    }

    /// Is no longer ready.
    fn leave(&mut self) {
        if std::mem::take(&mut self.is_ready) {
            self.account().ready.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests;
