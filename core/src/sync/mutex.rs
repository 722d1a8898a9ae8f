//! A lock whose holder inherits the urgency of those who wait for it (rules M1 to M8, I1 to I8).

use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::{Context, Poll};

use crate::block::{BlockRef, State};
use crate::context;
use crate::id::CoroutineId;
use crate::scheduler::Scheduler;
use crate::sync::queue::{Entry, Queue, Standing};
use crate::waiter::Waiter;

/// Lets one coroutine at a time have the value, and lends it the urgency of all who wait.
///
/// The lock may be held across an `await`. The holder is the coroutine that polled [`lock`](Self::lock), even if it gives
/// the guard away. A panic while it is held unlocks it and does not poison it.
///
/// Cost: O(1) while nobody waits. Unlocking with `n` waiters is O(n): it finds the most urgent one and moves the loans of
/// the others to it.
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
pub struct Mutex<T: ?Sized> {
    locked: Cell<bool>,
    /// `None` also where whoever locked it is no coroutine (rule M8).
    holder: Cell<Option<Holder>>,
    waiting: Queue,
    value: UnsafeCell<T>,
}

/// Who holds a lock, by name: a guard may outlive its coroutine, and even its executor.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Holder {
    /// Only compared; not known to be alive.
    scheduler: NonNull<Scheduler>,
    id: CoroutineId,
}

impl Holder {
    fn new(block: BlockRef) -> Self {
        Self {
            scheduler: block.scheduler(),
            id: block.id(),
        }
    }

    /// Its block, while that is alive and of the executor that runs here.
    fn find(self) -> Option<BlockRef> {
        context::seat_of(self.scheduler.as_ptr())?;
        // SAFETY: the scheduler runs here, so it is alive.
        let scheduler = unsafe { self.scheduler.as_ref() };
        let live = |block: BlockRef| (block.state.get() != State::Exited).then_some(block);
        scheduler.held(|| scheduler.on(self.id, live)).flatten()
    }
}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self {
            locked: Cell::new(false),
            holder: Cell::new(None),
            waiting: Queue::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// The value, when the mutex is no longer shared.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    pub fn lock(&self) -> Lock<'_, T> {
        Lock {
            mutex: self,
            entry: Entry::new(),
        }
    }

    /// The lock if it is free, which means that nobody waits either.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        if self.locked.get() {
            return None;
        }
        self.locked.set(true);
        self.holder.set(context::current().map(Holder::new));
        Some(MutexGuard { mutex: self })
    }

    /// The value, without locking: the exclusive borrow shows that nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Whether somebody holds the lock.
    pub fn is_locked(&self) -> bool {
        self.locked.get()
    }

    /// *hand over* (rules M3 to M5): to the most urgent waiter, or to nobody.
    fn unlock(&self) {
        let Some(next) = self.waiting.take_most_urgent() else {
            self.locked.set(false);
            self.holder.set(None);
            return;
        };
        let old = next.waiter.lend_to(None);
        let new = next.waiter.lender();
        let wakeup = next.finish(Standing::Granted);
        self.move_loans(old, new);
        wakeup.wake();
    }

    /// `new` has the lock now, instead of `old`: everybody who waits lends to it.
    fn move_loans(&self, mut old: Option<BlockRef>, new: Option<BlockRef>) {
        self.holder.set(new.map(Holder::new));
        for entry in self.waiting.entries() {
            // They have all lent to the same coroutine, if to any.
            old = entry.waiter.lend_to(new).or(old);
        }
        // Once for all of them, and the more urgent first.
        for block in [new, old].into_iter().flatten() {
            let scheduler = Scheduler::of(block);
            scheduler.held(|| scheduler.refresh_level(block));
        }
    }

    /// The guard, for the future that the lock was handed to.
    fn take_over(&self) -> MutexGuard<'_, T> {
        // Another coroutine may poll the future now than when the lock was handed to it.
        let current = context::current();
        if current.map(Holder::new) != self.holder.get() {
            self.move_loans(None, current);
        }
        MutexGuard { mutex: self }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Mutex");
        match self.try_lock() {
            Some(guard) => debug.field("value", &&*guard),
            None => debug.field("value", &format_args!("<locked>")),
        };
        debug.finish()
    }
}

/// The lock of a [`Mutex`], and the way to its value. Dropping it hands the lock on.
#[must_use = "a lock that is dropped is free again at once"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: one guard exists at a time, and it gives out references for as long as it is borrowed.
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
        self.mutex.unlock();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Future of [`Mutex::lock`].
#[must_use = "a future does nothing unless awaited"]
pub struct Lock<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    entry: Entry,
}

impl<T: ?Sized> Lock<'_, T> {
    fn waiter(self: Pin<&Self>) -> Pin<&Waiter> {
        // SAFETY: the waiter is part of the pinned future, which never moves it.
        unsafe { self.map_unchecked(|lock| &lock.entry.waiter) }
    }
}

impl<'a, T: ?Sized> Future for Lock<'a, T> {
    type Output = MutexGuard<'a, T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.as_ref();
        let (mutex, standing) = (this.mutex, this.entry.standing());
        if standing == Standing::Granted {
            this.entry.settle();
            return Poll::Ready(mutex.take_over());
        }
        if standing == Standing::Out {
            if let Some(guard) = mutex.try_lock() {
                return Poll::Ready(guard);
            }
            // SAFETY: the entry is part of the pinned future, whose `drop` removes it.
            unsafe { mutex.waiting.push(this.map_unchecked(|lock| &lock.entry)) };
        }
        let holder = mutex.holder.get().and_then(Holder::find);
        this.waiter()
            // A coroutine that waits for itself, in another branch of a `join!`, lends itself nothing.
            .wait(
                cx,
                holder.filter(|&holder| context::current() != Some(holder)),
            );
        Poll::Pending
    }
}

impl<T: ?Sized> Drop for Lock<'_, T> {
    fn drop(&mut self) {
        match self.entry.standing() {
            Standing::Queued => self.mutex.waiting.remove(&self.entry),
            // Handed over and never used: on to the next (rule M7).
            Standing::Granted => {
                self.entry.settle();
                self.mutex.unlock();
            }
            Standing::Out | Standing::Refused => {}
        }
    }
}

impl<T: ?Sized> fmt::Debug for Lock<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").finish_non_exhaustive()
    }
}
