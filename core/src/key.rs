//! Waiting for a number: two sides that know nothing but a key in common (rules K1 to K5).
//!
//! This is the WakerMap (AsyncOS, section 2.4): whoever starts an operation names it with a key,
//! and whoever completes it signals that key. Either may come first.
//!
//! - One signal lets one wait through. A signal that nobody waits for is kept until somebody does;
//!   a second one for the same key adds nothing.
//! - Several who wait for one key are served the most urgent first.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use std::rc::Rc;
//! use corank::{Priority, coroutine_run, key::Keys, spawn};
//!
//! coroutine_run(async {
//!     let keys = Rc::new(Keys::new());
//!     let read = keys.fresh();
//!     let theirs = keys.clone();
//!     spawn(Priority::DEFAULT, async move { theirs.signal(read).unwrap() }).unwrap();
//!     keys.wait(read).await.unwrap();
//! }, Priority::DEFAULT).unwrap();
//! # }
//! ```

use core::cell::{Cell, RefCell};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};

#[cfg(feature = "alloc")]
use crate::place::Shared;
use crate::place::{OneThread, Place};
use crate::sync::queue::{Entry, Standing};

mod table;

pub use table::KeySlot;
use table::{KeyState, Table};

/// Keys that somebody waits for, or that were signalled before anybody did.
///
/// Belongs to one thread, like everything in [`crate::sync`], unless it is made for a
/// [`SharedExecutor`](crate::SharedExecutor): a completion that comes from another thread or an
/// interrupt wakes a coroutine through its [`Waker`](core::task::Waker) or
/// [`Remote`](crate::Remote), and that one signals.
///
/// Cost of `wait` and `signal`: one look into a hash table, and a scan of those who wait for the
/// same key. In slots, a scan of the slots instead.
pub struct Keys<P: Place = OneThread> {
    place: P,
    /// Not borrowed while code of the user's runs.
    table: RefCell<Table<P>>,
    fresh: Cell<u64>,
}

// SAFETY: what it is made of is touched in the place's turns only.
#[cfg(feature = "alloc")]
unsafe impl Send for Keys<Shared> {}
// SAFETY: as above.
#[cfg(feature = "alloc")]
unsafe impl Sync for Keys<Shared> {}

/// There is no slot, or no memory, for one more key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeysFull;

impl fmt::Display for KeysFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "no room for one more key: give Keys::in_slots more slots, or the heap more memory",
        )
    }
}

impl core::error::Error for KeysFull {}

impl Keys {
    /// No keys; the table grows on the heap. For one thread.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn new() -> Self {
        Self::at(OneThread::HERE, Table::new())
    }

    /// No keys, and room for one in each slot. Allocates nothing. For one thread.
    ///
    /// ```
    /// use corank::key::{KeySlot, Keys, KeysFull};
    ///
    /// // Without a heap, `static_cell` makes the `&'static mut`.
    /// let keys = Keys::in_slots(Box::leak(Box::new([const { KeySlot::new() }; 2])));
    /// assert_eq!(keys.signal(7), Ok(()));
    /// assert_eq!(keys.signal(8), Ok(()));
    /// assert_eq!(keys.signal(9), Err(KeysFull));
    /// ```
    pub fn in_slots(slots: &'static mut [KeySlot]) -> Self {
        Self::at(OneThread::HERE, Table::Slots(slots))
    }
}

#[cfg(feature = "alloc")]
impl Keys<Shared> {
    /// No keys, for the coroutines of a [`SharedExecutor`](crate::SharedExecutor); the table grows
    /// on the heap, under the executor's baton.
    #[must_use]
    pub fn new_in(place: impl Into<Shared>) -> Self {
        Self::at(place.into(), Table::new())
    }
}

impl<P: Place> Keys<P> {
    fn at(place: P, table: Table<P>) -> Self {
        Self {
            place,
            table: RefCell::new(table),
            fresh: Cell::new(0),
        }
    }

