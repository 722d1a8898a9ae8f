//! A table whose places are used again, and that a process pays for.
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
    places: Segments<Place<T>>,
    /// The first free place, or one behind the last.
    free: usize,
    length: usize,
}

#[derive(Debug)]
enum Place<T> {
    /// The number is that of the next free place.
    Free(usize),
    Taken(T),
}

impl<T> Slots<T> {
    /// Returns a table without places, which costs nothing.
    pub(crate) const fn new() -> Slots<T> {
        Slots {
            places: Segments::new(),
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
        self.places.capacity()
    }

    /// Makes room for another value, at the expense of this account, always the same one.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub(crate) fn reserve(&mut self, account: &Arc<Account>) -> Result<(), OutOfMemory> {
        if self.free < self.places.len() {
            return Ok(());
        }
        self.places.reserve(account)
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
        match self.places.get_mut(number) {
            Some(place) => match core::mem::replace(place, Place::Taken(value)) {
                Place::Free(next) => self.free = next,
                Place::Taken(_) => unreachable!("a free place is not taken"),
            },
            None => {
                self.places
                    .push(account, Place::Taken(value))
                    .map_err(|_| OutOfMemory)?;
                self.free = number + 1;
            }
        }
        self.length += 1;
        Ok(number)
    }

    /// Takes a value out, if there is one with this number.
    pub(crate) fn try_remove(&mut self, number: usize) -> Option<T> {
        let place = self.places.get_mut(number)?;
        if let Place::Free(_) = place {
            return None;
        }
        match core::mem::replace(place, Place::Free(self.free)) {
            Place::Taken(value) => {
                self.free = number;
                self.length -= 1;
                Some(value)
            }
            Place::Free(_) => None,
        }
    }

    /// Takes a value out.
    ///
    /// # Panics
    /// If there is none with this number.
    pub(crate) fn remove(&mut self, number: usize) -> T {
        self.try_remove(number).expect("a value has the number")
    }

    /// Drops up to so many places from the end of a table without values.
    ///
    /// So its drop need not visit all of them at once. Returns false if none is left.
    pub(crate) fn drop_places(&mut self, most: usize) -> bool {
        debug_assert!(self.length == 0, "a table with values");
        for _ in 0..most {
            if self.places.pop().is_none() {
                self.free = 0;
                return false;
            }
        }
        // No place that is left is known to be free: nothing is inserted any more.
        true
    }

    /// Returns the value with this number.
    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        match self.places.get(number) {
            Some(Place::Taken(value)) => Some(value),
            _ => None,
        }
    }

    /// Returns the value with this number, to change.
    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        match self.places.get_mut(number) {
            Some(Place::Taken(value)) => Some(value),
            _ => None,
        }
    }

    /// Returns the bound of the numbers that were ever given out.
    ///
    /// All are below it.
    pub(crate) fn bound(&self) -> usize {
        self.places.len()
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
