//! Identifiers of coroutines.

use core::fmt;
use core::sync::atomic::Ordering;

use crate::atomic::unexplored::AtomicUsize;

/// The name of one coroutine of one executor, for ever.
///
/// When its slot in the table is used again, the generation has changed, and the old identifier is
/// refused (rule C2). Identifiers of different executors are not comparable.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CoroutineId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl CoroutineId {
    /// Returns the identifier as one number, for interfaces that carry it as an integer.
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// Returns the identifier that [`to_bits`](Self::to_bits) gave.
    ///
    /// Any number is safe: one that names nothing is refused where it is used.
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            index: bits as u32,
            generation: (bits >> 32) as u32,
        }
    }
}

impl fmt::Debug for CoroutineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CoroutineId({}.{})", self.index, self.generation)
    }
}

impl fmt::Display for CoroutineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

/// Returns a number that no other executor of the program has.
///
/// It is for names that outlive an executor: an address is used again. The number is as wide as a
/// pointer. When all numbers are used up, every further executor gets 0, which names none.
pub(crate) fn next_serial() -> usize {
    static LAST: AtomicUsize = AtomicUsize::new(0);
    let next = |last: usize| last.checked_add(1);
    match LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
        Ok(last) => last + 1,
        Err(_) => 0,
    }
}
