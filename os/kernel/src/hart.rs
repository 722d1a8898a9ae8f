//! One hardware thread: its page, its executor, and its main loop.
//!
//! A hart has one stack and one executor. While the kernel runs, `tp` is the address of the hart's page. The kernel never
//! takes an interrupt: it runs with interrupts off, looks at pending ones between two coroutines, and sleeps with
//! `wfi`, which ends with a pending interrupt all the same. So a lock is never held by someone whom an interrupt handler
//! on the same hart waits for.
use crate::memory::kernel_space;
use crate::{clock, device, trap, vdso};
use corank::image::CONTEXT_SLOT;
use corank::{Executor, Priority};
use core::arch::asm;
use core::cell::{Cell, UnsafeCell};
use core::mem::MaybeUninit;

/// How many harts the kernel has room for.
pub(crate) const MAX_HARTS: usize = 8;

/// A hart's page. The first part is what `trap.s` needs while user mode's address space is in force. It knows
/// this layout.
#[repr(C, align(4096))]
struct Page {
    /// Room for user registers on the way in and out: a0, a1, tp.
    scratch: [usize; 3],
    kernel_satp: usize,
    /// 1 if the hart has no address-space identifiers, so that each change of address space empties its buffers.
    flush: usize,
    context: usize,
    stack: usize,
    leave: usize,
    kernel_trap: usize,
    emergency_stack: usize,
    // From here on the kernel's own.
    index: usize,
    float_owner: Cell<u64>,
    /// Which executor runs on this hart: the scheduler's context slot.
    context_slot: Cell<*const ()>,
    float_on: Cell<bool>,
    executor: Executor,
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
struct Place {
    page: UnsafeCell<MaybeUninit<Page>>,
    emergency: UnsafeCell<[usize; 1024]>,
}

// SAFETY: each place is used by the hart of its index alone.
unsafe impl Sync for Place {}

/// Apart from the other statics, which fit into one page without them.
#[unsafe(link_section = ".bss.harts")]
static PLACES: [Place; MAX_HARTS] = [const {
    Place {
        page: UnsafeCell::new(MaybeUninit::uninit()),
        emergency: UnsafeCell::new([0; 1024]),
    }
}; MAX_HARTS];

/// The physical address of the page of the hart with this index.
pub(crate) fn page_address(index: usize) -> usize {
    PLACES[index].page.get() as usize
}

fn this() -> &'static Page {
    let tp: usize;
    // SAFETY: `tp` is the address of the hart's page from `start` on; the page stays for ever.
    unsafe {
        asm!("mv {}, tp", out(reg) tp, options(nomem, nostack, preserves_flags));
        &*(tp as *const Page)
    }
}

/// The index of this hart, from 0 to [`MAX_HARTS`] - 1.
pub(crate) fn index() -> usize {
    this().index
}

/// The executor of this hart.
pub(crate) fn executor() -> &'static Executor {
    &this().executor
}

/// Whether anything strictly more urgent than `priority` is ready on this hart.
#[inline]
pub(crate) fn is_more_urgent_ready(priority: Priority) -> bool {
    let ready = executor().published().ready().most_urgent();
    ready.is_some_and(|ready| ready.is_more_urgent_than(priority))
}

/// Whose floating-point registers this hart holds.
pub(crate) fn float_owner() -> &'static Cell<u64> {
    &this().float_owner
}

/// Whether the floating-point unit is on for user mode.
pub(crate) fn float_on() -> &'static Cell<bool> {
    &this().float_on
}

/// Enters the kernel's address space on this hart, with its page in `tp`, and sets up traps.
///
/// # Safety
/// Once per hart, with an `index` that no other hart has, after the kernel's address space has been built.
pub(crate) unsafe fn start(index: usize) {
    let (entry, leave) = trap::trampoline_entries();
    let kernel_satp = kernel_space::satp();
    let tp = kernel_space::hart_page(index);
    let emergency = PLACES[index].emergency.get();
    // SAFETY: the kernel is mapped at its own addresses in its address space, so that execution goes on there. User programs
    // may read the clock (`scounteren`). Interrupts from the
    // clock and from devices end user mode and `wfi`; `sstatus` keeps them off in the kernel.
    unsafe {
        asm!(
            "csrw satp, {satp}",
            "sfence.vma",
            "mv tp, {tp}",
            "csrw stvec, {entry}",
            "csrw scounteren, {counters}",
            "csrw sie, {interrupts}",
            satp = in(reg) kernel_satp,
            tp = in(reg) tp,
            entry = in(reg) entry,
            counters = in(reg) 0b111,
            interrupts = in(reg) 1 << 5 | 1 << 9,
        );
    }
    if index == 0 {
        // SAFETY: the image is mapped now, and nobody has used the scheduler.
        unsafe { vdso::attach() };
    }
    let page = Page {
        scratch: [0; 3],
        kernel_satp,
        flush: usize::from(!has_identifiers(kernel_satp)),
        context: 0,
        stack: 0,
        leave,
        kernel_trap: trap::kernel_trap as *const () as usize,
        emergency_stack: emergency as usize + size_of_val(&PLACES[index].emergency),
        index,
        float_owner: Cell::new(0),
        context_slot: Cell::new(core::ptr::null()),
        float_on: Cell::new(false),
        executor: Executor::new(),
    };
    // SAFETY: the caller gives each hart a place of its own.
    unsafe { (*PLACES[index].page.get()).write(page) };
    trap::init();
}

/// Whether the hart tells address spaces apart in its translation buffers.
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

/// Forgets what this hart remembers of the address space that `satp` names.
pub(crate) fn forget(satp: usize) {
    // SAFETY: forgetting translations is always allowed.
    unsafe { asm!("sfence.vma zero, {}", in(reg) satp >> 44 & 0xffff) };
}

/// Forgets what this hart remembers of the page of `address`, in every address space.
pub(crate) fn forget_page(address: usize) {
    // SAFETY: as in `forget`.
    unsafe { asm!("sfence.vma {}, zero", in(reg) address) };
}

/// The hart's main loop: the most urgent coroutine, again and again; sleep when none is ready.
pub(crate) fn run() -> ! {
    loop {
        take_interrupts();
        if executor().step() == corank::Step::Idle {
            riscv::asm::wfi();
        }
    }
}

/// Serves the interrupts that are pending. Costs one read of a register when none is.
pub(crate) fn take_interrupts() {
    let pending = riscv::register::sip::read();
    if pending.stimer() {
        clock::tick();
    }
    if pending.sext() {
        device::interrupt();
    }
}
