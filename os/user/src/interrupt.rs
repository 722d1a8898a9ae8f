//! User-level interrupts: a coroutine that computes for long is preempted by a more urgent one of
//! its process (COPS, figure 3 and section 4.3.2; rules S8 to S11).
//!
//! A coroutine may be preempted inside [`preemptible`] and nowhere else:
//!
//! ```no_run
//! # use corank_user::interrupt::preemptible;
//! # async fn receive() -> Vec<u8> { Vec::new() }
//! # extern crate alloc; use alloc::vec::Vec;
//! # async fn example() {
//! let data = receive().await;
//! let sum: u64 = preemptible(|| data.iter().map(|byte| u64::from(*byte)).sum());
//! # }
//! ```
//!
//! # Why only there
//! Coroutines of one executor may share what threads may not: an `Rc`, a `RefCell`, the executor's
//! own queues. If one of them were interrupted anywhere, another could find such a thing in the
//! middle of a change. The closure that `preemptible` takes is [`Send`]. It could run on another
//! thread while this one runs coroutines, so these may interrupt it at each instruction. For the
//! same reason it is *outside* the executor, as another thread is: [`spawn`](crate::spawn) refuses
//! with `NotRunning`, and what it wakes arrives through the inbox. Everywhere else interrupts are
//! masked, at no cost.
//!
//! # What happens
//! ```text
//!   poll ─▶ preemptible ─▶ check, flag open, unmask ─▶ computes ────╳─── goes on ────▶ mask, flag closed ─▶ poll goes on
//!                                                                  │        ▲
//!   an interrupt (see `corank_abi::upcall`): a completion, a wake  ▼        │ nothing strictly more urgent is ready:
//!   from another thread, a timer that is due                ┌─ handler ─────┴─┐ flag open, unmask
//!                                                           │ on a stack of   │
//!                                                           │ its own: takes  │
//!                                                           │ in, polls what  │
//!                                                           │ is more urgent  │──▶ and a poll there may be preempted in turn
//!                                                           └─────────────────┘
//! ```
//! The handler is entered by the kernel, or, if the interrupt came while it was masked for a
//! moment, called by the code that unmasks. If the closure waits in a system call, the handler runs
//! beside that (*blocked with stack*). Less urgent coroutines wait for the end of the closure in
//! any case.
//!
//! There are [`STACK_COUNT`] stacks. At the innermost level an interrupt stays pending, up to the
//! end of the closure there. [`stacks`] returns how many are in use.
//!
//! # What is masked
//! Inside `preemptible` the rest of this library can be called. Whatever of it must not be
//! interrupted masks interrupts, and takes one that came meanwhile at its end:
//! - the heap, while its lock is held (`heap.rs`);
//! - a [`sync::Mutex`](crate::sync::Mutex), while it is locked: a more urgent coroutine would wait
//!   for its own thread;
//! - the rings and the core's queues: out of reach there, see above;
//! - the handler itself, except for the computations of the coroutines that it polls.
//!
//! Everything else has no state that outlives a call (console, files, processes) or is made for
//! other threads (wakers, the inbox).
use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicUsize, Ordering, compiler_fence};
use core::task::{RawWaker, RawWakerVTable, Waker};

use corank::Interrupted;
use corank_abi::call;
use corank_abi::upcall::{Frame, STACK_COUNT, stack_top};

use crate::local::{self, ThreadBlock};
use crate::page;
use crate::raw::number_call;
use crate::ring::Ring;
use crate::runtime::Runtime;

/// Computes, and lets more urgent coroutines of this process run in between.
///
/// Where no executor runs, or inside a lock that [masks interrupts](self#what-is-masked), it just
/// computes.
///
/// Costs some tens of instructions, and more if something more urgent is ready. That pays for what
/// takes longer than a clock tick.
pub fn preemptible<R>(compute: impl FnOnce() -> R + Send) -> R {
    let block = local::block();
    if block.runtime.get().is_none() || block.interrupts.masked.load(Ordering::Relaxed) != 1 {
        return compute();
    }
    let _region = Region::enter(block);
    compute()
}

/// How many stacks hold a preempted coroutine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stacks {
    /// Now: how deep the caller is nested.
    pub in_use: usize,
    /// The most that ever were.
    pub most: usize,
    /// How many there are.
    pub limit: usize,
}

/// Returns the stacks of the calling thread.
///
/// Others see the number in use in the process's page.
#[must_use]
pub fn stacks() -> Stacks {
    let block = local::block();
    Stacks {
        in_use: block.stacks.get(),
        most: block.most_stacks.get(),
        limit: STACK_COUNT,
    }
}

