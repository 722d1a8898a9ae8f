//! A hart's page, which `tp` names while the kernel runs, and how many harts there are.

use crate::machine::MAX_HARTS;
use corank::Worker;
use corank::image::CONTEXT_SLOT;
use core::arch::asm;
use core::cell::{Cell, UnsafeCell};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The number of harts that have started.
pub(super) static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// The number of harts that may serve the executor: those with the lowest indices. The others serve
/// interrupts only.
pub(super) static LIMIT: AtomicUsize = AtomicUsize::new(MAX_HARTS);

/// A hart's page.
///
/// The first part is what `trap.s` needs while user mode's address space is in force. It knows this
/// layout.
#[repr(C, align(4096))]
pub(super) struct Page {
    /// Room for user registers on the way in and out: a0, a1, tp.
    pub(super) scratch: [usize; 3],
    pub(super) kernel_satp: usize,
    /// 1 if the hart has no address-space identifiers, so that each change of address space empties
    /// its buffers.
    pub(super) flush: usize,
    pub(super) context: usize,
    pub(super) stack: usize,
    pub(super) leave: usize,
    pub(super) kernel_trap: usize,
    pub(super) emergency_stack: usize,
    // From here on the kernel's own.
    pub(super) index: usize,
    pub(super) float_owner: Cell<u64>,
    /// The scheduler's context slot: which executor runs on this hart.
    pub(super) context_slot: Cell<*const ()>,
    pub(super) float_on: Cell<bool>,
    /// Its worker handle, which lies on its own stack. Null while the hart does not serve the
    /// executor.
    pub(super) worker: Cell<*const Worker<'static>>,
    /// The value that its worker was given last; see [`super::set_interruptible`].
    pub(super) interruptible: Cell<bool>,
    /// Set when this hart has called itself.
    pub(super) called: Cell<bool>,
    /// The time at which its next clock tick is due.
    pub(super) next_tick: Cell<u64>,
    /// Its number for OpenSBI and the device tree. Read by other harts.
    pub(super) id: usize,
    /// The address space of the program that runs on it in user mode, 0 in the kernel. Read by
    /// other harts.
    pub(super) user_satp: AtomicUsize,
    /// The number of rounds that its main loop has made. Read by other harts.
    pub(super) rounds: AtomicU64,
}

// What trap.s and the scheduler's image say of the layout.
const _: () = assert!(
    core::mem::offset_of!(Page, scratch) == 0
        && core::mem::offset_of!(Page, kernel_satp) == 24
        && core::mem::offset_of!(Page, flush) == 32
        && core::mem::offset_of!(Page, context) == 40
        && core::mem::offset_of!(Page, stack) == 48
        && core::mem::offset_of!(Page, leave) == 56
        && core::mem::offset_of!(Page, kernel_trap) == 64
        && core::mem::offset_of!(Page, emergency_stack) == 72
        && core::mem::offset_of!(Page, context_slot) == CONTEXT_SLOT
        && size_of::<Page>() == 4096
);

/// A hart's page and a small stack for the report of a trap in the kernel.
pub(super) struct PerHart {
    pub(super) page: UnsafeCell<MaybeUninit<Page>>,
    pub(super) emergency: UnsafeCell<[usize; 1024]>,
}

// SAFETY: each element is used by the hart of its index alone.
unsafe impl Sync for PerHart {}

/// What belongs to each hart.
///
/// It lies apart from the other statics, which fit into one page without it.
#[unsafe(link_section = ".bss.harts")]
pub(super) static HARTS: [PerHart; MAX_HARTS] = [const {
    PerHart {
        page: UnsafeCell::new(MaybeUninit::uninit()),
        emergency: UnsafeCell::new([0; 1024]),
    }
}; MAX_HARTS];

/// Returns the physical address of the page of the hart with this index.
pub(crate) fn page_address(index: usize) -> usize {
    HARTS[index].page.get() as usize
}

pub(super) fn this() -> &'static Page {
    let tp: usize;
    // SAFETY: `tp` is the address of the hart's page from `start` on; the page stays for ever.
    unsafe {
        asm!("mv {}, tp", out(reg) tp, options(nomem, nostack, preserves_flags));
        &*(tp as *const Page)
    }
}

/// Returns the index of this hart, from 0 to [`MAX_HARTS`] - 1.
pub(crate) fn index() -> usize {
    this().index
}

/// Returns the pages of the harts that run, for what other harts may read of them.
pub(super) fn all() -> impl Iterator<Item = &'static Page> {
    HARTS[..count()].iter().map(|hart| {
        // SAFETY: the page was written before its hart was counted; only its atomics and what never
        // changes are used.
        unsafe { (*hart.page.get()).assume_init_ref() }
    })
}

/// Returns how many harts serve the executor.
pub(crate) fn serving() -> usize {
    count().min(LIMIT.load(Ordering::Relaxed))
}

/// Lets so many harts serve the executor from now on, at least one.
///
/// Returns how many did before. The others notice when they come back to their main loop.
pub(crate) fn set_limit(harts: usize) -> usize {
    let before = serving();
    LIMIT.store(harts.max(1), Ordering::Release);
    before
}

/// Returns how many harts there are.
pub(crate) fn count() -> usize {
    RUNNING.load(Ordering::Acquire)
}

/// Returns the number by which OpenSBI and the interrupt controller know this hart.
pub(crate) fn id() -> usize {
    this().id
}

/// Returns the time at which the next clock tick of this hart is due.
pub(crate) fn next_tick() -> &'static Cell<u64> {
    &this().next_tick
}

/// Returns the owner of the floating-point registers that this hart holds.
pub(crate) fn float_owner() -> &'static Cell<u64> {
    &this().float_owner
}

/// Returns whether the floating-point unit is on for user mode.
pub(crate) fn float_on() -> &'static Cell<bool> {
    &this().float_on
}
