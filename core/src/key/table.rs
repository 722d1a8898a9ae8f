//! Where the state of each key is: a hash table on the heap, or slots.

use core::cell::Cell;
use core::fmt;
use core::pin::Pin;

use crate::ownership::{Local, Ownership};
use crate::scheduling::waiter::Wakeup;
use crate::sync::permits::Permits;
use crate::sync::queue::Entry;

/// The most signals that one key keeps, since they do not accumulate (rule K3).
const MOST: usize = 1;

/// A key that is waited for or signalled.
pub(super) struct KeyState<O> {
    signals: Permits<O>,
    /// Waits that were let through and not polled since.
    ///
    /// They keep the key in the table, so that one which is dropped can give its signal back
    /// without asking for room.
    through: Cell<usize>,
}

impl<O: Ownership> KeyState<O> {
    const fn new() -> Self {
        Self {
            signals: Permits::new(0),
            through: Cell::new(0),
        }
    }

    pub(super) fn is_unused(&self) -> bool {
        self.signals.free() == 0 && !self.signals.has_waiters() && self.through.get() == 0
    }

    /// Gives one signal to the most urgent waiter, or keeps it.
    pub(super) fn give(&self) -> Wakeup {
        if self.signals.has_waiters() {
            self.through.set(self.through.get() + 1);
        }
        self.signals.give(MOST)
    }

    /// Tests whether there is a signal that no wait has been given.
    #[inline]
    pub(super) fn is_signalled(&self) -> bool {
        self.signals.free() > 0
    }

    /// Uses a signal up if there is one, or else waits for it.
    ///
    /// # Safety
    /// The caller calls [`leave`](Self::leave) before the entry is dropped.
    pub(super) unsafe fn take_or_queue(&self, entry: Pin<&Entry<O>>) -> bool {
        let there = self.signals.take();
        if !there {
            // SAFETY: the caller's promise.
            unsafe { self.signals.queue(entry) };
        }
        there
    }

    /// Records that a wait that was let through has seen it.
    pub(super) fn used(&self) {
        self.through.set(self.through.get() - 1);
    }

    /// Removes the entry of a wait that is dropped.
    pub(super) fn remove(&self, entry: &Entry<O>) {
        self.signals.remove(entry);
    }

    /// Gives a signal again after the wait that it let through was dropped without using it (rule
    /// K5).
    pub(super) fn give_again(&self) -> Wakeup {
        self.used();
        self.give()
    }
}

/// Room for one key, for [`Keys::in_slots`](super::Keys::in_slots).
pub struct KeySlot<O: Ownership = Local>(Option<(u64, KeyState<O>)>);

impl KeySlot {
    /// Creates an empty slot.
    #[must_use]
    pub const fn new() -> Self {
        Self(None)
    }
}

impl<O: Ownership> KeySlot<O> {
    fn has(&self, key: u64) -> bool {
        self.0.as_ref().is_some_and(|(known, _)| *known == key)
    }
}

impl Default for KeySlot {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Ownership> fmt::Debug for KeySlot<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.0.as_ref().map(|(key, _)| key);
        f.debug_tuple("KeySlot").field(&key).finish()
    }
}

pub(super) enum Table<O: Ownership> {
    #[cfg(feature = "alloc")]
    Heap(hashbrown::HashMap<u64, KeyState<O>>),
    Slots(&'static mut [KeySlot<O>]),
}

impl<O: Ownership> Table<O> {
    #[cfg(feature = "alloc")]
    pub(super) fn new() -> Self {
        Self::Heap(hashbrown::HashMap::new())
    }

    pub(super) fn get(&self, key: u64) -> Option<&KeyState<O>> {
        match self {
            #[cfg(feature = "alloc")]
            Self::Heap(map) => map.get(&key),
            Self::Slots(slots) => {
                let slot = slots.iter().find(|slot| slot.has(key))?;
                slot.0.as_ref().map(|(_, state)| state)
            }
        }
    }

    /// Returns the state of a key, unused if the key is new.
    ///
    /// Returns `None` if there is no room for it.
    pub(super) fn get_or_insert(&mut self, key: u64) -> Option<&KeyState<O>> {
        match self {
            #[cfg(feature = "alloc")]
            Self::Heap(map) => {
                if map.try_reserve(1).is_err() && !map.contains_key(&key) {
                    return None;
                }
                Some(map.entry(key).or_insert_with(KeyState::new))
            }
            Self::Slots(slots) => {
                let at = slots
                    .iter()
                    .position(|slot| slot.has(key))
                    .or_else(|| slots.iter().position(|slot| slot.0.is_none()))?;
                let (_, state) = slots[at].0.get_or_insert((key, KeyState::new()));
                Some(state)
            }
        }
    }

    pub(super) fn remove(&mut self, key: u64) {
        match self {
            #[cfg(feature = "alloc")]
            Self::Heap(map) => drop(map.remove(&key)),
            Self::Slots(slots) => {
                if let Some(slot) = slots.iter_mut().find(|slot| slot.has(key)) {
                    slot.0 = None;
                }
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            #[cfg(feature = "alloc")]
            Self::Heap(map) => map.len(),
            Self::Slots(slots) => slots.iter().filter(|slot| slot.0.is_some()).count(),
        }
    }
}
