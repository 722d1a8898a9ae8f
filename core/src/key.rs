//! Waiting for a number: two sides that share nothing but a key (rules K1 to K5).
//!
//! This is the WakerMap (AsyncOS, section 2.4). The code that starts an operation names it with a
//! key, and the code that completes it signals that key. Either may come first.
//!
//! - One signal lets one wait through. A signal without a waiter is kept until a waiter comes; a
//!   second one for the same key adds nothing.
//! - Several waiters for one key are served the most urgent first.
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
use crate::ownership::Shared;
use crate::ownership::{Local, Ownership};
use crate::sync::queue::{Entry, EntryState};

mod table;

pub use table::KeySlot;
use table::{KeyState, Table};

/// A set of keys that have a waiter, or that were signalled before a waiter came.
///
/// It belongs to one thread, like everything in [`crate::sync`], unless it is made for a
/// [`SharedExecutor`](crate::SharedExecutor). A completion that comes from another thread or an
/// interrupt wakes a coroutine through its [`Waker`](core::task::Waker) or
/// [`Remote`](crate::Remote), and that coroutine signals.
///
/// Cost of `wait` and `signal`: one lookup in a hash table, and a scan of the waiters for the same
/// key. In slots, a scan of the slots instead.
pub struct Keys<O: Ownership = Local> {
    owner: O,
    /// Not borrowed while code of the user's runs.
    table: RefCell<Table<O>>,
    fresh: Cell<u64>,
}

// SAFETY: what it is made of is touched only within the ownership's `hold`.
#[cfg(feature = "alloc")]
unsafe impl Send for Keys<Shared> {}
// SAFETY: as above.
#[cfg(feature = "alloc")]
unsafe impl Sync for Keys<Shared> {}

/// The error that there is no slot, or no memory, for one more key.
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
    /// Makes an empty set of keys, for one thread.
    ///
    /// The table grows on the heap.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn new() -> Self {
        Self::at(Local::HERE, Table::new())
    }

    /// Makes an empty set of keys with room for one in each slot, for one thread.
    ///
    /// It allocates nothing.
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
        Self::at(Local::HERE, Table::Slots(slots))
    }
}

#[cfg(feature = "alloc")]
impl Keys<Shared> {
    /// Makes an empty set of keys for the coroutines of a
    /// [`SharedExecutor`](crate::SharedExecutor).
    ///
    /// The table grows on the heap, under the executor's scheduler lock.
    #[must_use]
    pub fn new_in(owner: impl Into<Shared>) -> Self {
        Self::at(owner.into(), Table::new())
    }
}

impl<O: Ownership> Keys<O> {
    fn at(owner: O, table: Table<O>) -> Self {
        Self {
            owner,
            table: RefCell::new(table),
            fresh: Cell::new(0),
        }
    }

    /// Returns a key that this method has not given before: 0, 1, 2, …
    ///
    /// This is the global counter of AsyncOS, section 2.4.
    pub fn fresh(&self) -> u64 {
        self.owner.hold(|| {
            self.owner.assert_held();
            let key = self.fresh.get();
            self.fresh.set(key.wrapping_add(1));
            key
        })
    }

    /// Waits for a signal of `key`.
    ///
    /// # Errors
    /// [`KeysFull`] from the first poll if there is no room to remember the key.
    pub fn wait(&self, key: u64) -> KeyWait<'_, O> {
        KeyWait {
            keys: self,
            key,
            entry: Entry::new(),
        }
    }

    /// Lets one wait for `key` through, now or later.
    ///
    /// # Errors
    /// [`KeysFull`] if there is no waiter for the key and no room to remember the signal, which is
    /// lost then.
    pub fn signal(&self, key: u64) -> Result<(), KeysFull> {
        self.owner.hold(|| {
            let wakeup = {
                let mut table = self.table().borrow_mut();
                table.get_or_insert(key).ok_or(KeysFull)?.give()
            };
            wakeup.wake(self.owner.scheduler());
            Ok(())
        })
    }

    /// Returns how many keys take up room.
    ///
    /// These are the keys waited for, and those signalled and not waited for yet.
    pub fn len(&self) -> usize {
        self.owner.hold(|| self.table().borrow().len())
    }

    /// Tests whether no key takes up room.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the table. Called only within the ownership's `hold`.
    fn table(&self) -> &RefCell<Table<O>> {
        self.owner.assert_held();
        &self.table
    }

    /// Changes the state of a key that is in use, and forgets the key if it is not any more.
    fn update<R>(&self, key: u64, change: impl FnOnce(&KeyState<O>) -> R) -> R {
        let mut table = self.table().borrow_mut();
        let Some(state) = table.get(key) else {
            unreachable!("a key stays in the table while a coroutine waits for it");
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

impl<O: Ownership> fmt::Debug for Keys<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Future of [`Keys::wait`].
#[must_use = "a future does nothing unless awaited"]
pub struct KeyWait<'a, O: Ownership = Local> {
    keys: &'a Keys<O>,
    key: u64,
    entry: Entry<O>,
}

impl<O: Ownership> Future for KeyWait<'_, O> {
    type Output = Result<(), KeysFull>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.as_ref().get_ref();
        // SAFETY: the entry is part of the pinned future.
        let entry = unsafe { Pin::new_unchecked(&this.entry) };
        let (keys, key) = (this.keys, this.key);
        keys.owner.hold(|| {
            loop {
                match entry.state() {
                    EntryState::Granted | EntryState::Refused => {
                        entry.end_wait(&keys.owner);
                        keys.update(key, KeyState::used);
                        return Poll::Ready(Ok(()));
                    }
                    EntryState::Out => {
                        let signalled = {
                            let table = keys.table().borrow();
                            table.get(key).is_some_and(|state| state.is_signalled())
                        };
                        if signalled && !keys.owner.proceed(cx) {
                            return Poll::Pending;
                        }
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
                    EntryState::Queued => {}
                }
                if entry.wait(&keys.owner, cx, || None) {
                    return Poll::Pending;
                }
            }
        })
    }
}

impl<O: Ownership> Drop for KeyWait<'_, O> {
    fn drop(&mut self) {
        let (keys, key, entry) = (self.keys, self.key, &self.entry);
        if entry.is_known() {
            keys.owner.hold(|| {
                let state = entry.state();
                if state == EntryState::Queued {
                    keys.update(key, |state| state.remove(entry));
                }
                entry.end_wait(&keys.owner);
                if state == EntryState::Granted {
                    let next = keys.update(key, KeyState::give_again);
                    next.wake(keys.owner.scheduler());
                }
            });
        }
    }
}

impl<O: Ownership> fmt::Debug for KeyWait<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyWait")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
