//! User-level interrupts, in software (COPS, section 4.3.2).
//!
//! The kernel, or another thread, interrupts a thread that computes because something has arrived
//! for one of its coroutines.
//!
//! Each [worker](crate::page::WORKERS) of a process takes its own, once it has called
//! [`UPCALL_SETUP`](crate::call::UPCALL_SETUP).
//!
//! ```text
//!  a producer                                         the thread
//!  (kernel, other thread)                             ──────────
//!  ────────────────────────                           Flag closed: its executor is at work, and checks rings and inbox before
//!  puts it into ring or inbox                         each poll. Nothing disturbs it.
//!  Flag::raise                                        Before it computes for long, or waits in the kernel:
//!    closed: it checks anyway, done                      open the Flag
//!    open: it is closed from here on,                   check once more; anything there: close, take it, from the beginning
//!    and the thread is interrupted ────────┐            compute, or wait
//!                                          ▼          Afterwards: close the Flag.
//!                    the kernel, on the way to user mode:
//!                      not masked, a stack: registers ──▶ Frame on that stack, masked = 1, into the handler ──▶ UPCALL_RETURN
//!                      else: deferred = pc ─ ─ ─ ─ ─ ▶ unmasking checks `deferred`, and calls the handler itself
//!                      the thread waits in RING_ENTER: that returns
//! ```
//!
//! Nothing is lost, because raising, opening and closing are all read-modify-writes of one word. So
//! of a producer and the thread one comes second. A producer that comes second finds the flag open
//! and interrupts. A thread that comes second sees what was put there, and checks after opening.
//! `os/abi/tests/loom.rs` and `spec/promela/upcall.pml` try every interleaving.
#[cfg(not(loom))]
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// A flag that decides whether something that arrives for a process has to interrupt it.
///
/// Open in a page of zeros.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Flag(AtomicU32);

const OPEN: u32 = 0;
const CLOSED: u32 = 1;

impl Flag {
    /// Closes the flag, after something was put where the process checks for it.
    ///
    /// Returns true if the caller has to interrupt the process. At most one call between two
    /// openings returns true.
    #[must_use = "the caller has to interrupt the process if this is true"]
    pub fn raise(&self) -> bool {
        self.0.swap(CLOSED, Ordering::AcqRel) == OPEN
    }

    /// Opens the flag: from now on an arrival interrupts.
    ///
    /// What came before must be checked for after this.
    pub fn open(&self) {
        self.0.swap(OPEN, Ordering::AcqRel);
    }

    /// Closes the flag: from now on no producer need interrupt, because the process checks.
    ///
    /// Not a plain store: that would hide what a producer did that found the flag closed just
    /// before.
    pub fn close(&self) {
        self.0.swap(CLOSED, Ordering::AcqRel);
    }

    /// Opens the flag when nothing is left to take: calls `take` until, with the flag open,
    /// `arrived` says that there is nothing more.
    #[inline]
    pub fn open_when_quiet(&self, mut take: impl FnMut(), arrived: impl Fn() -> bool) {
        loop {
            take();
            self.open();
            if !arrived() {
                return;
            }
            self.close();
        }
    }
}

/// What the kernel and the interrupted thread share, in the thread's own memory.
///
/// [`UPCALL_SETUP`] gives its address, a multiple of 8.
///
/// Only the thread itself and, while it is not in user mode, the kernel use it: no other thread or
/// hart sees it.
///
/// [`UPCALL_SETUP`]: crate::call::UPCALL_SETUP
#[repr(C)]
#[derive(Debug)]
pub struct Block {
    /// While this is not 0 no interrupt is delivered: how many reasons there are for that. The
    /// kernel sets it to 1 when it delivers one, and to 0 in
    /// [`UPCALL_RETURN`](crate::call::UPCALL_RETURN).
    pub masked: AtomicUsize,
    /// Not 0: an interrupt was due and could not be delivered when the thread was at this
    /// instruction. The kernel sets it, the thread clears it before it checks for what has arrived;
    /// until then each [`UPCALL_RETURN`](crate::call::UPCALL_RETURN) enters the handler again.
    pub deferred: AtomicUsize,
    /// The upper end of the stack for the next interrupt, a multiple of 16; 0: there is none, and
    /// interrupts are deferred.
    pub stack: AtomicUsize,
}

impl Block {
    /// Returns a block that is masked once, with nothing deferred and no stack.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            masked: AtomicUsize::new(1),
            deferred: AtomicUsize::new(0),
            stack: AtomicUsize::new(0),
        }
    }
}

#[cfg(not(loom))]
impl Default for Block {
    fn default() -> Self {
        Self::new()
    }
}

/// The interrupted registers.
///
/// The kernel writes it to the upper end of the interrupt's stack and enters the handler with its
/// address in `a0` and `sp`, and in `a1` 1 if a system call of the thread waits, else 0;
/// [`UPCALL_RETURN`](crate::call::UPCALL_RETURN) puts the registers back. `gp` and `tp` are as they
/// were.
///
/// The program may change it: it could set its registers anyway.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Register *i* at index *i*; the first place is zero. If a system call was waiting, that goes
    /// on afterwards and `a0` is [`FAILED`](crate::call::FAILED) here, for the child of a handler
    /// that forks.
    pub x: [usize; 32],
    /// The interrupted instruction, or the one behind the system call that waits.
    pub pc: usize,
    /// The floating-point registers; zeros if the thread has never used them.
    pub f: [u64; 32],
    /// Rounding mode and exceptions.
    pub fcsr: usize,
}

const _: () = assert!(size_of::<Frame>() == 528);

/// Where the stacks for interrupts lie: [`STACK_COUNT`] of them for each worker, [`STACK_SIZE`]
/// bytes each, the lowest page of each a guard. Pages are there from the first touch.
pub const STACKS: usize = 0x1f_fe00_0000;
/// Bytes of each of them.
pub const STACK_SIZE: usize = 64 << 10;
/// How many each worker has: so deep can interrupts nest.
pub const STACK_COUNT: usize = 8;

/// How many system calls of one thread may wait below each other, each interrupted by the handler
/// that made the next. In the innermost, interrupts are deferred, as while they are masked. So deep
/// can the interrupts' own stacks nest; a program with other stacks gets no deeper.
pub const MOST_INTERRUPTED_CALLS: usize = STACK_COUNT;

/// Returns the upper end of a worker's stack; `None` beyond the last.
#[must_use]
pub const fn stack_top(worker: usize, number: usize) -> Option<usize> {
    if number < STACK_COUNT {
        Some(STACKS + (worker * STACK_COUNT + number + 1) * STACK_SIZE)
    } else {
        None
    }
}