/// Returns where the calling thread was when the last interrupt came, delivered or deferred. `None`
/// if none has come since the last call. It is for tests.
#[must_use]
pub fn last_interrupted() -> Option<usize> {
    let block = local::block();
    note_deferred(block);
    match block.last_interrupted.take() {
        0 => None,
        place => Some(place),
    }
}

/// Nothing was interrupted: the thread itself asks for its handler.
const BY_ITSELF: usize = 1;

/// Records a deferred interrupt, before it is cleared.
fn note_deferred(block: &ThreadBlock) {
    let deferred = block.interrupts.deferred.load(Ordering::Relaxed);
    if deferred > BY_ITSELF {
        block.last_interrupted.set(deferred);
    }
}

/// Inside [`preemptible`].
struct Region {
    block: &'static ThreadBlock,
    context: *const (),
    ring: Option<&'static Ring>,
}

impl Region {
    fn enter(block: &'static ThreadBlock) -> Self {
        let region = Self {
            block,
            context: block.context.replace(ptr::null()),
            ring: block.ring.take(),
        };
        // As if an interrupt had come: what is ready already and more urgent goes first, and the
        // flag is open afterwards.
        block
            .interrupts
            .deferred
            .store(BY_ITSELF, Ordering::Relaxed);
        unmask(block);
        region
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        mask(self.block);
        page::here().flag.close();
        // The executor checks before it polls again.
        note_deferred(self.block);
        self.block.interrupts.deferred.store(0, Ordering::Relaxed);
        self.block.ring.set(self.ring);
        self.block.context.set(self.context);
    }
}

