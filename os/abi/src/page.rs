//! The pages that kernel and processes share.
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::upcall::Flag;

/// Size of a page in bytes.
pub const PAGE_SIZE: usize = 4096;

/// Where every process finds its own [`ProcessPage`], readable and writable (AsyncOS, section
/// 2.3.2.1): that of worker 0.
pub const PROCESS_PAGE: usize = 0x3f_0000_0000;
/// Where every process finds the [`SystemPage`], read-only.
pub const SYSTEM_PAGE: usize = 0x3f_0000_1000;
/// Where [`RING_SETUP`](crate::call::RING_SETUP) maps the rings of worker 0.
pub const RING_BASE: usize = 0x3f_0010_0000;
/// From the rings of one worker to those of the next.
const RING_SPAN: usize = 0x10_0000;

/// How many threads of a process can be *workers* at a time: threads that run an executor. Each has
/// a [`ProcessPage`], rings, interrupts and stacks for these of its own, and a level: that of the
/// most urgent of its coroutines. Worker 0's are the process's; threads that are no workers run at
/// its level.
pub const WORKERS: usize = 8;

/// Returns where a worker finds its [`ProcessPage`].
#[must_use]
pub const fn worker_page(worker: usize) -> usize {
    assert!(worker < WORKERS);
    if worker == 0 {
        PROCESS_PAGE
    } else {
        SYSTEM_PAGE + worker * PAGE_SIZE
    }
}

/// Returns where the rings of a worker lie.
#[must_use]
pub const fn ring_base(worker: usize) -> usize {
    assert!(worker < WORKERS);
    RING_BASE + worker * RING_SPAN
}

/// The level of a process that publishes nothing of its own: the middle of 0 (most urgent) to 63.
pub const DEFAULT_LEVEL: u8 = 32;

/// What a worker of a process publishes of its coroutines.
///
/// Bit *i* stands for level *i*.
///
/// The process writes it, the kernel reads it (and sets bits of `arriving`). A process that lies
/// hurts itself alone, because the kernel masks what it reads with what the process was granted.
#[repr(C)]
#[derive(Debug, Default)]
pub struct ProcessPage {
    /// Levels with a coroutine that is ready: in a ready queue, or preempted with its stack.
    /// Written by the process alone.
    pub ready: AtomicU64,
    /// The level of the coroutine that runs, as one bit; 0 when none does. Written by the process
    /// alone.
    pub running: AtomicU64,
    /// Levels with a coroutine that something has arrived for: the kernel sets bits when it
    /// completes a call, other threads of the process when they wake one. The executor clears them
    /// before it takes what has arrived.
    pub arriving: AtomicU64,
    /// 0 until an executor runs there: until then the worker counts as [`DEFAULT_LEVEL`].
    pub executors: AtomicUsize,
    /// How many coroutines live there, as of the worker's last entry into the kernel. Only shown,
    /// by `ps` and `top`.
    pub coroutines: AtomicUsize,
    /// Whether an arrival has to interrupt; see [`crate::upcall`].
    pub flag: Flag,
    /// How many stacks hold a preempted coroutine: see [`crate::upcall::STACK_COUNT`]. Only shown,
    /// by `ps` and `top`.
    pub stacks: AtomicUsize,
    /// When timers of the worker's own coroutines are due.
    pub deadlines: Deadlines,
}

/// For each level, a time before which no timer of a coroutine at that level is due.
///
/// When it has come while the process does not run, or runs but has its [`flag`](ProcessPage::flag)
/// open, the kernel notes an arrival at that level and raises the flag. A bound that is too early
/// costs a check in vain. The kernel checks when a thread of the process yields or waits, and when
/// a bound that it saw then is due. Written by the process alone.
#[repr(C)]
#[derive(Debug)]
pub struct Deadlines {
    /// The levels that have a bound.
    pub levels: AtomicU64,
    /// The bound of each, in nanoseconds since the `time` register was 0. Means nothing at a level
    /// that has none.
    pub bounds: [AtomicU64; 64],
}

impl Deadlines {
    /// Copies what `other` publishes.
    pub fn copy_from(&self, other: &Self) {
        for (bound, other) in self.bounds.iter().zip(&other.bounds) {
            bound.store(other.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let levels = other.levels.load(Ordering::Relaxed);
        self.levels.store(levels, Ordering::Release);
    }
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            levels: AtomicU64::new(0),
            bounds: [const { AtomicU64::new(0) }; 64],
        }
    }
}

/// What the kernel publishes for all processes.
#[repr(C)]
#[derive(Debug, Default)]
pub struct SystemPage {
    /// The system bitmap: levels at which something is ready that no hart serves yet. Always up to
    /// date.
    pub ready: AtomicU64,
    /// Levels at which harts run something now.
    pub running: AtomicU64,
    /// Levels of what has arrived and that no hart has collected yet.
    pub arriving: AtomicU64,
    /// Ticks per second of the `time` register, which programs may read.
    pub timebase_hz: AtomicU64,
    /// How many clock ticks have passed since boot.
    pub ticks: AtomicU64,
}
