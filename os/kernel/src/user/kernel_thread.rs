//! Kernel threads: the second way to serve a system call that may wait.
//!
//! It is the same `async fn` ([`syscall::wait`]), but driven by a `block_on` on a stack of its own,
//! which it keeps while it waits.
//!
//! ```text
//!  the executor's stack                      the thread's stack
//!  poll ──────── switch ───────────────────▶ block_on: polls the call
//!    ◀────────── switch ──────── park ────── pending
//!  poll ──────── switch ───────────────────▶ polls it again
//!    ◀────────── switch ──────────────────── ready: the call is dropped, the result stays
//! ```
//! To the executor it is a coroutine like any other, so that threads and coroutines share
//! priorities, wakers and cancellation. A stack may go on on another hart than before. So what runs
//! on it keeps nothing of the hart across [`park`].
use crate::memory::OutOfMemory;
use crate::memory::stack::Stack;
use crate::memory::user::UserBuffer;
use crate::process::Process;
use crate::user::syscall;
use crate::wait::WaitMode;
use alloc::sync::Arc;
use core::arch::global_asm;
use core::pin::{Pin, pin};
use core::ptr::{self, NonNull};
use core::task::{Context, Poll};

global_asm!(include_str!("stackful.s"));

unsafe extern "C" {
    /// Writes the stack pointer to `left` and goes on where `other` was left.
    fn switch_stack(left: *mut usize, other: usize);
    fn begin_on_stack();
}

/// What [`switch_stack`] finds on a stack that it goes on with.
#[repr(C)]
struct Frame {
    return_to: usize,
    saved: [usize; 12],
    padding: usize,
}

/// A system call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) process: Arc<Process>,
    pub(crate) mode: WaitMode,
    pub(crate) number: usize,
    pub(crate) arguments: [usize; 3],
}

/// What both sides of a thread share.
///
/// It lies at the upper end of the thread's stack.
struct Shared {
    call: Call,
    /// The stack pointers of the side that does not run.
    thread: usize,
    executor: usize,
    /// The context of the poll that is under way.
    context: *mut Context<'static>,
    /// Set if the call is to be dropped.
    cancelled: bool,
    result: Option<syscall::Result>,
    /// The number of bytes that had been moved when the call was dropped.
    moved: usize,
    /// Set when nothing of the call is left on the stack.
    finished: bool,
}

/// Serves one system call on a stack of its own.
#[derive(Debug)]
pub(crate) struct KernelThread {
    stack: Stack,
    shared: NonNull<Shared>,
}

// SAFETY: the `Shared` and what lies on the stack belong to the value alone. Between two polls
// nothing on the stack runs, and what is there is `Send`: the call's future, which the executor
// could hold itself.
unsafe impl Send for KernelThread {}

impl KernelThread {
    /// Makes a thread for `call`, on the stack given or on a new one.
    ///
    /// The call begins with the first poll.
    ///
    /// # Errors
    /// When there is no stack for it.
    pub(crate) fn new(stack: Option<Stack>, call: Call) -> Result<KernelThread, OutOfMemory> {
        let stack = match stack {
            Some(stack) => stack,
            None => Stack::new()?,
        };
        let shared = (stack.top() - size_of::<Shared>()) & !15;
        let shared: *mut Shared = ptr::with_exposed_provenance_mut(shared);
        let frame = (shared.addr() - size_of::<Frame>()) & !15;
        let mut saved = [0; 12];
        saved[0] = shared.expose_provenance();
        saved[1] = block_on as extern "C" fn(*mut Shared) -> ! as usize;
        // SAFETY: the stack is ours, large enough for both and mapped; shared and frame are aligned
        // and do not overlap.
        unsafe {
            shared.write(Shared {
                call,
                thread: frame,
                executor: 0,
                context: ptr::null_mut(),
                cancelled: false,
                result: None,
                moved: 0,
                finished: false,
            });
            ptr::with_exposed_provenance_mut::<Frame>(frame).write(Frame {
                return_to: begin_on_stack as unsafe extern "C" fn() as usize,
                saved,
                padding: 0,
            });
            Ok(KernelThread {
                stack,
                shared: NonNull::new_unchecked(shared),
            })
        }
    }

    /// Runs the thread until it parks or is done.
    fn switch(&mut self) {
        let shared = self.shared.as_ptr();
        // SAFETY: the `Shared` lives as long as the stack. `thread` is where the thread was left,
        // by `new` or by `park`; it runs on its own stack alone, and comes back here by `park` or
        // at its end.
        unsafe { switch_stack(&raw mut (*shared).executor, (*shared).thread) };
    }

    /// Drops the call, on its own stack.
    ///
    /// Returns how many bytes it had moved.
    pub(crate) fn cancel(&mut self) -> usize {
        let shared = self.shared.as_ptr();
        // SAFETY: as in `switch`; the thread does not run.
        unsafe {
            if !(*shared).finished {
                (*shared).cancelled = true;
                self.switch();
            }
            (*shared).moved
        }
    }

    /// Returns the stack, when the call is over, for the next one.
    pub(crate) fn into_stack(mut self) -> Stack {
        self.end();
        // SAFETY: the stack is moved out once; nothing of `self` is used or dropped after that.
        unsafe { ptr::read(&raw const core::mem::ManuallyDrop::new(self).stack) }
    }

    /// Ends the call, so that nothing is left on the stack.
    fn end(&mut self) {
        self.cancel();
        // SAFETY: the thread has finished, so nothing else uses the `Shared`, and it is not used
        // again.
        unsafe { self.shared.drop_in_place() };
    }
}

impl Future for KernelThread {
    type Output = syscall::Result;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<syscall::Result> {
        let shared = self.shared.as_ptr();
        // SAFETY: as in `switch`. The context is used only until `switch` comes back.
        unsafe {
            (*shared).context = ptr::from_mut(context).cast();
            self.switch();
            (*shared).result.take().map_or(Poll::Pending, Poll::Ready)
        }
    }
}

impl Drop for KernelThread {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs the call on the thread's stack.
extern "C" fn block_on(shared: *mut Shared) -> ! {
    // SAFETY: `KernelThread::new` has made the `Shared`, at the upper end of this stack; the other
    // side accesses it only while this one is switched away from. References to its parts are not
    // kept across `park`, but for the call, which stays as it is.
    unsafe {
        let call = &(*shared).call;
        let [_, address, length] = call.arguments;
        let mut buffer = UserBuffer { address, length };
        {
            let (number, arguments) = (call.number, call.arguments);
            let waiting = syscall::wait(&call.process, call.mode, number, arguments, &mut buffer);
            let mut waiting = pin!(waiting);
            while !(*shared).cancelled {
                if let Poll::Ready(result) = waiting.as_mut().poll(&mut *(*shared).context) {
                    (*shared).result = Some(result);
                    break;
                }
                park(shared);
            }
        }
        (*shared).moved = length - buffer.length;
        (*shared).finished = true;
        loop {
            park(shared);
        }
    }
}

/// Leaves the thread's stack until the thread is polled or cancelled.
///
/// # Safety
/// Called on the stack of `shared`.
unsafe fn park(shared: *mut Shared) {
    // SAFETY: the executor's side waits in `KernelThread::switch`.
    unsafe { switch_stack(&raw mut (*shared).thread, (*shared).executor) };
}
