//! User-level interrupts: the kernel's side of [`corank_abi::upcall`], where the protocol is drawn.
//!
//! ```text
//!               raise                     on the way to user mode: masked, or no stack
//!   Quiet ───────────────▶ Raised ──────────────────────────────────────────────────────▶ Deferred
//!     ▲                      │ ▲                                                             │
//!     │   frame delivered,   │ └───── raise, or upcall_return finds `deferred` set ◀─────────┤
//!     └─── or ring_enter ◀───┘                                                               │
//!     └──────────────────────── ring_enter doesn't wait ◀────────────────────────────────────┘
//! ```
//! An interrupt that was deferred is the program's: the program finds it in `Block::deferred`. The
//! kernel remembers it only for `ring_enter`. So a thread that was interrupted just before it went
//! to wait does not wait.
use crate::memory::user::BadAddress;
use crate::pace;
use crate::process::{DEFERRED, QUIET, RAISED, Taker};
use crate::stretch::{self, Work};
use crate::trap::Context;
use crate::user::thread::{self, End, Thread};
use corank_abi::upcall::{Block, Frame};
use core::future::poll_fn;
use core::mem::offset_of;
use core::pin::Pin;
use core::sync::atomic::Ordering;
use core::task::Poll;

/// Serves `upcall_setup`.
///
/// Returns false if the thread can't be a worker.
pub(crate) fn set_up(thread: &Thread, handler: usize, block: usize) -> bool {
    let Some(worker) = thread.become_worker() else {
        return false;
    };
    let mut taker = worker.upcalls.taker.lock();
    *taker = (handler != 0).then_some(Taker {
        tid: thread.tid,
        handler,
        block,
    });
    true
}

/// What is at the addresses that the thread has named.
struct Target {
    taker: Taker,
    masked: usize,
    stack: usize,
}

fn target(thread: &Thread) -> Result<Option<Target>, BadAddress> {
    let process = &thread.process;
    let taker = *thread.worker().upcalls.taker.lock();
    let Some(taker) = taker.filter(|taker| taker.tid == thread.tid) else {
        return Ok(None);
    };
    let word = |offset: usize| {
        process.with_memory(
            |space| space.read_word(taker.block.wrapping_add(offset)),
            Ok(0),
        )
    };
    Ok(Some(Target {
        taker,
        masked: word(offset_of!(Block, masked))?,
        stack: word(offset_of!(Block, stack))?,
    }))
}

fn write(thread: &Thread, address: usize, bytes: &[u8]) -> Result<(), BadAddress> {
    (thread.process).with_memory(|space| space.write(address, bytes), Ok(()))
}

fn write_word(thread: &Thread, address: usize, word: usize) -> Result<(), BadAddress> {
    write(thread, address, &word.to_le_bytes())
}

/// Takes a raised interrupt, for a thread whose next instruction is at `pc`.
///
/// Writes `frame` and returns where. Marks the interrupt as deferred if the thread has masked
/// interrupts or named no stack, or if the kernel cannot run the handler.
fn take(
    thread: &Thread,
    can_run: bool,
    frame: impl FnOnce() -> Frame,
    pc: usize,
) -> Result<Option<(Taker, usize)>, BadAddress> {
    let Some(Target {
        taker,
        masked,
        stack,
    }) = target(thread)?
    else {
        return Ok(None);
    };
    let state = &thread.worker().upcalls.state;
    if masked != 0 || stack == 0 || !can_run {
        // Acquire: as below, for what the thread checks for when it unmasks.
        state.swap(DEFERRED, Ordering::Acquire);
        let deferred = taker.block.wrapping_add(offset_of!(Block, deferred));
        write_word(thread, deferred, pc.max(1))?;
        return Ok(None);
    }
    // Acquire: what was put before the interrupt was raised is what the handler finds.
    state.swap(QUIET, Ordering::Acquire);
    let address = stack.wrapping_sub(size_of::<Frame>());
    write(thread, address, bytes_of(&frame()))?;
    let masked = taker.block.wrapping_add(offset_of!(Block, masked));
    write_word(thread, masked, 1)?;
    Ok(Some((taker, address)))
}

