//! What each thread has of its own: a small block that `tp` points to.
//!
//! Programs here have no thread-local storage in the ELF sense. The compiler leaves `tp` alone, and
//! the kernel saves it with the other registers at each switch. So it can hold a pointer to the
//! running thread's block. The entry code sets it for the main thread, and the trampoline in
//! [`crate::thread`] for the others, each before any other code of this crate runs.
use core::cell::Cell;
use core::ptr::{self, NonNull};

use corank_abi::call::WORKER;
use corank_abi::page::{PROCESS_PAGE, worker_page};
use corank_abi::upcall;

use corank::image::CONTEXT_SLOT;

use crate::raw::number_call;
use crate::ring::Ring;
use crate::runtime::Runtime;
use crate::thread::Tid;

/// One thread's own variables.
///
/// Never shared between threads: that is why cells suffice.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct ThreadBlock {
    /// The context slot lies where the kernel has it in its own blocks.
    reserved: [usize; CONTEXT_SLOT / size_of::<usize>()],
    /// The executor that runs on this thread: the scheduler's context slot.
    pub(crate) context: Cell<*const ()>,
    /// Its number.
    pub(crate) tid: Tid,
    /// The rings that it has set up.
    pub(crate) ring: Cell<Option<&'static Ring>>,
    /// Which of the process's workers it is.
    pub(crate) worker: Cell<Option<usize>>,
    /// Where its page is: that of worker 0 while it is none.
    pub(crate) page: Cell<usize>,
    /// How many executors run on it, one inside the other.
    pub(crate) executors: Cell<usize>,
    /// What the kernel and this thread share about interrupts; see [`crate::interrupt`].
    pub(crate) interrupts: upcall::Block,
    /// The innermost executor with coroutines that can be preempted here.
    pub(crate) runtime: Cell<Option<NonNull<Runtime>>>,
    /// How many stacks hold a preempted coroutine, and how many ever did.
    pub(crate) stacks: Cell<usize>,
    pub(crate) most_stacks: Cell<usize>,
    /// Where the last interrupt came, or 0.
    pub(crate) last_interrupted: Cell<usize>,
}

impl ThreadBlock {
    /// Makes the block of the thread with this number.
    pub(crate) const fn new(tid: Tid) -> Self {
        Self {
            tid,
            reserved: [0; CONTEXT_SLOT / size_of::<usize>()],
            context: Cell::new(ptr::null()),
            ring: Cell::new(None),
            worker: Cell::new(None),
            page: Cell::new(PROCESS_PAGE),
            executors: Cell::new(0),
            interrupts: upcall::Block::new(),
            runtime: Cell::new(None),
            stacks: Cell::new(0),
            most_stacks: Cell::new(0),
            last_interrupted: Cell::new(0),
        }
    }

    /// Makes the thread a worker, if it is none: with one kernel entry.
    ///
    /// False if there are too many, or no memory.
    pub(crate) fn become_worker(&self) -> bool {
        if self.worker.get().is_none()
            && let Ok(worker) = number_call(WORKER, [0; 3])
        {
            self.worker.set(Some(worker));
            self.page.set(worker_page(worker));
        }
        self.worker.get().is_some()
    }

    /// Makes this block the calling thread's own.
    ///
    /// # Safety
    /// No other thread uses the block, and it exists for as long as this thread runs code.
    #[inline]
    pub(crate) unsafe fn install(&self) {
        // SAFETY: nothing but this module uses `tp`.
        unsafe {
            core::arch::asm!("mv tp, {}", in(reg) ptr::from_ref(self), options(nostack, preserves_flags))
        };
    }
}

/// Returns the calling thread's block.
#[inline]
pub(crate) fn block<'a>() -> &'a ThreadBlock {
    let block: *const ThreadBlock;
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!("mv {}, tp", out(reg) block, options(nomem, nostack, preserves_flags))
    };
    // SAFETY: every thread has installed a block before it runs any other code of this crate (see
    // above), and the block outlives the thread's code.
    unsafe { &*block }
}

const _: () = assert!(core::mem::offset_of!(ThreadBlock, context) == CONTEXT_SLOT);
