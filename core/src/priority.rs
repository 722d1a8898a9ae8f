//! Priorities: 64 levels, 0 the most urgent, and sets of levels in one word.

pub(crate) mod policy;
pub(crate) mod published;

use core::cell::Cell;
use core::fmt;

/// The number of levels.
pub const LEVELS: usize = 64;

/// A level of urgency: 0 is the most urgent, 63 the least (rule P1).
///
/// `Ord` follows the number, so the *smaller* priority is the more urgent one.
/// [`Priority::is_more_urgent_than`] avoids that trap.
///
/// ```
/// use corank::Priority;
/// let network = Priority::at::<3>();
/// assert!(network.is_more_urgent_than(Priority::DEFAULT));
/// assert_eq!(Priority::new(3), Some(network));
/// assert_eq!(Priority::new(64), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Priority(u8);

impl Priority {
    /// Level 0.
    pub const MOST_URGENT: Self = Self(0);
    /// Level 8, for work that others wait for.
    pub const URGENT: Self = Self(8);
    /// Level 32, the default (rule P2).
    pub const DEFAULT: Self = Self(32);
    /// Level 48, for work that may wait.
    pub const BULK: Self = Self(48);
    /// Level 63.
    pub const LEAST_URGENT: Self = Self(63);

    /// Returns the priority of a level that is known when the program is compiled.
    ///
    /// ```
    /// use corank::Priority;
    ///
    /// assert_eq!(Priority::at::<8>().level(), 8);
    /// ```
    ///
    /// A level from 64 on does not compile:
    ///
    /// ```compile_fail,E0080
    /// corank::Priority::at::<64>();
    /// ```
    #[must_use]
    pub const fn at<const LEVEL: u8>() -> Self {
        const { assert!(LEVEL < LEVELS as u8, "a priority is a level from 0 to 63") };
        Self(LEVEL)
    }

    /// Returns the priority of `level`, or `None` from 64 on.
    ///
    /// [`at`](Self::at) is for a level that is known when the program is compiled.
    pub const fn new(level: u8) -> Option<Self> {
        if level < LEVELS as u8 {
            Some(Self(level))
        } else {
            None
        }
    }

    /// Returns the level as a number from 0 to 63.
    pub const fn level(self) -> u8 {
        self.0
    }

    /// Tests whether this priority has to run before `other`.
    pub const fn is_more_urgent_than(self, other: Self) -> bool {
        self.0 < other.0
    }

    /// Makes a priority of a level that is known to be below 64, such as one read back from a
    /// control block.
    pub(crate) const fn of_valid(level: u8) -> Self {
        debug_assert!(level < LEVELS as u8);
        Self(level)
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl TryFrom<u8> for Priority {
    type Error = PriorityOutOfRange;

    fn try_from(level: u8) -> Result<Self, PriorityOutOfRange> {
        Self::new(level).ok_or(PriorityOutOfRange(level))
    }
}

/// A level or none, in one byte.
///
/// An `Option<Priority>` takes two bytes, and two comparisons.
#[repr(transparent)]
pub(crate) struct LevelCell(Cell<u8>);

impl LevelCell {
    const EMPTY: u8 = LEVELS as u8;

    pub(crate) const fn new() -> Self {
        Self(Cell::new(Self::EMPTY))
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<Priority> {
        let level = self.0.get();
        (level != Self::EMPTY).then_some(Priority(level))
    }

    /// Tests whether this is the level: one comparison of bytes.
    #[inline]
    pub(crate) fn is(&self, level: Option<Priority>) -> bool {
        self.0.get() == level.map_or(Self::EMPTY, Priority::level)
    }

    #[inline]
    pub(crate) fn set(&self, level: Option<Priority>) {
        self.0.set(level.map_or(Self::EMPTY, Priority::level));
    }
}

impl fmt::Debug for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Priority({})", self.0)
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number that is no priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityOutOfRange(pub u8);

impl fmt::Display for PriorityOutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not a priority: use 0 (most urgent) to 63", self.0)
    }
}

impl core::error::Error for PriorityOutOfRange {}

/// A set of levels in one word: bit *i* is level *i* (rule P3).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Levels(u64);

impl Levels {
    /// The set without any level.
    pub const NONE: Self = Self(0);
    /// The set of all levels.
    pub const ALL: Self = Self(u64::MAX);

    /// Makes the set of this level and all that are less urgent.
    #[must_use]
    pub const fn from_level(level: Priority) -> Self {
        Self(u64::MAX << level.0)
    }

    /// Makes the set of all levels that are more urgent than this one.
    #[must_use]
    pub const fn above(level: Priority) -> Self {
        Self(!(u64::MAX << level.0))
    }

    /// Returns the levels that are in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Makes the set with these bits.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Makes the set of this level alone, or of none.
    #[inline]
    pub(crate) fn of(level: Option<Priority>) -> Self {
        level.map_or(Self::NONE, |level| Self::NONE.with(level))
    }

    /// Returns the word.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Tests whether no level is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Tests whether `priority`'s level is in the set.
    pub const fn contains(self, priority: Priority) -> bool {
        self.0 >> priority.0 & 1 != 0
    }

    /// Returns the set with `priority`'s level.
    #[must_use]
    pub const fn with(self, priority: Priority) -> Self {
        Self(self.0 | 1 << priority.0)
    }

    /// Returns the set without `priority`'s level.
    #[must_use]
    pub const fn without(self, priority: Priority) -> Self {
        Self(self.0 & !(1 << priority.0))
    }

    /// Returns the levels that are in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the most urgent level: one count-trailing-zeros (rule O1).
    pub const fn most_urgent(self) -> Option<Priority> {
        if self.0 == 0 {
            None
        } else {
            Some(Priority(self.0.trailing_zeros() as u8))
        }
    }
}

impl fmt::Debug for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries((0..LEVELS as u8).filter(|&level| self.contains(Priority(level))))
            .finish()
    }
}
