//! A long list that a process pays for, and that never moves.
use super::OutOfMemory;
use super::account::{self, Account, Charge};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// How many items lie side by side at most.
const SEGMENT: usize = 512;

/// How many segments there is first room for, beside the first one.
const SEGMENTS: usize = 4;

/// Items by number, whose memory is charged to an account.
///
/// A growth that finds no memory is an error.
///
/// The first [`SEGMENT`] items lie in one block, which grows by doubling. Each further block has
/// room for as many, and never moves. So a growth copies at most half a segment, and one of up to
/// [`SEGMENT`] items costs what a vector costs.
#[derive(Debug)]
pub(crate) struct Segments<T> {
    first: Vec<T>,
    /// Not empty only where `first` is full. All but the last one are full.
    more: Vec<Vec<T>>,
    length: usize,
    charge: Charge,
}

impl<T> Segments<T> {
    /// Returns an empty one, which costs nothing.
    pub(crate) const fn new() -> Segments<T> {
        Segments {
            first: Vec::new(),
            more: Vec::new(),
            length: 0,
            charge: Charge::none(),
        }
    }

    /// Returns how many items it has.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Returns how many items it has room for.
    pub(crate) fn capacity(&self) -> usize {
        self.first.capacity() + self.more.len() * SEGMENT
    }

    /// Returns the item with this number.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        match self.first.get(number) {
            Some(item) => Some(item),
            None => self.get_behind(number),
        }
    }

    /// Returns the item with this number, to change.
    #[inline]
    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        match self.first.get_mut(number) {
            Some(item) => Some(item),
            None => get_behind_mut(&mut self.more, number),
        }
    }

    #[inline(never)]
    fn get_behind(&self, number: usize) -> Option<&T> {
        let number = number.checked_sub(SEGMENT)?;
        self.more.get(number / SEGMENT)?.get(number % SEGMENT)
    }

    /// Makes room for another item, at the expense of this account, always the same one.
    ///
    /// # Errors
    /// When there is no memory for it. The items are as they were.
    #[inline]
    pub(crate) fn reserve(&mut self, account: &Arc<Account>) -> Result<(), OutOfMemory> {
        if self.place().is_some() {
            return Ok(());
        }
        self.grow(account)
    }

    /// Adds an item at the end, at the expense of this account, always the same one.
    ///
    /// The item comes back if there is no memory for it.
    #[inline]
    pub(crate) fn push(&mut self, account: &Arc<Account>, item: T) -> Result<(), T> {
        match self.place() {
            Some(segment) => segment.push(item),
            None => self.push_grown(account, item)?,
        }
        self.length += 1;
        Ok(())
    }

    #[cold]
    fn push_grown(&mut self, account: &Arc<Account>, item: T) -> Result<(), T> {
        if self.grow(account).is_err() {
            return Err(item);
        }
        if let Some(segment) = self.place() {
            segment.push(item);
        }
        Ok(())
    }

    /// Takes the last item out.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.length = self.length.saturating_sub(1);
        while let Some(last) = self.more.last_mut() {
            if let Some(item) = last.pop() {
                return Some(item);
            }
            self.more.pop();
            self.charge.shrink(SEGMENT * size_of::<T>());
        }
        self.first.pop()
    }

    /// Returns the segment where the next item goes, if there is room for it.
    #[inline]
    fn place(&mut self) -> Option<&mut Vec<T>> {
        let last = match self.more.last_mut() {
            None => &mut self.first,
            Some(last) => last,
        };
        (last.len() < last.capacity()).then_some(last)
    }

    /// Makes room for more items where there is room for none.
    #[cold]
    fn grow(&mut self, account: &Arc<Account>) -> Result<(), OutOfMemory> {
        let charge = &mut self.charge;
        let room = self.first.capacity();
        if room < SEGMENT {
            let target = (2 * room).clamp(4, SEGMENT);
            return make_room(&mut self.first, target - room, charge, account);
        }
        if self.more.len() == self.more.capacity() {
            let more = self.more.len().max(SEGMENTS);
            make_room(&mut self.more, more, charge, account)?;
        }
        let mut segment = Vec::new();
        make_room(&mut segment, SEGMENT, charge, account)?;
        self.more.push(segment);
        Ok(())
    }
}

fn get_behind_mut<T>(more: &mut [Vec<T>], number: usize) -> Option<&mut T> {
    let number = number.checked_sub(SEGMENT)?;
    more.get_mut(number / SEGMENT)?.get_mut(number % SEGMENT)
}

/// Makes room for so many items more in a vector that is full, and charges for it.
fn make_room<T>(
    items: &mut Vec<T>,
    more: usize,
    charge: &mut Charge,
    account: &Arc<Account>,
) -> Result<(), OutOfMemory> {
    let bytes = more * size_of::<T>();
    account::grow(charge, account, bytes)?;
    account::make_room(items, more).inspect_err(|OutOfMemory| charge.shrink(bytes))
}

impl<T> Default for Segments<T> {
    fn default() -> Segments<T> {
        Segments::new()
    }
}
