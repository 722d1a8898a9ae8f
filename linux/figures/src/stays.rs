//! The state of each coroutine, and since when, by the number of its slot.
//!
//! The memory comes in pages that stay where they are. So there is no copy of all states when one
//! more page is needed, and none while an executor's lock is held. A page that cannot be allocated
//! is an answer, not the end of the process.

use corank::{CoroutineId, Priority};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The slots of a page.
const SLOTS: usize = 256;
/// Directory *k* has two to the power of *k* pages: together as many as there are slots.
const DIRECTORIES: usize = 25;

type Page = Vec<Stay>;
type Directory = Vec<OnceLock<Page>>;

/// The states of the coroutines of one executor.
pub(crate) struct Stays([OnceLock<Directory>; DIRECTORIES]);

/// One coroutine's state.
///
/// One thread at a time changes it: the one that has the executor's lock. The atomics are for the
/// compiler alone.
#[derive(Default)]
pub(crate) struct Stay {
    state: AtomicU32,
    /// When the state began, in nanoseconds of the clock.
    pub(crate) since: AtomicU64,
    /// When its inversion began; 0 if it has none.
    pub(crate) inverted: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No coroutine has this slot, or it is not counted.
    Nowhere,
    Ready(Priority),
    Running {
        level: Priority,
        /// The level at which the poll began.
        began: Priority,
    },
    Blocked,
}

impl Stay {
    pub(crate) fn state(&self) -> State {
        let bits = self.state.load(Ordering::Relaxed);
        let level = |shift: u32| Priority::new((bits >> shift) as u8).unwrap_or_default();
        match bits as u8 {
            0 => State::Nowhere,
            1 => State::Blocked,
            2 => State::Ready(level(8)),
            _ => State::Running {
                level: level(8),
                began: level(16),
            },
        }
    }

    pub(crate) fn set_state(&self, state: State) {
        let number = |level: Priority| u32::from(level.level());
        let bits = match state {
            State::Nowhere => 0,
            State::Blocked => 1,
            State::Ready(level) => 2 | number(level) << 8,
            State::Running { level, began } => 3 | number(level) << 8 | number(began) << 16,
        };
        self.state.store(bits, Ordering::Relaxed);
    }
}

/// Returns the directory of a slot, the page in it, and the entry of the page.
fn split(id: CoroutineId) -> (usize, usize, usize) {
    let slot = id.to_bits() as u32 as usize;
    let page = slot / SLOTS + 1;
    let directory = page.ilog2() as usize;
    (directory, page - (1 << directory), slot % SLOTS)
}

/// Allocates `count` values; `None` if there is no memory.
fn allocate<T>(count: usize, new: fn() -> T) -> Option<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(count).ok()?;
    values.resize_with(count, new);
    Some(values)
}

/// Returns what is in the cell, allocated if it was empty.
fn get_or_allocate<T>(cell: &OnceLock<Vec<T>>, count: usize, new: fn() -> T) -> Option<&Vec<T>> {
    if cell.get().is_none() {
        // Another thread can have filled it only if the executor breaks its promise.
        let _ = cell.set(allocate(count, new)?);
    }
    cell.get()
}

impl Stays {
    pub(crate) fn new() -> Self {
        Self([const { OnceLock::new() }; DIRECTORIES])
    }

    /// Returns the state of a coroutine that was [added](Self::add).
    #[inline]
    pub(crate) fn get(&self, id: CoroutineId) -> Option<&Stay> {
        let (directory, page, entry) = split(id);
        self.0.get(directory)?.get()?.get(page)?.get()?.get(entry)
    }

    /// Returns the state of a coroutine, with new memory if needed; `None` if there is none.
    #[inline]
    pub(crate) fn add(&self, id: CoroutineId) -> Option<&Stay> {
        match self.get(id) {
            Some(stay) => Some(stay),
            None => self.grow(id),
        }
    }

    #[cold]
    fn grow(&self, id: CoroutineId) -> Option<&Stay> {
        let (directory, page, entry) = split(id);
        let pages = get_or_allocate(self.0.get(directory)?, 1 << directory, OnceLock::new)?;
        get_or_allocate(pages.get(page)?, SLOTS, Stay::default)?.get(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coroutine(slot: u32) -> CoroutineId {
        CoroutineId::from_bits(7 << 32 | u64::from(slot))
    }

    #[test]
    fn each_slot_has_a_state_of_its_own() {
        let stays = Stays::new();
        let slots = [0, 1, 255, 256, 767, 768, 100_000];
        for slot in slots {
            assert!(
                stays
                    .get(coroutine(slot))
                    .is_none_or(|stay| stay.state() == State::Nowhere)
            );
            let stay = stays.add(coroutine(slot)).unwrap();
            stay.since.store(slot.into(), Ordering::Relaxed);
            stay.set_state(State::Blocked);
        }
        for slot in slots {
            let stay = stays.get(coroutine(slot)).unwrap();
            assert_eq!(stay.since.load(Ordering::Relaxed), slot.into());
            assert_eq!(stay.state(), State::Blocked);
        }
        assert!(stays.get(coroutine(50_000)).is_none(), "it was not added");
    }

    #[test]
    fn the_last_slot_has_a_place_in_a_directory() {
        let (directory, page, entry) = split(coroutine(u32::MAX));
        assert!(directory < DIRECTORIES && page < 1 << directory && entry == SLOTS - 1);
    }

    #[test]
    fn a_state_is_read_as_it_was_set() {
        let stay = Stay::default();
        assert_eq!(stay.state(), State::Nowhere);
        let (urgent, bulk) = (Priority::MOST_URGENT, Priority::LEAST_URGENT);
        let running = State::Running {
            level: urgent,
            began: bulk,
        };
        for state in [State::Blocked, State::Ready(bulk), running, State::Nowhere] {
            stay.set_state(state);
            assert_eq!(stay.state(), state);
        }
    }
}
