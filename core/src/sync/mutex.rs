//! A lock whose holder inherits the urgency of its waiters (rules M1 to M8, I1 to I8).

use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::pin::Pin;
use core::task::{Context, Poll};

#[cfg(feature = "alloc")]
use crate::ownership::Shared;
use crate::ownership::{Local, Ownership};
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::block::{BlockRef, State};
use crate::scheduling::table::id::CoroutineId;
use crate::sync::queue::{Entry, EntryState, Queue};

/// A lock that gives one coroutine at a time the value, and donates the urgency of all waiters to
/// it.
///
/// The lock may be held across an `await`. The holder is the coroutine that polled
/// [`lock`](Self::lock), even if it gives the guard away. A panic while it is held unlocks it and
/// does not poison it.
///
/// Cost: O(1) without waiters. Unlocking with `n` waiters is O(n), because it finds the most urgent
/// one and moves the donations of the others to it.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use std::rc::Rc;
/// use corank::{Priority, coroutine_run, spawn, sync::Mutex, yield_now};
///
/// coroutine_run(async {
///     let account = Rc::new(Mutex::new(10));
///     let theirs = account.clone();
///     let other = spawn(Priority::MOST_URGENT, async move { *theirs.lock().await += 1 }).unwrap();
///     let mut mine = account.lock().await;
///     yield_now().await; // now the other one waits, and this coroutine is as urgent as it is
///     *mine *= 2;
///     drop(mine);
///     other.await.unwrap();
///     assert_eq!(*account.lock().await, 21);
/// }, Priority::LEAST_URGENT).unwrap();
/// # }
/// ```
pub struct Mutex<T: ?Sized, O: Ownership = Local> {
    owner: O,
    locked: Cell<bool>,
    /// The holder of the lock.
    ///
    /// `None` also if it is no coroutine (rule M8).
    holder: Cell<Option<Holder>>,
    waiting: Queue<O>,
    value: UnsafeCell<T>,
}

// SAFETY: what it is made of is touched in the owner's turns only, and the value by the holder of
// the lock only.
#[cfg(feature = "alloc")]
unsafe impl<T: ?Sized + Send> Send for Mutex<T, Shared> {}
// SAFETY: as above: one thread at a time has the value.
#[cfg(feature = "alloc")]
unsafe impl<T: ?Sized + Send> Sync for Mutex<T, Shared> {}

/// The holder of a lock, by name.
///
/// A guard may outlive its coroutine, and even its executor.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Holder {
    /// The serial number of its scheduler, which need not be alive: see
    /// [`crate::scheduling::table::id::next_serial`].
    serial: usize,
    id: CoroutineId,
}

impl Holder {
    fn new(block: BlockRef) -> Self {
        Self {
            serial: Scheduler::of(block).serial(),
            id: block.id(),
        }
    }

    /// Returns its block, while that is alive and of the same executor as `lender`.
    ///
    /// Only the owner calls this.
    fn find(self, lender: BlockRef) -> Option<BlockRef> {
        let scheduler = Scheduler::of(lender);
        if scheduler.serial() != self.serial || self.serial == 0 {
            return None;
        }
        let live = |block: BlockRef| (block.state.get() != State::Exited).then_some(block);
        scheduler.on(self.id, live).flatten()
    }
}

impl<T> Mutex<T> {
    /// Creates an unlocked mutex, for one thread.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self::at(Local::HERE, value)
    }
}

#[cfg(feature = "alloc")]
impl<T> Mutex<T, Shared> {
    /// Creates an unlocked mutex, for the coroutines of a
    /// [`SharedExecutor`](crate::SharedExecutor).
    #[must_use]
    pub fn new_in(owner: impl Into<Shared>, value: T) -> Self {
        Self::at(owner.into(), value)
    }
}

impl<T, O: Ownership> Mutex<T, O> {
    const fn at(owner: O, value: T) -> Self {
        Self {
            owner,
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

impl<T: ?Sized, O: Ownership> Mutex<T, O> {
    /// Waits for the lock.
    pub fn lock(&self) -> Lock<'_, T, O> {
        Lock {
            mutex: self,
            entry: Entry::new(),
        }
    }

    /// Returns a guard if the lock is free, which means that nothing waits for it either.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T, O>> {
        self.owner.hold(|| self.take()).then(|| self.guard())
    }

    /// Returns the value, without locking.
    ///
    /// The exclusive borrow shows that nothing else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Tests whether the lock is held.
    pub fn is_locked(&self) -> bool {
        self.owner.hold(|| self.locked().get())
    }

    /// Returns the locked flag.
    ///
    /// Requires the owner's turn.
    fn locked(&self) -> &Cell<bool> {
        self.owner.assert_held();
        &self.locked
    }

    /// Locks it if it is free.
    fn take(&self) -> bool {
        let free = !self.locked().replace(true);
        if free {
            self.holder.set(self.owner.current().map(Holder::new));
        }
        free
    }

    /// Returns a guard for the caller, which has locked it.
    fn guard(&self) -> MutexGuard<'_, T, O> {
        MutexGuard {
            mutex: self,
            _value: PhantomData,
        }
    }

