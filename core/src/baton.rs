//! The lock of a scheduler that several workers share: whoever holds it is the owner for that long.
//!
//! It is held for a pick, a change of the queues or of a few links, and for the short callbacks
//! that the table in `call.rs` lists, never across a poll, a destructor or a waker; so spinning for
//! it is short. Who spins looks ever more seldom: each look takes the word's cache line away from
//! the holder, and with polls of a few nanoseconds two workers that look all the time do less
//! together than one of them alone. Meanwhile the holder goes on with what is in its own cache, and
//! nothing waits for the one who spins: its holder takes what is most urgent. A worker that has
//! spun for long [gives way](crate::Config::give_way). Code that must not wait (an interrupt
//! handler) [rings](Baton::ring) instead: either the scheduler lock is free, then it has it, or its
//! holder learns of the ring when it releases the lock.
//!
//! ```text
//!   pick_up: free → held           ring: free → held (the one who rings has it)
//!   put_down: held → free                held → rung
//!             rung → free, and it says so
//!   try_put_down: held → free, rung → held, and it says which
//! ```

use crate::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody has rung since it was picked up.
const RUNG: u32 = 3;

/// See the module's documentation.
pub(crate) struct Baton {
    word: AtomicU32,
    /// See [`Config::give_way`](crate::Config::give_way).
    give_way: Option<extern "C" fn()>,
    /// Stands for all that the scheduler lock guards: loom reports two who touch it at once.
    #[cfg(loom)]
    guarded: loom::cell::UnsafeCell<()>,
    /// Lets loom report a use of the lock, and so of its scheduler, after it was freed.
    #[cfg(loom)]
    alive: loom::cell::UnsafeCell<()>,
}

impl Baton {
    pub(crate) fn new(give_way: Option<extern "C" fn()>) -> Self {
        Self {
            word: AtomicU32::new(FREE),
            give_way,
            #[cfg(loom)]
            guarded: loom::cell::UnsafeCell::new(()),
            #[cfg(loom)]
            alive: loom::cell::UnsafeCell::new(()),
        }
    }

    #[inline]
    pub(crate) fn pick_up(&self) {
        if !self.try_pick_up() {
            self.wait();
        }
        self.touch();
    }

    #[inline]
    fn try_pick_up(&self) -> bool {
        // Acquire: what the holder before did is visible.
        self.word()
            .compare_exchange_weak(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Until it is held from here.
    #[cold]
    fn wait(&self) {
        let mut looks = 0;
        loop {
            match self.give_way {
                Some(give_way) if looks >= PATIENCE => give_way(),
                _ => pause(looks),
            }
            looks = looks.saturating_add(1);
            if self.word().load(Ordering::Relaxed) == FREE && self.try_pick_up() {
                break;
            }
        }
    }

    /// Releases the scheduler lock; true if it was rung since it was acquired.
    #[inline]
    #[must_use]
    pub(crate) fn put_down(&self) -> bool {
        self.touch();
        // One operation, so that a ring comes before it and is seen here, or after it and finds the
        // scheduler lock free. Release is enough: what came with a ring is seen by the next holder
        // of the scheduler lock, because this goes on from the ring's own write.
        self.word().swap(FREE, Ordering::Release) == RUNG
    }

    /// As [`put_down`](Self::put_down), but if it was rung since, the scheduler lock stays held,
    /// and the answer is false. If it is true, nothing touches the scheduler lock any more: by then
    /// others may have freed it.
    ///
    /// # Safety
    /// The caller holds the scheduler lock, and `this` is good until it is put down.
    pub(crate) unsafe fn try_put_down(this: *const Self) -> bool {
        // SAFETY: the caller's promise. Of the scheduler lock only the atomic is borrowed while it
        // is put down: a reference to an atomic may outlive what it points to for the rest of its
        // last operation.
        let word = unsafe {
            (*this).touch();
            (*this).word()
        };
        match word.compare_exchange(HELD, FREE, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => true,
            Err(_) => {
                // Acquire: what was announced before the ring is visible.
                word.swap(HELD, Ordering::Acquire);
                false
            }
        }
    }

    /// As [`put_down`](Self::put_down), whether it was rung or not, and nothing touches the
    /// scheduler lock after that.
    ///
    /// # Safety
    /// As for [`try_put_down`](Self::try_put_down).
    pub(crate) unsafe fn put_down_for_good(this: *const Self) {
        // SAFETY: as in `try_put_down`.
        let word = unsafe {
            (*this).touch();
            (*this).word()
        };
        word.swap(FREE, Ordering::Release);
    }

    /// True if the scheduler lock was free: the caller holds it. Else its holder is told.
    pub(crate) fn ring(&self) -> bool {
        let mut word = self.word().load(Ordering::Relaxed);
        loop {
            let free = word == FREE;
            let after = if free { HELD } else { RUNG };
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

    /// The word, for one operation. Not kept beyond that: loom looks here whether the lock is still
    /// there.
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
impl Drop for Baton {
    fn drop(&mut self) {
        self.alive.with_mut(|_| ());
    }
}

/// The wait between two looks doubles up to two to this power of the processor's own pauses: about
/// half a microsecond.
#[cfg(not(loom))]
const LONGEST_WAIT: u32 = 5;

/// After so many looks, some microseconds, whoever is waited for has perhaps lost its processor.
const PATIENCE: u32 = 16;

/// After `looks` looks at a word that another worker is about to change, before the next one.
pub(crate) fn pause(looks: u32) {
    #[cfg(loom)]
    {
        let _ = looks;
        loom::thread::yield_now();
    }
    #[cfg(all(feature = "std", not(loom)))]
    if looks >= PATIENCE {
        std::thread::yield_now();
        return;
    }
    #[cfg(not(loom))]
    for _ in 0..1 << looks.min(LONGEST_WAIT) {
        core::hint::spin_loop();
    }
}