fn bytes_of(frame: &Frame) -> &[u8; size_of::<Frame>()] {
    const { assert!(size_of::<Frame>() == 8 * (32 + 1 + 32 + 1)) };
    // SAFETY: a frame is 66 words without padding (see above).
    unsafe { &*core::ptr::from_ref(frame).cast() }
}

/// Delivers an interrupt that is [raised](crate::process::Upcalls::are_raised), before the thread
/// goes to user mode with these registers.
///
/// The registers become those of the handler's begin, unless the interrupt has to wait.
///
/// # Errors
/// When the program has named bad addresses.
#[cold]
pub(crate) fn deliver(thread: &Thread, context: &mut Context) -> Result<(), BadAddress> {
    if let Some((taker, frame)) = take(thread, true, || context.frame(), context.pc)? {
        context.enter_handler(taker.handler, frame, false);
    }
    Ok(())
}

/// Serves a system call, in which the thread may wait, and lets interrupts be taken meanwhile.
///
/// # Errors
/// When the call passes a bad pointer, or the thread ends in the handler or goes on elsewhere.
pub(crate) async fn interruptible(
    thread: &Thread,
    context: &Context,
    mut call: Pin<&mut impl Future<Output = Result<isize, BadAddress>>>,
) -> Result<isize, End> {
    loop {
        let result = poll_fn(|polled| {
            stretch::works_on(Work::Call(context.call().0));
            match call.as_mut().poll(polled) {
                Poll::Ready(result) => Poll::Ready(Some(result)),
                Poll::Pending => {
                    // A timer that is due raises one.
                    thread.watch_timers();
                    if thread.process.is_ending() {
                        // The main thread was woken for this. The others are cancelled.
                        Poll::Ready(Some(Ok(corank_abi::call::FAILED)))
                    } else if thread.worker().upcalls.are_raised_for(thread.tid) {
                        Poll::Ready(None)
                    } else {
                        Poll::Pending
                    }
                }
            }
        });
        match result.await {
            Some(result) => return Ok(result?),
            None => pace::apart(during_call(thread, context)).await?,
        }
    }
}

/// Runs the handler while a call of the thread waits and an interrupt is raised, unless the
/// interrupt has to wait.
///
/// The call goes on waiting beside it. The thread is blocked with stack (rule S8). The handler's
/// calls may be interrupted in turn, up to the depth that [`Thread::beside`] allows.
///
/// # Errors
/// When the thread has ended in the handler, or the program has named bad addresses.
async fn during_call(thread: &Thread, context: &Context) -> Result<(), End> {
    let interrupted = || {
        let mut frame = context.frame();
        frame.x[10] = corank_abi::call::FAILED as usize;
        frame
    };
    let beside = thread.beside();
    let taken = take(thread, beside.is_some(), interrupted, context.pc)?;
    match (taken, beside) {
        (Some((taker, frame)), Some(beside)) => {
            let context = context.of_handler(taker.handler, frame);
            thread::run_handler(beside, context, frame).await
        }
        _ => Ok(()),
    }
}

/// Serves `upcall_return` but for the registers.
///
/// Unmasks interrupts, and raises the one that was deferred, if one was.
///
/// # Errors
/// When the program has named bad addresses.
pub(crate) fn unmask(thread: &Thread) -> Result<(), BadAddress> {
    let Some(Target { taker, .. }) = target(thread)? else {
        return Ok(());
    };
    let masked = taker.block.wrapping_add(offset_of!(Block, masked));
    let deferred = taker.block.wrapping_add(offset_of!(Block, deferred));
    write_word(thread, masked, 0)?;
    let pc = (thread.process).with_memory(|space| space.read_word(deferred), Ok(0))?;
    if pc != 0 {
        let upcalls = &thread.worker().upcalls;
        upcalls.state.store(RAISED, Ordering::Relaxed);
    }
    Ok(())
}

/// Returns the registers that a handler returns to.
///
/// # Errors
/// When there is no frame at the address.
pub(crate) fn read_frame(thread: &Thread, address: usize) -> Result<Frame, BadAddress> {
    let mut words = [0_u8; size_of::<Frame>()];
    (thread.process).with_memory(|space| space.read(address, &mut words), Ok(()))?;
    // SAFETY: every pattern of bits is a frame, and the sizes are the same.
    Ok(unsafe { core::mem::transmute::<[u8; size_of::<Frame>()], Frame>(words) })
}
