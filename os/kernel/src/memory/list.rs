//! A vector that a process pays for.
use super::OutOfMemory;
use super::account::{self, Account, Charge};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

/// Items side by side, whose memory is charged to an account.
///
/// It grows by doubling, and a growth that finds no memory is an error.
#[derive(Debug)]
pub(crate) struct List<T> {
    items: Vec<T>,
    charge: Charge,
}

impl<T> List<T> {
    /// Returns an empty list, which costs nothing.
    pub(crate) const fn new() -> List<T> {
        List {
            items: Vec::new(),
            charge: Charge::none(),
        }
    }

    /// Makes room for so many items more than there are.
    ///
    /// It is done at the expense of this account, always the same one.
    ///
    /// # Errors
    /// When there is no memory for them. The list is as it was.
    pub(crate) fn reserve(
        &mut self,
        account: &Arc<Account>,
        more: usize,
    ) -> Result<(), OutOfMemory> {
        let (length, room) = (self.items.len(), self.items.capacity());
        if more <= room - length {
            return Ok(());
        }
        let target = (length + more).max(2 * room).max(4);
        let bytes = (target - room) * size_of::<T>();
        account::grow(&mut self.charge, account, bytes)?;
        account::make_room(&mut self.items, target - length)
            .inspect_err(|OutOfMemory| self.charge.shrink(bytes))
    }

    /// Adds an item at the end, at the expense of this account, always the same one.
    ///
    /// The item comes back if there is no memory for it.
    pub(crate) fn push(&mut self, account: &Arc<Account>, item: T) -> Result<(), T> {
        if self.items.len() == self.items.capacity() && self.reserve(account, 1).is_err() {
            return Err(item);
        }
        self.items.push(item);
        Ok(())
    }
}

impl<T> Default for List<T> {
    fn default() -> List<T> {
        List::new()
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T> DerefMut for List<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
}
