//! Faults on purpose, for tests: memory that runs out, frames that are damaged or lost, and a process that ends in the middle of the kernel's work for it,
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

    /// One step, where something is armed: whether the fault comes now, or has come before.
    fn is_due_or_over(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0 || self.count()
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
/// TCP segments of connections with the port [`SILENT_PORT`]: from that step on they are lost.
static SEGMENTS: Countdown = Countdown::new();
/// 0: all segments arrive.
static SILENT_PORT: AtomicUsize = AtomicUsize::new(0);
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

/// Whether the TCP segment that has come, between these ports, shall be lost.
#[inline]
pub(crate) fn loses_segment(ports: [u16; 2]) -> bool {
    let silent = SILENT_PORT.load(Ordering::Acquire);
    silent != 0 && ports.map(usize::from).contains(&silent) && SEGMENTS.is_due_or_over()
}

/// [`Countdown::arm`] for the segments of connections with this port, for the process `pid`. When it has come to its end, it goes on.
pub(crate) fn arm_silence(pid: usize, steps: usize, port: u16) -> usize {
    ASKED_BY.store(pid, Ordering::Relaxed);
    // Whoever sees the port sees its steps.
    SILENT_PORT.store(0, Ordering::Release);
    let left = SEGMENTS.arm(steps);
    if steps > 0 {
        SILENT_PORT.store(port.into(), Ordering::Release);
    }
    left
}

/// The process has ended.
pub(crate) fn forget(pid: usize) {
    if ASKED_BY.load(Ordering::Relaxed) == pid {
        ALLOCATIONS.arm(0);
        FRAMES.arm(0);
        arm_silence(0, 0, 0);
    }
}