#[inline]
fn mask(block: &ThreadBlock) {
    let masked = &block.interrupts.masked;
    masked.store(masked.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    // The kernel sees the word when it interrupts this thread, so the order in the program is all
    // that counts.
    compiler_fence(Ordering::SeqCst);
}

#[inline]
fn unmask(block: &ThreadBlock) {
    compiler_fence(Ordering::SeqCst);
    let masked = &block.interrupts.masked;
    let left = masked.load(Ordering::Relaxed) - 1;
    masked.store(left, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    // An interrupt before the store above was deferred; one after it is delivered.
    if left == 0 && block.interrupts.deferred.load(Ordering::Relaxed) != 0 {
        take_deferred(block);
    }
}

/// No interrupt is taken while it exists.
#[derive(Debug)]
pub(crate) struct Masked {
    /// It belongs to the thread.
    _local: PhantomData<*const ()>,
}

impl Masked {
    /// Tests whether there is one: everywhere but in [`preemptible`].
    #[inline]
    pub(crate) fn already() -> bool {
        local::block().interrupts.masked.load(Ordering::Relaxed) != 0
    }

    #[inline]
    pub(crate) fn new() -> Self {
        mask(local::block());
        Self {
            _local: PhantomData,
        }
    }
}

impl Drop for Masked {
    #[inline]
    fn drop(&mut self) {
        unmask(local::block());
    }
}

/// Calls the handler for what came while interrupts were masked.
///
/// They are not masked now.
#[cold]
fn take_deferred(block: &ThreadBlock) {
    let interrupts = &block.interrupts;
    while interrupts.deferred.load(Ordering::Relaxed) != 0 {
        let stack = interrupts.stack.load(Ordering::Relaxed);
        if stack == 0 {
            // It stays pending.
            return;
        }
        mask(block);
        note_deferred(block);
        interrupts.deferred.store(0, Ordering::Relaxed);
        // SAFETY: interrupts are masked, so nothing else uses this stack, the next free one, before
        // `serve` takes the one after it.
        unsafe { call_on(stack, serve_ready) };
        // Not `unmask`: the loop checks for what came meanwhile.
        compiler_fence(Ordering::SeqCst);
        interrupts.masked.store(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }
}

/// Calls `function` on another stack.
///
/// # Safety
/// `stack` is the upper end of a stack that nothing uses until `function` has returned, a multiple
/// of 16.
unsafe fn call_on(stack: usize, function: extern "C" fn()) {
    // SAFETY: `s2` survives the call, so the old stack is found again; the function returns, as it
    // can't unwind.
    unsafe {
        core::arch::asm!(
            "mv s2, sp",
            "mv sp, {stack}",
            "jalr {function}",
            "mv sp, s2",
            stack = in(reg) stack,
            function = in(reg) function,
            out("s2") _,
            clobber_abi("C"),
        );
    }
}

extern "C" fn serve_ready() {
    serve(local::block(), Interrupted::Ready);
}

/// Handles an interrupt: the kernel enters here, masked, on the interrupt's stack.
extern "C" fn handler(frame: *mut Frame, call_waits: usize) -> ! {
    let block = local::block();
    // SAFETY: the kernel has written it for this call.
    block.last_interrupted.set(unsafe { (*frame).pc });
    // One that came when the last handler had already opened the flag, and is delivered with this
    // one.
    note_deferred(block);
    block.interrupts.deferred.store(0, Ordering::Relaxed);
    let interrupted = if call_waits == 0 {
        Interrupted::Ready
    } else {
        Interrupted::Blocked
    };
    serve(block, interrupted);
    // SAFETY: the frame is the kernel's own: the interrupted registers, which nothing here has
    // changed.
    unsafe {
        core::arch::asm!(
            "ecall",
            "unimp",
            in("a0") frame,
            in("a7") call::UPCALL_RETURN,
            options(noreturn),
        )
    }
}

/// Runs what is more urgent than the interrupted coroutine, and opens the flag when nothing more is
/// there.
///
/// Interrupts are masked, and the stack is the one that was next.
fn serve(block: &ThreadBlock, interrupted: Interrupted) {
    let Some(runtime) = block.runtime.get() else {
        return;
    };
    let depth = block.stacks.get();
    set_stacks(block, depth + 1);
    // SAFETY: the runtime takes itself out of the block before it goes (`Present`), and runs on
    // this thread.
    let runtime = unsafe { runtime.as_ref() };
    block.ring.set(runtime.ring());
    runtime.run_more_urgent(interrupted);
    block.ring.set(None);
    set_stacks(block, depth);
}

fn set_stacks(block: &ThreadBlock, in_use: usize) {
    block.stacks.set(in_use);
    block.most_stacks.set(block.most_stacks.get().max(in_use));
    let worker = block.worker.get().unwrap_or(0);
    let next = stack_top(worker, in_use).unwrap_or(0);
    block.interrupts.stack.store(next, Ordering::Relaxed);
    page::here().stacks.store(in_use, Ordering::Relaxed);
}

/// The state in which an executor is on the calling thread and its coroutines can be preempted.
///
/// Executors may nest.
pub(crate) struct Present {
    outer: Option<NonNull<Runtime>>,
    /// It runs inside a computation, in which interrupts were not masked.
    in_region: bool,
}

impl Present {
    /// Returns `None` if the thread takes no interrupts, because it is no worker.
    ///
    /// # Safety
    /// `runtime` stays until the value is dropped.
    pub(crate) unsafe fn new(runtime: &Runtime) -> Option<Self> {
        let block = local::block();
        let in_region = block.interrupts.masked.load(Ordering::Relaxed) == 0;
        if in_region {
            mask(block);
        }
        set_up().then(|| Self {
            outer: block.runtime.replace(Some(runtime.into())),
            in_region,
        })
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        let block = local::block();
        block.runtime.set(self.outer);
        if self.in_region {
            // The flag is closed; the outer executor checks, and opens it.
            block
                .interrupts
                .deferred
                .store(BY_ITSELF, Ordering::Relaxed);
            unmask(block);
        }
    }
}

/// Makes the calling thread take interrupts.
fn set_up() -> bool {
    let block = local::block();
    if block.worker.get().is_none() {
        return false;
    }
    page::here().flag.close();
    if block.interrupts.stack.load(Ordering::Relaxed) != 0 {
        return true;
    }
    let handler = handler as extern "C" fn(*mut Frame, usize) -> ! as usize;
    let address = ptr::from_ref(&block.interrupts).expose_provenance();
    let set_up = number_call(call::UPCALL_SETUP, [handler, address, 0]).is_ok();
    if set_up {
        set_stacks(block, 0);
    }
    set_up
}

/// Returns a waker that interrupts the calling thread, or ends its wait, when something has arrived
/// for its executor from outside.
///
/// One that is no worker never waits.
pub(crate) fn waker() -> Waker {
    match local::block().worker.get() {
        // SAFETY: the data is a worker's number and no pointer to anything.
        Some(worker) => unsafe { Waker::from_raw(raw_waker(ptr::without_provenance(worker))) },
        None => Waker::noop().clone(),
    }
}

fn raw_waker(worker: *const ()) -> RawWaker {
    static VTABLE: RawWakerVTable = RawWakerVTable::new(raw_waker, interrupt, interrupt, |_| {});
    RawWaker::new(worker, &VTABLE)
}

fn interrupt(worker: *const ()) {
    let worker = worker.addr();
    if !page::of(worker).flag.raise() {
        return;
    }
    let here = local::block();
    if here.worker.get() == Some(worker) {
        // From inside `preemptible`, or from a lock in there.
        let masked: &AtomicUsize = &here.interrupts.masked;
        here.interrupts.deferred.store(BY_ITSELF, Ordering::Relaxed);
        if masked.load(Ordering::Relaxed) == 0 {
            take_deferred(here);
        }
    } else {
        // If that thread has ended, there is nothing to interrupt.
        let _ = number_call(call::UPCALL_RAISE, [worker, 0, 0]);
    }
}
