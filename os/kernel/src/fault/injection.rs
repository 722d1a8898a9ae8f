//! The faults, in a kernel that is built for tests.
use crate::hart;
use corank_abi::call::{
    FAILED, FAULT_END, FAULT_FRAME, FAULT_HEAP, FAULT_MEMORY, FAULT_SILENCE, FAULT_SLOW_END,
};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The shortest frame that is damaged, in bytes. Shorter ones may have filling at their end instead
/// of data.
const SHORTEST_FRAME: usize = 129;

/// Faults of one process: it ends at one of the kernel's steps for it.
#[derive(Debug)]
pub(crate) struct OwnFaults {
    end_at: Countdown,
    /// The hart that ends it is slow.
    is_slow: AtomicBool,
}

impl OwnFaults {
    /// Returns no fault.
    pub(crate) const fn new() -> OwnFaults {
        OwnFaults {
            end_at: Countdown::new(),
            is_slow: AtomicBool::new(false),
        }
    }

    /// Counts one step, and tests whether the process ends before it.
    #[inline]
    pub(crate) fn end_is_due(&self) -> bool {
        self.end_at.is_due()
    }

    /// Holds up a slow hart until `is_over`.
    pub(crate) fn delay_end(&self, is_over: impl Fn() -> bool) {
        while self.is_slow.load(Ordering::Relaxed) && !is_over() {
            core::hint::spin_loop();
        }
    }
}

/// Serves the call `fault` of the process with this number, if it is allowed.
pub(crate) fn serve(
    own: &OwnFaults,
    pid: usize,
    is_allowed: bool,
    [kind, step, port]: [usize; 3],
) -> isize {
    if !is_allowed {
        return FAILED;
    }
    (match kind {
        FAULT_END => own.end_at.arm(step),
        FAULT_SLOW_END if hart::serving() > 1 => {
            own.is_slow.store(true, Ordering::Relaxed);
            own.end_at.arm(step)
        }
        FAULT_MEMORY => arm_allocations(pid, step),
        FAULT_FRAME => arm_frames(pid, step),
        FAULT_HEAP => {
            ASKED_BY.store(pid, Ordering::Relaxed);
            usize::from(HEAP_IS_FULL.swap(step != 0, Ordering::Relaxed))
        }
        FAULT_SILENCE => match u16::try_from(port) {
            Ok(port) => arm_silence(pid, step, port),
            Err(_) => return FAILED,
        },
        _ => return FAILED,
    }) as isize
}

/// A count down to a fault.
///
/// 0 means that there will be none.
#[derive(Debug)]
struct Countdown(AtomicUsize);

impl Countdown {
    /// Returns a count without a fault.
    const fn new() -> Countdown {
        Countdown(AtomicUsize::new(0))
    }

    /// Makes the fault come at this step from now on, counted from 1.
    ///
    /// 0 means never. Returns how many steps were left.
    fn arm(&self, steps: usize) -> usize {
        self.0.swap(steps, Ordering::Relaxed)
    }

    /// Counts one step, and tests whether the fault comes at it.
    ///
    /// Costs one load while nothing is armed.
    #[inline]
    fn is_due(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0 && self.count()
    }

    /// Counts one step, where something is armed.
    ///
    /// Tests whether the fault comes now, or has come before.
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
/// Set if nothing of the heap but its reserve is given out.
static HEAP_IS_FULL: AtomicBool = AtomicBool::new(false);
/// Frames from the network card that are long enough to have data.
static FRAMES: Countdown = Countdown::new();
/// TCP segments of connections with the port [`SILENT_PORT`].
///
/// From the step that is armed on, they are lost.
static SEGMENTS: Countdown = Countdown::new();
/// The port whose segments are lost from some step on.
///
/// 0 means that all segments arrive.
static SILENT_PORT: AtomicUsize = AtomicUsize::new(0);
/// The process that asked for one of them.
///
/// With it the fault goes.
static ASKED_BY: AtomicUsize = AtomicUsize::new(0);

/// Tests whether the next allocation is to fail.
#[inline]
pub(crate) fn fails_allocation() -> bool {
    ALLOCATIONS.is_due()
}

/// Calls [`Countdown::arm`] for allocations, for the process `pid`.
fn arm_allocations(pid: usize, steps: usize) -> usize {
    ASKED_BY.store(pid, Ordering::Relaxed);
    ALLOCATIONS.arm(steps)
}

/// Tests whether the heap counts as full, but for its reserve.
#[inline]
pub(crate) fn fills_heap() -> bool {
    HEAP_IS_FULL.load(Ordering::Relaxed)
}

/// Tests whether a frame of this length that has come is to be damaged.
#[inline]
pub(crate) fn damages_frame(length: usize) -> bool {
    length >= SHORTEST_FRAME && FRAMES.is_due()
}

/// Calls [`Countdown::arm`] for frames, for the process `pid`.
fn arm_frames(pid: usize, steps: usize) -> usize {
    ASKED_BY.store(pid, Ordering::Relaxed);
    FRAMES.arm(steps)
}

/// Tests whether the TCP segment that has come, between these ports, is to be lost.
#[inline]
pub(crate) fn loses_segment(ports: [u16; 2]) -> bool {
    let silent = SILENT_PORT.load(Ordering::Acquire);
    silent != 0 && ports.map(usize::from).contains(&silent) && SEGMENTS.is_due_or_over()
}

/// Calls [`Countdown::arm`] for the segments of connections with this port, for the process `pid`.
///
/// When it has come to its end, it goes on.
fn arm_silence(pid: usize, steps: usize, port: u16) -> usize {
    ASKED_BY.store(pid, Ordering::Relaxed);
    // A hart that sees the port sees its steps.
    SILENT_PORT.store(0, Ordering::Release);
    let left = SEGMENTS.arm(steps);
    if steps > 0 {
        SILENT_PORT.store(port.into(), Ordering::Release);
    }
    left
}

/// Ends the faults that a process has asked for.
pub(crate) fn forget(pid: usize) {
    if ASKED_BY.load(Ordering::Relaxed) == pid {
        ALLOCATIONS.arm(0);
        FRAMES.arm(0);
        HEAP_IS_FULL.store(false, Ordering::Relaxed);
        arm_silence(0, 0, 0);
    }
}
