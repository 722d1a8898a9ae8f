//! A table whose slots are used again, and that a process pays for.
use super::OutOfMemory;
use super::account::Account;
use super::segments::Segments;
use alloc::sync::Arc;
use core::ops::{Index, IndexMut, Range};

/// Values by numbers that are given out anew when they are free.
///
/// The number of the value that was removed last comes first.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Segments<Slot<T>>,
    /// The first free slot, or one behind the last.
    free: usize,
    length: usize,
}

#[derive(Debug)]
enum Slot<T> {
    /// The number is that of the next free slot.
    Free(usize),
    Taken(T),
}

impl<T> Slots<T> {
    /// Returns a table without slots, which costs nothing.
    pub(crate) const fn new() -> Slots<T> {
        Slots {
            slots: Segments::new(),
            free: 0,
            length: 0,
        }
    }

    /// Returns how many values there are.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Returns how many values there is room for.
    pub(crate) fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// Makes room for another value, at the expense of this account, always the same one.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub(crate) fn reserve(&mut self, account: &Arc<Account>) -> Result<(), OutOfMemory> {
        if self.free < self.slots.len() {
            return Ok(());
        }
        self.slots.reserve(account)
    }

    /// Adds a value, at the expense of this account, always the same one.
    ///
    /// Returns its number.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub(crate) fn insert(
        &mut self,
        account: &Arc<Account>,
        value: T,
    ) -> Result<usize, OutOfMemory> {
        let number = self.free;
        match self.slots.get_mut(number) {
            Some(slot) => match core::mem::replace(slot, Slot::Taken(value)) {
                Slot::Free(next) => self.free = next,
                Slot::Taken(_) => unreachable!("a free slot is not taken"),
            },
            None => {
                self.slots
                    .push(account, Slot::Taken(value))
                    .map_err(|_| OutOfMemory)?;
                self.free = number + 1;
            }
        }
        self.length += 1;
        Ok(number)
    }

    /// Takes a value out, if there is one with this number.
    pub(crate) fn try_remove(&mut self, number: usize) -> Option<T> {
        let slot = self.slots.get_mut(number)?;
        if let Slot::Free(_) = slot {
            return None;
        }
        match core::mem::replace(slot, Slot::Free(self.free)) {
            Slot::Taken(value) => {
                self.free = number;
                self.length -= 1;
                Some(value)
            }
            Slot::Free(_) => None,
        }
    }

    /// Takes a value out.
    ///
    /// # Panics
    /// If there is none with this number.
    pub(crate) fn remove(&mut self, number: usize) -> T {
        self.try_remove(number).expect("a value has the number")
    }

    /// Drops up to so many slots from the end of a table without values.
    ///
    /// So its drop need not visit all of them at once. Returns false if none is left.
    pub(crate) fn drop_slots(&mut self, most: usize) -> bool {
        debug_assert!(self.length == 0, "a table with values");
        for _ in 0..most {
            if self.slots.pop().is_none() {
                self.free = 0;
                return false;
            }
        }
        // No slot that is left is known to be free: nothing is inserted any more.
        true
    }

    /// Returns the value with this number.
    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        match self.slots.get(number) {
            Some(Slot::Taken(value)) => Some(value),
            _ => None,
        }
    }

    /// Returns the value with this number, to change.
    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        match self.slots.get_mut(number) {
            Some(Slot::Taken(value)) => Some(value),
            _ => None,
        }
    }

    /// Returns the bound of the numbers that were ever given out.
    ///
    /// All are below it.
    pub(crate) fn bound(&self) -> usize {
        self.slots.len()
    }

    /// Returns the values with these numbers.
    ///
    /// Checks each number, so the caller bounds the range, by [`bound`](Self::bound) too.
    pub(crate) fn range(&self, numbers: Range<usize>) -> impl Iterator<Item = (usize, &T)> {
        numbers.filter_map(|number| self.get(number).map(|value| (number, value)))
    }
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots::new()
    }
}

impl<T> Index<usize> for Slots<T> {
    type Output = T;

    fn index(&self, number: usize) -> &T {
        self.get(number).expect("a value has the number")
    }
}

impl<T> IndexMut<usize> for Slots<T> {
    fn index_mut(&mut self, number: usize) -> &mut T {
        self.get_mut(number).expect("a value has the number")
    }
}
