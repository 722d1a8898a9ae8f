//! The lock of a scheduler that several workers share. Its holder is the scheduler's owner.
//!
//! It is held for a pick, a change of the queues or of a few links, and for the short callbacks
//! that the table in `callback.rs` lists. It is never held across a poll, a destructor or a waker,
//! so a spin for it is short.
//!
//! A thread that spins polls the word ever more seldom, because each poll takes the word's cache
//! line away from the holder. With polls of a few nanoseconds, two workers that poll all the time
//! do less together than one of them alone. Nothing waits for the thread that spins: the holder
//! takes what is most urgent. A thread that has spun for long calls
//! [`Config::relax`](crate::Config::relax).
//!
//! Code that must not wait (an interrupt handler) uses
//! [`lock_or_notify`](SchedulerLock::lock_or_notify). It acquires the lock if that is free.
//! Otherwise it notifies the holder, which sees that when it releases the lock.
//!
//! ```text
//!   lock:       free → held               lock_or_notify:  free → held
//!   unlock:     held → free                                held → notified
//!               notified → free, and returns true
//!   try_unlock: held → free, or notified → held; the result says which
//! ```

use crate::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and notified since it was acquired.
const NOTIFIED: u32 = 3;

/// A spin lock whose holder can be notified.
pub(crate) struct SchedulerLock {
    word: AtomicU32,
    /// The callback of a thread that has spun for long; see
    /// [`Config::relax`](crate::Config::relax).
    relax: Option<extern "C" fn()>,
    /// Stands for all that the scheduler lock guards: loom reports two threads that touch it at
    /// once.
    #[cfg(loom)]
    guarded: loom::cell::UnsafeCell<()>,
    /// Lets loom report a use of the lock, and so of its scheduler, after it was freed.
    #[cfg(loom)]
    alive: loom::cell::UnsafeCell<()>,
}

impl SchedulerLock {
    pub(crate) fn new(relax: Option<extern "C" fn()>) -> Self {
        Self {
            word: AtomicU32::new(FREE),
            relax,
            #[cfg(loom)]
            guarded: loom::cell::UnsafeCell::new(()),
            #[cfg(loom)]
            alive: loom::cell::UnsafeCell::new(()),
        }
    }

    #[inline]
    pub(crate) fn lock(&self) {
        if !self.try_lock() {
            self.wait();
        }
        self.touch();
    }

    #[inline]
    fn try_lock(&self) -> bool {
        // Acquire: what the holder before did is visible.
        self.word()
            .compare_exchange_weak(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Spins until the lock is held from here.
    #[cold]
    fn wait(&self) {
        let mut polls = 0;
        loop {
            match self.relax {
                Some(relax) if polls >= PATIENCE => relax(),
                _ => pause(polls),
            }
            polls = polls.saturating_add(1);
            if self.word().load(Ordering::Relaxed) == FREE && self.try_lock() {
                break;
            }
        }
    }

    /// Releases the scheduler lock; true if it was notified since it was acquired.
    #[inline]
    #[must_use]
    pub(crate) fn unlock(&self) -> bool {
        self.touch();
        // One operation, so that a notification comes before it and is seen here, or after it and
        // finds the scheduler lock free. Release is enough: what came with a notification is seen
        // by the next holder of the scheduler lock, because this continues the notification's own
        // write.
        self.word().swap(FREE, Ordering::Release) == NOTIFIED
    }

    /// Releases the scheduler lock and returns true, unless it was notified since it was acquired.
    ///
    /// If it was notified, the scheduler lock stays held, and the result is false. If the result is
    /// true, nothing touches the scheduler lock any more: by then others may have freed it.
    ///
    /// # Safety
    /// The caller holds the scheduler lock, and `this` is valid until it is released.
    pub(crate) unsafe fn try_unlock(this: *const Self) -> bool {
        // SAFETY: the caller's promise. Of the scheduler lock only the atomic is borrowed while it
        // is released: a reference to an atomic may outlive what it points to for the rest of its
        // last operation.
        let word = unsafe {
            (*this).touch();
            (*this).word()
        };
        match word.compare_exchange(HELD, FREE, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => true,
            Err(_) => {
                // Acquire: what was announced before the notification is visible.
                word.swap(HELD, Ordering::Acquire);
                false
            }
        }
    }

    /// Releases the scheduler lock, whether it was notified or not.
    ///
    /// Nothing touches the scheduler lock after that.
    ///
    /// # Safety
    /// As for [`try_unlock`](Self::try_unlock).
    pub(crate) unsafe fn unlock_for_good(this: *const Self) {
        // SAFETY: as in `try_unlock`.
        let word = unsafe {
            (*this).touch();
            (*this).word()
        };
        word.swap(FREE, Ordering::Release);
    }

    /// Acquires the scheduler lock and returns true if it is free; otherwise notifies its holder.
    pub(crate) fn lock_or_notify(&self) -> bool {
        let mut word = self.word().load(Ordering::Relaxed);
        loop {
            let free = word == FREE;
            let after = if free { HELD } else { NOTIFIED };
            // Even where the word would not change it is written: that orders what the caller did
            // before what the holder sees.
            match self.word().compare_exchange_weak(
                word,
                after,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) if free => {
                    self.touch();
                    return true;
                }
                Ok(_) => return false,
                Err(now) => word = now,
            }
        }
    }

    /// Returns the word, for one operation.
    ///
    /// The reference is not kept beyond that: loom checks here whether the lock is still there.
    #[inline(always)]
    fn word(&self) -> &AtomicU32 {
        #[cfg(loom)]
        self.alive.with(|_| ());
        &self.word
    }

    #[inline]
    fn touch(&self) {
        #[cfg(loom)]
        self.guarded.with_mut(|_| ());
    }
}

#[cfg(loom)]
impl Drop for SchedulerLock {
    fn drop(&mut self) {
        self.alive.with_mut(|_| ());
    }
}

/// The wait between two polls of the word doubles up to two to this power of the processor's own
/// pauses: about half a microsecond.
#[cfg(not(loom))]
const LONGEST_WAIT: u32 = 5;

/// After so many polls of the word, some microseconds, the thread that is to change it has perhaps
/// lost its processor.
const PATIENCE: u32 = 16;

/// Pauses after `polls` polls of a word that another worker is about to change, before the next
/// one.
pub(crate) fn pause(polls: u32) {
    #[cfg(loom)]
    {
        let _ = polls;
        loom::thread::yield_now();
    }
    #[cfg(all(feature = "std", not(loom)))]
    if polls >= PATIENCE {
        std::thread::yield_now();
        return;
    }
    #[cfg(not(loom))]
    for _ in 0..1 << polls.min(LONGEST_WAIT) {
        core::hint::spin_loop();
    }
}
