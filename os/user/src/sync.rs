//! The kernel's own semaphores, mutexes and condition variables, for threads. Coroutines use
//! `corank::sync`.
//!
//! As in rCore-Tutorial-v3, the kernel frees them when the process ends, not before. A child of a
//! process has none of its parent's. Their numbers mean nothing there and are not used again, so
//! that locking an inherited mutex panics.
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

use corank_abi::call;

use crate::calls;
use crate::interrupt::Masked;
use crate::raw::{Error, number_call};

/// A counting semaphore of the kernel.
#[derive(Debug)]
pub struct Semaphore {
    id: usize,
}

impl Semaphore {
    /// Creates one with `permits`.
    ///
    /// One kernel entry, as every method here.
    ///
    /// # Errors
    /// The kernel has no memory.
    pub fn new(permits: usize) -> Result<Self, Error> {
        number_call(call::SEMAPHORE_CREATE, [permits, 0, 0]).map(|id| Self { id })
    }

    /// Takes a permit; waits for one.
    ///
    /// # Panics
    /// If the kernel refuses: a call that it serves [by a kernel thread](call::SERVICE_MODEL) has
    /// found no stack to wait on.
    pub fn down(&self) {
        calls::semaphore_down(self.id).expect("memory to wait");
    }

    /// Does what [`down`](Self::down) does, for a coroutine.
    ///
    /// Dropped, it has taken none.
    ///
    /// # Errors
    /// The kernel has no memory for another asynchronous call.
    pub async fn down_async(&self) -> Result<(), Error> {
        calls::semaphore_down_async(self.id).await.map(|_| ())
    }

    /// Gives a permit.
    pub fn up(&self) {
        let _ = number_call(call::SEMAPHORE_UP, [self.id, 0, 0]);
    }
}

/// A value that one thread at a time may use, under a mutex of the kernel.
#[derive(Debug)]
pub struct Mutex<T> {
    id: usize,
    value: UnsafeCell<T>,
}

// SAFETY: the kernel's mutex lets one thread at a time reach the value.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// Puts `value` under a mutex with waiters that sleep.
    ///
    /// # Errors
    /// The kernel has no memory.
    pub fn new(value: T) -> Result<Self, Error> {
        Self::create(value, true)
    }

    /// Puts `value` under a mutex with waiters that yield and try again.
    ///
    /// # Errors
    /// The kernel has no memory.
    pub fn yielding(value: T) -> Result<Self, Error> {
        Self::create(value, false)
    }

    fn create(value: T, blocking: bool) -> Result<Self, Error> {
        let id = number_call(call::MUTEX_CREATE, [usize::from(blocking), 0, 0])?;
        Ok(Self {
            id,
            value: UnsafeCell::new(value),
        })
    }

    /// Waits for the mutex.
    ///
    /// A thread that locks it twice waits for ever.
    ///
    /// # Panics
    /// If the kernel refuses: it has lost the mutex.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let masked = Masked::new();
        calls::mutex_lock(self.id).expect("the kernel knows this mutex");
        MutexGuard {
            mutex: self,
            _masked: Some(masked),
        }
    }

    /// Does what [`lock`](Self::lock) does, for a coroutine.
    ///
    /// Dropped, it does not hold the mutex.
    ///
    /// # Errors
    /// The kernel has no memory for another asynchronous call.
    pub async fn lock_async(&self) -> Result<MutexGuard<'_, T>, Error> {
        calls::mutex_lock_async(self.id).await?;
        Ok(MutexGuard {
            mutex: self,
            _masked: None,
        })
    }
}

/// The right to use what is under a [`Mutex`]; unlocks when dropped.
///
/// Between [`lock`](Mutex::lock) and that no coroutine is [preempted](crate::interrupt) on this
/// thread.
#[derive(Debug)]
#[must_use = "the mutex is unlocked when this is dropped"]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// A more urgent coroutine of this thread would wait for a lock that its own thread holds.
    /// Unlocked first, see `drop`. A coroutine that waits for the lock asynchronously needs none:
    /// those that compete with it wait in the same way.
    _masked: Option<Masked>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard exists, so this thread holds the mutex.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed exclusively.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        let _ = number_call(call::MUTEX_UNLOCK, [self.mutex.id, 0, 0]);
    }
}

/// A condition variable of the kernel.
#[derive(Debug)]
pub struct Condvar {
    id: usize,
}

impl Condvar {
    /// Creates one.
    ///
    /// # Errors
    /// The kernel has no memory.
    pub fn new() -> Result<Self, Error> {
        number_call(call::CONDVAR_CREATE, [0; 3]).map(|id| Self { id })
    }

    /// Wakes one waiter, if there is one.
    pub fn signal(&self) {
        let _ = number_call(call::CONDVAR_SIGNAL, [self.id, 0, 0]);
    }

    /// Unlocks the mutex, waits for a signal, and locks it again.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        // SAFETY: the guard stands for the hold, before and after; nothing uses it meanwhile. If
        // the call fails, it has no effect.
        let _ = unsafe { calls::condvar_wait(self.id, guard.mutex.id) };
        guard
    }

    /// Does what [`wait`](Self::wait) does, for a coroutine.
    ///
    /// Dropped, it does not hold the mutex, and a signal that came for it goes to another waiter.
    ///
    /// # Errors
    /// The kernel has no memory for another asynchronous call. The mutex is unlocked then.
    pub async fn wait_async<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
    ) -> Result<MutexGuard<'a, T>, Error> {
        let mutex = guard.mutex;
        // Others of this thread may lock it now, in the same way.
        drop(guard._masked.take());
        // SAFETY: the guard stands for the hold, which it gives to the call here.
        let waiting = unsafe { calls::condvar_wait_async(self.id, mutex.id) };
        // From its first poll on, which is now, the call answers for the mutex.
        core::mem::forget(guard);
        match waiting.await {
            Ok(_) => Ok(MutexGuard {
                mutex,
                _masked: None,
            }),
            Err(error) => {
                let _ = number_call(call::MUTEX_UNLOCK, [mutex.id, 0, 0]);
                Err(error)
            }
        }
    }
}
