//! The start of a hart.

use super::page::{HARTS, Page, RUNNING};
use super::urgency::EXECUTOR;
use crate::boot::Machine;
use crate::memory::kernel_space;
use crate::{clock, println, trap, vdso};
use core::arch::asm;
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Enters the kernel's address space on this hart, with its page in `tp`, and sets up traps.
///
/// # Safety
/// Once per hart, in the order of their indices, after the kernel's address space has been built.
/// `id` is this hart's.
pub(crate) unsafe fn start(index: usize, id: usize) {
    let (entry, leave) = trap::trampoline_entries();
    let kernel_satp = kernel_space::satp();
    let tp = kernel_space::hart_page(index);
    let emergency = HARTS[index].emergency.get();
    let page = Page {
        scratch: [0; 3],
        kernel_satp,
        flush: usize::from(!has_identifiers(kernel_satp)),
        context: 0,
        stack: 0,
        leave,
        kernel_trap: trap::kernel_trap as *const () as usize,
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
            satp = in(reg) kernel_satp,
            tp = in(reg) tp,
            entry = in(reg) entry,
            counters = in(reg) 0b111,
            interrupts = in(reg) 1 << 1 | 1 << 5 | 1 << 9,
        );
    }
    if index == 0 {
        // SAFETY: the image is mapped now, and the scheduler has not been used yet.
        unsafe { vdso::attach() };
    }
    trap::init();
    EXECUTOR.call_once(clock::make_executor);
    RUNNING.store(index + 1, Ordering::Release);
}

/// What the hart that is being started by another one finds.
///
/// `start.s` knows its name and layout.
#[repr(C)]
struct Start {
    satp: AtomicUsize,
    stack: AtomicUsize,
    index: AtomicUsize,
}

#[unsafe(no_mangle)]
static START: Start = Start {
    satp: AtomicUsize::new(0),
    stack: AtomicUsize::new(0),
    index: AtomicUsize::new(0),
};

unsafe extern "C" {
    fn start_other();
}

/// Starts all other harts of the machine, one after the other.
///
/// If OpenSBI cannot start one, that hart and all behind it are left out.
///
/// A hart may come to the kernel's first instruction instead. OpenSBI 1.1, for one, says that a
/// hart shall start and only then where. A hart that checks in between goes where the first hart
/// went. So what it needs lies at a fixed place, and that entry leads there, too, from the second
/// time on.
pub(crate) fn start_others(machine: &Machine) {
    for (index, &id) in machine.harts().iter().enumerate().skip(1) {
        START.satp.store(kernel_space::satp(), Ordering::Relaxed);
        START
            .stack
            .store(kernel_space::hart_stack(index), Ordering::Relaxed);
        START.index.store(index, Ordering::Release);
        let address = start_other as *const () as usize;
        let started = sbi_rt::hart_start(id, address, 0);
        if started.is_err() {
            println!("corank: hart {id} cannot be started: {:?}", started.error);
            return;
        }
        while RUNNING.load(Ordering::Acquire) == index {
            // In a machine that counts instructions harts take turns, and one that spins keeps its
            // turn.
            clock::wait_for_interrupt();
        }
    }
}

/// Runs as the first function of a hart that another one has started.
///
/// It runs on the hart's own stack, in the kernel's address space.
#[unsafe(no_mangle)]
extern "C" fn boot_other(id: usize) {
    let index = START.index.load(Ordering::Acquire);
    // SAFETY: each hart comes here once, in order: the next one is started when this one is
    // counted.
    unsafe { start(index, id) };
    clock::start();
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
