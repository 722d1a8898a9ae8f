//! The choice of the level that the next pick takes from (rules O1, B1 to B3), and the parameter of
//! demotion (rules B7, B8, B13).

use core::cell::Cell;
use core::num::NonZeroU32;
use core::time::Duration;

use crate::priority::{LEVELS, Levels, Priority};

/// How an executor chooses among the levels that have ready coroutines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// Always takes the most urgent level. A level that never empties starves those below it.
    #[default]
    Strict,
    /// Works as `Strict`, but each `every`-th pick is reserved.
    ///
    /// A reserved pick takes the next non-empty level in cyclic order.
    ///
    /// The bound: a ready coroutine with `q` others before it on its level is picked after at most
    /// `every × 64 × (q + 1)` picks, however busy the other levels are. With `every = 1` all levels
    /// share alike.
    Bounded {
        /// Distance between reserved picks.
        every: NonZeroU32,
    },
}

impl Policy {
    /// Returns [`Policy::Bounded`] with each `every`-th pick reserved; `Strict` for 0.
    pub const fn bounded(every: u32) -> Self {
        match NonZeroU32::new(every) {
            Some(every) => Self::Bounded { every },
            None => Self::Strict,
        }
    }
}

/// Demotes coroutines that compute for long, for loads with a heavy tail (rules B7 to B14).
///
/// A coroutine whose polls since it last waited have taken a *quantum* is behind the others of its
/// level, and after each further quantum, two at most, [`levels`](Self::levels) levels lower. So it
/// is passed over by coroutines that are short, or have just begun, without knowing in advance
/// which ones are. A coroutine that waits has its level again at once. What it inherits is never
/// lowered.
///
/// The bounds, with `q` others before a coroutine in its queue: one that was demoted is picked
/// after at most `16 × (q + 1)` picks from its level, another one after `q + 2 + q / 15`.
///
/// It works beside either [`Policy`], in constant time. A poll cannot be demoted in its middle, so
/// a coroutine that computes for long has to [yield](crate::yield_now).
///
/// ```
/// use core::time::Duration;
/// use corank::{Config, Demotion};
///
/// // After 100 µs behind its own level, after 200 µs behind the next eight as well.
/// let demotion = Demotion::after(Duration::from_micros(100)).levels(8);
/// let config = Config::new().demotion(demotion);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Demotion {
    /// Nanoseconds of a unit of use; 0 if each poll is a unit.
    unit: u32,
    /// Units of a quantum; 0 if nothing is demoted.
    quantum: u8,
    levels: u8,
}

impl Demotion {
    /// The largest number of units in a quantum, and the number of those in a time.
    pub const UNITS: u8 = 32;
    /// The largest number of demotions.
    const MOST: u8 = 3;
    /// No demotion.
    pub(crate) const OFF: Self = Self {
        unit: 0,
        quantum: 0,
        levels: 0,
    };

    /// Demotes after this time, by the executor's [`clock`](crate::Config::clock).
    ///
    /// The executor reads the clock before each poll, and after one that yields. Each poll counts
    /// as a 32nd of the quantum at least. Without a clock only the times count that are passed to
    /// [`Executor::advance`](crate::Executor::advance).
    ///
    /// The quantum is a multiple of 32 ns, rounded up, and 2 minutes at most.
    pub const fn after(quantum: Duration) -> Self {
        let unit = quantum.as_nanos().div_ceil(Self::UNITS as u128);
        Self {
            unit: if unit == 0 {
                1
            } else if unit > u32::MAX as u128 {
                u32::MAX
            } else {
                unit as u32
            },
            quantum: Self::UNITS,
            levels: 0,
        }
    }

    /// Demotes after this number of polls, 1 to 32; a number beyond counts as the nearest of these.
    ///
    /// For executors without a clock, and for coroutines that yield after equal pieces of work.
    pub const fn after_polls(polls: u8) -> Self {
        Self {
            unit: 0,
            quantum: match polls {
                0 => 1,
                1..=Self::UNITS => polls,
                _ => Self::UNITS,
            },
            levels: 0,
        }
    }

    /// Sets how many levels each demotion beyond the first lowers a coroutine: 0 if not set, 63 at
    /// most.
    pub const fn levels(self, levels: u8) -> Self {
        let lowest = LEVELS as u8 - 1;
        Self {
            levels: if levels < lowest { levels } else { lowest },
            ..self
        }
    }

    /// Tests whether coroutines are demoted at all.
    pub(crate) const fn is_on(self) -> bool {
        self.quantum > 0
    }