    /// A key that this method has not given before: 0, 1, 2, … (the global counter of AsyncOS,
    /// section 2.4).
    pub fn fresh(&self) -> u64 {
        self.place.hold(|| {
            self.place.assert_held();
            let key = self.fresh.get();
            self.fresh.set(key.wrapping_add(1));
            key
        })
    }

    /// Waits for a signal of `key`.
    ///
    /// # Errors
    /// [`KeysFull`] from the first poll if there is no room to remember the key.
    pub fn wait(&self, key: u64) -> KeyWait<'_, P> {
        KeyWait {
            keys: self,
            key,
            entry: Entry::new(),
        }
    }

    /// Lets one wait for `key` through, now or later.
    ///
    /// # Errors
    /// [`KeysFull`] if nobody waits for the key and there is no room to remember the signal; it is
    /// lost then.
    pub fn signal(&self, key: u64) -> Result<(), KeysFull> {
        self.place.hold(|| {
            let wakeup = {
                let mut table = self.table().borrow_mut();
                table.get_or_insert(key).ok_or(KeysFull)?.give()
            };
            wakeup.wake(self.place.scheduler());
            Ok(())
        })
    }

    /// How many keys take up room: those waited for, and those signalled and not waited for yet.
    pub fn len(&self) -> usize {
        self.place.hold(|| self.table().borrow().len())
    }

    /// Whether no key takes up room.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// In the place's turn.
    fn table(&self) -> &RefCell<Table<P>> {
        self.place.assert_held();
        &self.table
    }

    /// Changes the state of a key that is in use, and forgets the key if it is not any more.
    fn update<R>(&self, key: u64, change: impl FnOnce(&KeyState<P>) -> R) -> R {
        let mut table = self.table().borrow_mut();
        let Some(state) = table.get(key) else {
            unreachable!("a key stays in the table while somebody waits for it");
        };
        let result = change(state);
        if state.is_unused() {
            table.remove(key);
        }
        result
    }
}

#[cfg(feature = "alloc")]
impl Default for Keys {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Place> fmt::Debug for Keys<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Future of [`Keys::wait`].
#[must_use = "a future does nothing unless awaited"]
pub struct KeyWait<'a, P: Place = OneThread> {
    keys: &'a Keys<P>,
    key: u64,
    entry: Entry<P>,
}

impl<P: Place> Future for KeyWait<'_, P> {
    type Output = Result<(), KeysFull>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.as_ref().get_ref();
        // SAFETY: the entry is part of the pinned future.
        let entry = unsafe { Pin::new_unchecked(&this.entry) };
        let (keys, key) = (this.keys, this.key);
        keys.place.hold(|| {
            loop {
                match entry.standing() {
                    Standing::Granted | Standing::Refused => {
                        entry.settle(&keys.place);
                        keys.update(key, KeyState::used);
                        return Poll::Ready(Ok(()));
                    }
                    Standing::Out => {
                        if keys.table().borrow_mut().get_or_insert(key).is_none() {
                            return Poll::Ready(Err(KeysFull));
                        }
                        let there = keys.update(key, |state| {
                            // SAFETY: `drop` lets the entry leave.
                            unsafe { state.take_or_queue(entry) }
                        });
                        if there {
                            return Poll::Ready(Ok(()));
                        }
                    }
                    Standing::Queued => {}
                }
                if entry.wait(&keys.place, cx, || None) {
                    return Poll::Pending;
                }
            }
        })
    }
}

impl<P: Place> Drop for KeyWait<'_, P> {
    fn drop(&mut self) {
        let (keys, key, entry) = (self.keys, self.key, &self.entry);
        if entry.is_known() {
            keys.place.hold(|| {
                let standing = entry.standing();
                if standing == Standing::Queued {
                    keys.update(key, |state| state.remove(entry));
                }
                entry.settle(&keys.place);
                if standing == Standing::Granted {
                    let next = keys.update(key, KeyState::give_again);
                    next.wake(keys.place.scheduler());
                }
            });
        }
    }
}

impl<P: Place> fmt::Debug for KeyWait<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyWait")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
