//! The start of a hart.

use super::page::{HARTS, Page, RUNNING};
use core::arch::asm;
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What a hart needs to know to enter the kernel's address space and to take traps there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    /// The value of `satp` for the kernel's address space.
    pub satp: usize,
    /// Where the hart's page is mapped in every address space.
    pub page: usize,
    /// Where traps from user mode enter the trampoline, and where it is left for user mode.
    pub trap_entry: usize,
    pub leave: usize,
    /// What serves traps of the kernel itself.
    pub kernel_trap: usize,
}

/// Enters the kernel's address space on this hart, with its page in `tp`.
///
/// [`started`] is next, once the hart can serve.
///
/// # Safety
/// Once per hart, in the order of their indices, after the kernel's address space has been built.
/// `id` is this hart's.
pub(crate) unsafe fn enter(index: usize, id: usize, addresses: Addresses) {
    let emergency = HARTS[index].emergency.get();
    let page = Page {
        scratch: [0; 3],
        kernel_satp: addresses.satp,
        flush: usize::from(!has_identifiers(addresses.satp)),
        context: 0,
        stack: 0,
        leave: addresses.leave,
        kernel_trap: addresses.kernel_trap,
        emergency_stack: emergency as usize + size_of_val(&HARTS[index].emergency),
        index,
        float_owner: Cell::new(0),
        float_on: Cell::new(false),
        context_slot: Cell::new(core::ptr::null()),
        worker: Cell::new(core::ptr::null()),
        interruptible: Cell::new(false),
        called: Cell::new(false),
        next_tick: Cell::new(0),
        id,
        user_satp: AtomicUsize::new(0),
        rounds: AtomicU64::new(0),
    };
    // SAFETY: the caller gives each hart an index of its own. The kernel is mapped at its own
    // addresses in its address space, so that execution goes on there. User programs may read the
    // clock (`scounteren`). Interrupts from the clock and from devices end user mode and `wfi`;
    // `sstatus` keeps them off in the kernel. The scheduler's image was written by the first hart,
    // before this.
    unsafe {
        (*HARTS[index].page.get()).write(page);
        asm!(
            "csrw satp, {satp}",
            "sfence.vma",
            "mv tp, {tp}",
            "csrw stvec, {entry}",
            "csrw scounteren, {counters}",
            "csrw sie, {interrupts}",
            "fence.i",
            satp = in(reg) addresses.satp,
            tp = in(reg) addresses.page,
            entry = in(reg) addresses.trap_entry,
            counters = in(reg) 0b111,
            interrupts = in(reg) 1 << 1 | 1 << 5 | 1 << 9,
        );
    }
}

/// Counts the hart among those that run: other harts may call it from now on.
pub(crate) fn started(index: usize) {
    RUNNING.store(index + 1, Ordering::Release);
}

/// Tests whether the hart tells address spaces apart in its translation buffers.
fn has_identifiers(kernel_satp: usize) -> bool {
    let read: usize;
    // SAFETY: the kernel's address space with another identifier is the same address space.
    unsafe {
        asm!(
            "csrw satp, {all}",
            "csrr {read}, satp",
            "csrw satp, {kernel}",
            "sfence.vma",
            all = in(reg) kernel_satp | 0xffff << 44,
            read = out(reg) read,
            kernel = in(reg) kernel_satp,
        );
    }
    read >> 44 & 0xffff == 0xffff
}