    /// Tests whether the quantum is a time.
    pub(crate) const fn counts_time(self) -> bool {
        self.unit > 0
    }

    /// Returns the units that a poll of so many nanoseconds has begun.
    pub(crate) fn units(self, nanoseconds: u64) -> u8 {
        let nanoseconds = u32::try_from(nanoseconds).unwrap_or(u32::MAX);
        let whole = nanoseconds.checked_div(self.unit).unwrap_or(0);
        u8::try_from(whole).unwrap_or(u8::MAX).saturating_add(1)
    }

    /// Returns how often a coroutine is demoted that has used so many units (rule B8).
    pub(crate) fn demotions(self, used: u8) -> u8 {
        used.checked_div(self.quantum).unwrap_or(0).min(Self::MOST)
    }

    /// Returns the own level of a coroutine of this base level after so many demotions (rule B8).
    pub(crate) fn lower(self, base: Priority, demotions: u8) -> Priority {
        let by = demotions.saturating_sub(1) * self.levels;
        Priority::of_valid((base.level() + by).min(LEVELS as u8 - 1))
    }
}

/// A policy and its memory.
#[derive(Debug)]
pub(crate) struct Chooser {
    /// Distance between reserved picks; 0 if every pick takes the head of the most urgent level.
    every: u32,
    /// The reasons why a pick is not simply one of [`Policy::Bounded`].
    mode: Cell<Mode>,
    /// Picks since the last reserved one.
    picks: Cell<u32>,
    /// The level at which the next reserved pick starts to search.
    cursor: Cell<u8>,
}

/// A set of the constants below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mode(u8);

impl Mode {
    /// Picks are strict for the time being.
    const PAUSED: u8 = 1 << 0;
    /// Picks are always strict.
    const STRICT: u8 = 1 << 1;
    /// Levels have a second queue, of demoted coroutines.
    const DEMOTES: u8 = 1 << 2;

    const fn has(self, any: u8) -> bool {
        self.0 & any != 0
    }
}

impl Chooser {
    pub(crate) const fn new(policy: Policy, demotion: Demotion) -> Self {
        let (every, mode) = match policy {
            Policy::Bounded { every } => (every.get(), 0),
            Policy::Strict if demotion.is_on() => (u32::MAX, Mode::STRICT),
            Policy::Strict => (0, Mode::STRICT),
        };
        let demotes = if demotion.is_on() { Mode::DEMOTES } else { 0 };
        Self {
            every,
            mode: Cell::new(Mode(mode | demotes)),
            picks: Cell::new(0),
            cursor: Cell::new(0),
        }
    }

    /// Makes all picks strict until `paused` is false again.
    ///
    /// Picks in between are not counted.
    pub(crate) fn pause(&self, paused: bool) {
        let mode = self.mode.get().0 & !Mode::PAUSED;
        let paused = if paused { Mode::PAUSED } else { 0 };
        self.mode.set(Mode(mode | paused));
    }

    /// Tests whether picks are strict for the time being.
    pub(crate) fn is_paused(&self) -> bool {
        self.mode.get().has(Mode::PAUSED)
    }

    /// Tests whether every pick takes the head of the most urgent level.
    #[inline]
    pub(crate) fn is_simple(&self) -> bool {
        self.every == 0
    }

    /// Tests whether levels have second queues.
    #[inline]
    pub(crate) fn demotes(&self) -> bool {
        self.mode.get().has(Mode::DEMOTES)
    }

    /// Returns the level that the next pick takes from, and counts a pick.
    ///
    /// It is one of `ready`, whose most urgent level is given.
    #[inline]
    pub(crate) fn choose(&self, ready: &Cell<Levels>, most_urgent: Priority) -> Priority {
        if self.mode.get().has(Mode::PAUSED | Mode::STRICT) {
            return most_urgent;
        }
        self.count(ready, most_urgent)
    }

    /// Counts a pick of the bounded policy and returns its level.
    #[inline]
    fn count(&self, ready: &Cell<Levels>, most_urgent: Priority) -> Priority {
        let picks = self.picks.get() + 1;
        if picks < self.every {
            self.picks.set(picks);
            return most_urgent;
        }
        self.picks.set(0);
        let cursor = self.cursor.get();
        let distance = ready
            .get()
            .bits()
            .rotate_right(u32::from(cursor))
            .trailing_zeros() as u8;
        let level = (cursor + distance) % LEVELS as u8;
        self.cursor.set((level + 1) % LEVELS as u8);
        Priority::of_valid(level)
    }
}