    /// Hands the lock over to the most urgent waiter, or frees it (*hand over*, rules M3 to M5).
    fn unlock(&self) {
        let Some(next) = self.waiting.take_most_urgent() else {
            self.locked().set(false);
            self.holder.set(None);
            return;
        };
        let old = next.waiter.lend_to(None);
        let new = next.waiter.lender();
        let wakeup = next.finish(EntryState::Granted);
        self.move_loans(old, new);
        wakeup.wake(self.owner.scheduler());
    }

    /// Moves the donations of all waiters from `old` to `new`, which has the lock now.
    fn move_loans(&self, mut old: Option<BlockRef>, new: Option<BlockRef>) {
        self.holder.set(new.map(Holder::new));
        for entry in self.waiting.entries() {
            // They have all lent to the same coroutine, if to any.
            old = entry.waiter.lend_to(new).or(old);
        }
        // Once for all of them, and the more urgent first.
        for block in [new, old].into_iter().flatten() {
            let scheduler = Scheduler::of(block);
            scheduler.locked(|| scheduler.refresh_level(block));
        }
    }

    /// Makes the coroutine that polls now the holder, after the lock was handed to the polled
    /// future.
    fn take_over(&self) {
        // Another coroutine may poll the future now than when the lock was handed to it.
        let current = self.owner.current();
        if current.map(Holder::new) != self.holder.get() {
            self.move_loans(None, current);
        }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug, O: Ownership> fmt::Debug for Mutex<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Mutex");
        match self.try_lock() {
            Some(guard) => debug.field("value", &&*guard),
            None => debug.field("value", &format_args!("<locked>")),
        };
        debug.finish()
    }
}

/// A guard that holds the lock of a [`Mutex`] and gives access to its value.
///
/// Dropping it hands the lock on.
#[must_use = "a lock that is dropped is free again at once"]
pub struct MutexGuard<'a, T: ?Sized, O: Ownership = Local> {
    mutex: &'a Mutex<T, O>,
    /// A marker that makes the guard `Sync` only if the value is.
    ///
    /// Every reference to the guard gives access to the value.
    _value: PhantomData<&'a mut T>,
}

impl<T: ?Sized, O: Ownership> Deref for MutexGuard<'_, T, O> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: one guard exists at a time, and it gives out references for as long as it is
        // borrowed.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized, O: Ownership> DerefMut for MutexGuard<'_, T, O> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized, O: Ownership> Drop for MutexGuard<'_, T, O> {
    fn drop(&mut self) {
        self.mutex.owner.hold(|| self.mutex.unlock());
    }
}

impl<T: ?Sized + fmt::Debug, O: Ownership> fmt::Debug for MutexGuard<'_, T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display, O: Ownership> fmt::Display for MutexGuard<'_, T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Future of [`Mutex::lock`].
#[must_use = "a future does nothing unless awaited"]
pub struct Lock<'a, T: ?Sized, O: Ownership = Local> {
    mutex: &'a Mutex<T, O>,
    entry: Entry<O>,
}

impl<'a, T: ?Sized, O: Ownership> Future for Lock<'a, T, O> {
    type Output = MutexGuard<'a, T, O>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.as_ref().get_ref();
        // SAFETY: the entry is part of the pinned future.
        let entry = unsafe { Pin::new_unchecked(&this.entry) };
        let mutex = this.mutex;
        let locked = mutex.owner.hold(|| {
            loop {
                match entry.state() {
                    EntryState::Granted | EntryState::Refused => {
                        entry.end_wait(&mutex.owner);
                        mutex.take_over();
                        return true;
                    }
                    EntryState::Out if !mutex.locked().get() => {
                        return mutex.owner.proceed(cx) && mutex.take();
                    }
                    // SAFETY: the future's `drop` removes it.
                    EntryState::Out => unsafe { mutex.waiting.push(entry) },
                    EntryState::Queued => {}
                }
                if entry.wait(&mutex.owner, cx, || {
                    mutex.holder.get()?.find(mutex.owner.current()?)
                }) {
                    return false;
                }
            }
        });
        match locked {
            true => Poll::Ready(mutex.guard()),
            false => Poll::Pending,
        }
    }
}

impl<T: ?Sized, O: Ownership> Drop for Lock<'_, T, O> {
    fn drop(&mut self) {
        let (mutex, entry) = (self.mutex, &self.entry);
        if entry.is_known() {
            mutex.owner.hold(|| {
                let state = entry.state();
                if state == EntryState::Queued {
                    mutex.waiting.remove(entry);
                }
                entry.end_wait(&mutex.owner);
                if state == EntryState::Granted {
                    // It was handed over and never used, so it goes on to the next waiter (rule
                    // M7).
                    mutex.unlock();
                }
            });
        }
    }
}

impl<T: ?Sized, O: Ownership> fmt::Debug for Lock<'_, T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").finish_non_exhaustive()
    }
}
