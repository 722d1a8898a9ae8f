//! The kernel's own semaphores, mutexes and condition variables, for threads. Coroutines use `corank::sync`.
//!
//! As in rCore-Tutorial-v3, the kernel frees them when the process ends, not before.
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

use corank_abi::call;

use crate::interrupt::Masked;
use crate::raw::{Error, number_call};

/// A counting semaphore of the kernel.
#[derive(Debug)]
pub struct Semaphore {
    id: usize,
}

impl Semaphore {
    /// Creates one with `permits`. One kernel entry, as every method here.
    ///
    /// # Errors
    /// The kernel has no memory.
    pub fn new(permits: usize) -> Result<Self, Error> {
        number_call(call::SEMAPHORE_CREATE, [permits, 0, 0]).map(|id| Self { id })
    }

    /// Takes a permit; waits for one.
    pub fn down(&self) {
        let _ = number_call(call::SEMAPHORE_DOWN, [self.id, 0, 0]);
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
    /// Puts `value` under a mutex whose waiters sleep.
    ///
    /// # Errors
    /// The kernel has no memory.
    pub fn new(value: T) -> Result<Self, Error> {
        Self::create(value, true)
    }

    /// Puts `value` under a mutex whose waiters yield and try again.
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

    /// Waits for the mutex. A thread that locks it twice waits for ever.
    ///
    /// # Panics
    /// If the kernel refuses: it has lost the mutex.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let masked = Masked::new();
        number_call(call::MUTEX_LOCK, [self.id, 0, 0]).expect("the kernel knows this mutex");
        MutexGuard {
            mutex: self,
            _masked: masked,
        }
    }
}

/// The right to use what is under a [`Mutex`]; unlocks when dropped. Meanwhile no coroutine is
/// [preempted](crate::interrupt) on this thread.
#[derive(Debug)]
#[must_use = "the mutex is unlocked when this is dropped"]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// A more urgent coroutine of this thread would wait for a lock that its own thread holds. Unlocked first, see `drop`.
    _masked: Masked,
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
        // The kernel unlocks and locks again itself; the guard stands for "locked" before and after.
        let _ = number_call(call::CONDVAR_WAIT, [self.id, guard.mutex.id, 0]);
        guard
    }
}
