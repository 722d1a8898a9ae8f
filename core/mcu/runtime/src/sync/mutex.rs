//! A mutex that passes priorities on (rules M1 to M8).

use core::cell::{Cell, UnsafeCell};
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use super::queue::{Queue, wait, wake};
use crate::critical;
use crate::scheduler::current_task;
use crate::task::{CoroutineId, Header};
use crate::waiter::{WaitState, Waiter, refresh_level};

/// A mutex for the tasks of all executors. It may stand in a `static`.
///
/// While a task waits for the lock, the holder has at least its level. The lock is handed to the
/// most urgent waiter.
pub struct Mutex<T: ?Sized> {
    locked: Cell<bool>,
    /// The task that holds the lock, if it is one.
    holder: Cell<Option<CoroutineId>>,
    waiting: Queue,
    value: UnsafeCell<T>,
}

// SAFETY: the state is touched with interrupts masked, and the value by the one guard.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T: ?Sized> core::fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

impl<T> Mutex<T> {
    /// Creates an unlocked mutex.
    pub const fn new(value: T) -> Self {
        Self {
            locked: Cell::new(false),
            holder: Cell::new(None),
            waiting: Queue::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// Returns the value, when the mutex is no longer shared.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    pub fn lock(&self) -> Lock<'_, T> {
        Lock {
            mutex: self,
            waiter: Waiter::new(),
        }
    }

    /// Returns a guard if the lock is free, which means that nothing waits for it either.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        critical(|| self.take()).then(|| self.guard())
    }

    /// Returns the value, without locking.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    fn guard(&self) -> MutexGuard<'_, T> {
        MutexGuard {
            mutex: self,
            _value: PhantomData,
        }
    }

    /// Locks it if it is free. Requires masked interrupts.
    fn take(&self) -> bool {
        let free = !self.locked.replace(true);
        if free {
            self.holder.set(current_task().map(CoroutineId::of));
        }
        free
    }

    /// Hands the lock over to the most urgent waiter, or frees it (rules M3 to M5). Requires masked
    /// interrupts. Returns what the caller wakes without masking.
    #[must_use]
    fn unlock(&self) -> Option<Waker> {
        let Some(next) = self.waiting.take_most_urgent() else {
            self.locked.set(false);
            self.holder.set(None);
            return None;
        };
        let old = next.lend_to(None);
        let new = next.lender();
        next.state.set(WaitState::Granted);
        let waker = next.take_waker();
        self.move_loans(old, new);
        waker
    }

    /// Moves the donations of all waiters from `old` to `new`, which has the lock now.
    fn move_loans(&self, mut old: Option<&'static Header>, new: Option<&'static Header>) {
        self.holder.set(new.map(CoroutineId::of));
        for waiter in self.waiting.waiters() {
            // They have all lent to the same task, if to any.
            old = waiter.lend_to(new).or(old);
        }
        for task in [new, old].into_iter().flatten() {
            refresh_level(task);
        }
    }
}

/// A guard that holds the lock of a [`Mutex`] and gives access to its value.
///
/// Dropping it hands the lock on.
#[must_use = "a lock that is dropped is free again at once"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    _value: PhantomData<&'a mut T>,
}

impl<T: ?Sized> core::fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("MutexGuard").finish_non_exhaustive()
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: one guard exists at a time, and gives out references for as long as it is
        // borrowed.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        wake(critical(|| self.mutex.unlock()));
    }
}

/// Future of [`Mutex::lock`].
#[must_use = "a future does nothing unless awaited"]
pub struct Lock<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    waiter: Waiter,
}

// SAFETY: the waiter is touched with interrupts masked once others know it.
unsafe impl<T: ?Sized + Send> Send for Lock<'_, T> {}

impl<T: ?Sized> core::fmt::Debug for Lock<'_, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Lock").finish_non_exhaustive()
    }
}

impl<'a, T: ?Sized> Future for Lock<'a, T> {
    type Output = MutexGuard<'a, T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (mutex, waiter) = (self.mutex, &self.waiter);
        let waker = cx.waker().clone();
        let (locked, _former) = critical(|| {
            match waiter.state.get() {
                WaitState::Granted => {
                    waiter.end();
                    // Another task may poll the future now than when the lock was handed to it.
                    let current = current_task();
                    if current.map(CoroutineId::of) != mutex.holder.get() {
                        mutex.move_loans(None, current);
                    }
                }
                WaitState::Out if mutex.take() => {}
                state => {
                    if state == WaitState::Out {
                        mutex.waiting.push(waiter);
                    }
                    let holder = mutex.holder.get().and_then(CoroutineId::find);
                    return (false, wait(waiter, waker, holder));
                }
            }
            (true, waiter.take_waker())
        });
        match locked {
            true => Poll::Ready(mutex.guard()),
            false => Poll::Pending,
        }
    }
}

impl<T: ?Sized> Drop for Lock<'_, T> {
    fn drop(&mut self) {
        let (mutex, waiter) = (self.mutex, &self.waiter);
        if waiter.state.get() == WaitState::Out {
            return;
        }
        let (_former, woken) = critical(|| {
            let granted = waiter.state.get() == WaitState::Granted;
            if !granted {
                mutex.waiting.remove(waiter);
            }
            waiter.end();
            // Handed over and never used, so it goes on to the next waiter (rule M7).
            let woken = if granted { mutex.unlock() } else { None };
            (waiter.take_waker(), woken)
        });
        wake(woken);
    }
}
