//! Faults on purpose, for tests: memory that runs out, frames that are damaged, and a process that ends in the middle of the kernel's work for it,
//! each at a step that is counted rather than at a time.
use core::sync::atomic::{AtomicUsize, Ordering};

/// Counts down to a fault; 0: there will be none.
#[derive(Debug)]
pub(crate) struct Countdown(AtomicUsize);

impl Countdown {
    /// No fault.
    pub(crate) const fn new() -> Countdown {
        Countdown(AtomicUsize::new(0))
    }

    /// The fault comes at this step from now on, counted from 1; 0: never. Returns how many steps were left.
    pub(crate) fn arm(&self, steps: usize) -> usize {
        self.0.swap(steps, Ordering::Relaxed)
    }

    /// One step: whether this is the one. One load while nothing is armed.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0 && self.count()
    }

    #[cold]
    fn count(&self) -> bool {
        let left = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            });
        left == Ok(1)
    }
}

/// Allocations that the kernel makes for programs and that may fail, of whichever program.
static ALLOCATIONS: Countdown = Countdown::new();
/// Frames from the network card that are long enough to have data.
static FRAMES: Countdown = Countdown::new();
/// The process that asked for one of them. With it the fault goes.
static ASKED_BY: AtomicUsize = AtomicUsize::new(0);

/// Whether the allocation that is about to be made shall fail.
#[inline]
pub(crate) fn fails_allocation() -> bool {
    ALLOCATIONS.is_due()
}

/// [`Countdown::arm`] for allocations, for the process `pid`.
pub(crate) fn arm_allocations(pid: usize, steps: usize) -> usize {
    ASKED_BY.store(pid, Ordering::Relaxed);
    ALLOCATIONS.arm(steps)
}

/// Whether the frame that has come shall be damaged.
#[inline]
pub(crate) fn damages_frame() -> bool {
    FRAMES.is_due()
}

/// [`Countdown::arm`] for frames, for the process `pid`.
pub(crate) fn arm_frames(pid: usize, steps: usize) -> usize {
    ASKED_BY.store(pid, Ordering::Relaxed);
    FRAMES.arm(steps)
}

/// The process has ended.
pub(crate) fn forget(pid: usize) {
    if ASKED_BY.load(Ordering::Relaxed) == pid {
        ALLOCATIONS.arm(0);
        FRAMES.arm(0);
    }
}
