//! The start of the harts.

use crate::hart::{self, Addresses};
use crate::machine::Machine;
use crate::memory::frame::Frame;
use crate::memory::kernel_space;
use crate::{clock, executor, println, trap, vdso};
use corank_abi::page::SystemPage;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Enters the kernel's address space on this hart, and sets up traps.
///
/// # Safety
/// As [`hart::enter`].
unsafe fn start(index: usize, id: usize) {
    let (trap_entry, leave) = trap::trampoline_entries();
    let addresses = Addresses {
        satp: kernel_space::satp(),
        page: kernel_space::hart_page(index),
        trap_entry,
        leave,
        kernel_trap: trap::kernel_trap as *const () as usize,
    };
    // SAFETY: the caller's promise.
    unsafe { hart::enter(index, id, addresses) };
    trap::init();
}

/// Starts the first hart, and makes the executor that all harts serve.
///
/// # Safety
/// As [`hart::enter`], for index 0.
pub(super) unsafe fn start_first(id: usize, machine: &Machine) {
    // SAFETY: the caller's promise. The image is mapped, and the scheduler has not been used yet.
    unsafe {
        start(0, id);
        vdso::attach();
    }
    let page = system_page();
    page.timebase_hz
        .store(machine.timebase_hz, Ordering::Relaxed);
    executor::init(page, clock::pause);
    hart::started(0);
}

/// Makes the page that every process can read.
///
/// # Panics
/// When no frame is free.
fn system_page() -> &'static SystemPage {
    let frame = Frame::zeroed().expect("there is memory for the system page");
    // SAFETY: the frame is full of zeros, which is a valid `SystemPage`; all of it is atomic; it
    // stays for ever.
    unsafe { &*(frame.into_address() as *const SystemPage) }
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
/// hart is to start and only then where. A hart that checks in between goes where the first hart
/// went. So what it needs lies at a fixed place, and that entry leads there, too, from the second
/// time on.
pub(super) fn start_others(machine: &Machine) {
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
        while hart::count() == index {
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
    hart::started(index);
    clock::start();
}
