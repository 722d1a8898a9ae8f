//! What an executor publishes: three words that other threads, harts and processes may read at any
//! time (rules P3, G1).

use crate::atomic::Ordering;

use crate::priority::{Levels, Priority};

/// The urgency of one executor, readable from any thread, hart or address space that maps it.
///
/// The layout is part of the interface (`repr(C)`, three 64-bit words). A platform places it in
/// memory that the kernel or another process reads (AsyncOS, section 2.3.2.1). The executor alone
/// writes `ready` and `running`, by plain stores; `arriving` has several writers, and each of its
/// changes is a read-modify-write.
#[repr(C, align(8))]
#[derive(Debug, Default)]
pub struct Published {
    ready: AtomicLevels,
    running: AtomicLevels,
    arriving: AtomicLevels,
}

impl Published {
    /// Makes an instance with nothing ready and nothing running.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            ready: AtomicLevels::new(),
            running: AtomicLevels::new(),
            arriving: AtomicLevels::new(),
        }
    }

    /// Makes an instance as above; loom's atomics are not made at compile time.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the levels that have ready coroutines.
    pub fn ready(&self) -> Levels {
        self.ready.load()
    }

    /// Returns the level of the coroutine that runs, or none.
    ///
    /// If several workers serve the executor, it returns the level of each coroutine that runs.
    pub fn running(&self) -> Levels {
        self.running.load()
    }

    /// Returns the levels of coroutines that were woken from outside and have not entered the
    /// executor's ready queues yet.
    ///
    /// The executor never sets bits here; wakers from other threads do.
    pub fn arriving(&self) -> Levels {
        self.arriving.load()
    }

    /// Returns every level that makes this executor urgent: ready, running and arriving.
    pub fn urgency(&self) -> Levels {
        self.ready().union(self.running()).union(self.arriving())
    }

    /// Announces from outside that something at `priority` is arriving.
    pub fn announce(&self, priority: Priority) {
        self.arriving.insert(priority);
    }

    /// Tests whether anything was announced that the executor has not drained.
    #[inline]
    pub(crate) fn has_arrivals(&self) -> bool {
        self.arriving.any()
    }

    pub(crate) fn set_ready(&self, levels: Levels) {
        self.ready.store(levels);
    }

    pub(crate) fn set_running(&self, levels: Levels) {
        self.running.store(levels);
    }

    pub(crate) fn clear_arriving(&self) {
        self.arriving.clear();
    }
}

/// A [`Levels`] in shared memory: one word.
#[cfg(target_has_atomic = "64")]
#[repr(transparent)]
#[derive(Debug, Default)]
struct AtomicLevels(crate::atomic::AtomicU64);

#[cfg(target_has_atomic = "64")]
impl AtomicLevels {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self(crate::atomic::AtomicU64::new(0))
    }

    fn load(&self) -> Levels {
        Levels::from_bits(self.0.load(Ordering::Acquire))
    }

    /// Uses a relaxed store: the levels are all there is to read, and no other memory is read
    /// because of them.
    fn store(&self, levels: Levels) {
        self.0.store(levels.bits(), Ordering::Relaxed);
    }

    /// Uses a relaxed load: the thread that finds any level clears them, which orders what follows.
    fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    fn insert(&self, priority: Priority) {
        self.0.fetch_or(1 << priority.level(), Ordering::AcqRel);
    }

    /// Clears the word by a write, even if it is clear already.
    ///
    /// A thread that sets a level after this sees what was done before it.
    fn clear(&self) {
        self.0.swap(0, Ordering::AcqRel);
    }
}

/// A [`Levels`] in shared memory, where there are no 64-bit atomics: two halves in little-endian
/// order. A level is in exactly one half, so a reader between two stores never sees a level that
/// was not there.
#[cfg(not(target_has_atomic = "64"))]
#[repr(C, align(8))]
#[derive(Debug, Default)]
struct AtomicLevels([crate::atomic::unexplored::AtomicU32; 2]);

#[cfg(not(target_has_atomic = "64"))]
impl AtomicLevels {
    const fn new() -> Self {
        use crate::atomic::unexplored::AtomicU32;
        Self([AtomicU32::new(0), AtomicU32::new(0)])
    }

    fn load(&self) -> Levels {
        let [low, high] = [0, 1].map(|half: usize| self.0[half].load(Ordering::Acquire));
        Levels::from_bits(u64::from(low) | u64::from(high) << 32)
    }

    fn store(&self, levels: Levels) {
        self.0[0].store(levels.bits() as u32, Ordering::Relaxed);
        self.0[1].store((levels.bits() >> 32) as u32, Ordering::Relaxed);
    }

    fn any(&self) -> bool {
        self.0[0].load(Ordering::Relaxed) | self.0[1].load(Ordering::Relaxed) != 0
    }

    fn insert(&self, priority: Priority) {
        let level = priority.level();
        self.0[usize::from(level / 32)].fetch_or(1 << (level % 32), Ordering::AcqRel);
    }

    fn clear(&self) {
        for half in &self.0 {
            half.swap(0, Ordering::AcqRel);
        }
    }
}
