//! Waiting for a number: two sides that share nothing but a key (rules K1 to K5).

use core::cell::Cell;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::queue::{Permits, wake};
use crate::critical;
use crate::waiter::Waiter;

/// At most `N` keys at a time that have a waiter, or that were signalled before a waiter came.
///
/// It may stand in a `static`, and an interrupt handler may [`signal`](Self::signal). Cost of each
/// operation: a scan of the `N` slots.
pub struct Keys<const N: usize>([Slot; N]);

struct Slot {
    key: Cell<u64>,
    /// How many waits refer to the slot.
    waits: Cell<usize>,
    signal: Permits,
}

impl Slot {
    fn is_used(&self) -> bool {
        self.waits.get() > 0 || self.signal.free() > 0 || self.signal.has_waiters()
    }
}

// SAFETY: the state is touched with interrupts masked.
unsafe impl<const N: usize> Send for Keys<N> {}
// SAFETY: as above.
unsafe impl<const N: usize> Sync for Keys<N> {}

/// All slots are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeysFull;

impl<const N: usize> core::fmt::Debug for Keys<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

impl<const N: usize> Default for Keys<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Keys<N> {
    /// Creates a set without keys.
    #[must_use]
    pub const fn new() -> Self {
        Self(
            [const {
                Slot {
                    key: Cell::new(0),
                    waits: Cell::new(0),
                    signal: Permits::new(0),
                }
            }; N],
        )
    }

    /// Returns the slot of a key, or a free one for it. Requires masked interrupts.
    fn slot(&self, key: u64) -> Result<&Slot, KeysFull> {
        let same = |slot: &&Slot| slot.is_used() && slot.key.get() == key;
        let slot = self.0.iter().find(same);
        let slot = slot.or_else(|| self.0.iter().find(|slot| !slot.is_used()));
        let slot = slot.ok_or(KeysFull)?;
        slot.key.set(key);
        Ok(slot)
    }

    /// Lets one wait for `key` through, now or when it comes. From any context.
    ///
    /// # Errors
    /// [`KeysFull`], and then nothing has changed.
    pub fn signal(&self, key: u64) -> Result<(), KeysFull> {
        wake(critical(|| Ok(self.slot(key)?.signal.give(1)))?);
        Ok(())
    }

    /// Waits for a signal of `key`. Its output is an error if no slot is free when it is polled
    /// first.
    pub fn wait(&self, key: u64) -> WaitForKey<'_, N> {
        WaitForKey {
            keys: self,
            key,
            slot: None,
            waiter: Waiter::new(),
        }
    }
}

/// Future of [`Keys::wait`].
#[must_use = "a future does nothing unless awaited"]
pub struct WaitForKey<'a, const N: usize> {
    keys: &'a Keys<N>,
    key: u64,
    slot: Option<&'a Slot>,
    waiter: Waiter,
}

// SAFETY: the waiter is touched with interrupts masked once others know it.
unsafe impl<const N: usize> Send for WaitForKey<'_, N> {}

impl<const N: usize> core::fmt::Debug for WaitForKey<'_, N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("WaitForKey").finish_non_exhaustive()
    }
}

impl<const N: usize> Future for WaitForKey<'_, N> {
    type Output = Result<(), KeysFull>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the waiter, which is pinned, is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        let slot = match this.slot {
            Some(slot) => slot,
            None => {
                let slot = critical(|| {
                    let slot = this.keys.slot(this.key)?;
                    slot.waits.set(slot.waits.get() + 1);
                    Ok(slot)
                });
                match slot {
                    Ok(slot) => *this.slot.insert(slot),
                    Err(full) => return Poll::Ready(Err(full)),
                }
            }
        };
        slot.signal.poll(&this.waiter, cx, || Ok(()))
    }
}

impl<const N: usize> Drop for WaitForKey<'_, N> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.signal.leave(&self.waiter, 1);
            critical(|| slot.waits.set(slot.waits.get() - 1));
        }
    }
}
