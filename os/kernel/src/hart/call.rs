//! Calls: software interrupts, by which harts wake each other.

use super::page::{all, count, index, this};
use super::translations::others_in;
use corank::Worker;
use core::arch::asm;
use core::task::{RawWaker, RawWakerVTable, Waker};
use sbi_rt::HartMask;

/// Wakes a hart, or ends its user mode, so that it checks again what there is to do.
pub(super) fn call(index: usize) {
    if index == self::index() {
        this().called.set(true);
    } else if let Some(page) = all().nth(index) {
        sbi_rt::send_ipi(HartMask::from_mask_base(1, page.id));
    }
}

/// Tests whether this hart has called itself since the last test.
pub(crate) fn take_own_call() -> bool {
    this().called.replace(false)
}

/// Returns a waker that [calls](call) this hart.
///
/// Its data is the hart's index.
pub(crate) fn waker() -> Waker {
    const TABLE: RawWakerVTable = RawWakerVTable::new(
        |index| RawWaker::new(index, &TABLE),
        |index| call(index.addr()),
        |index| call(index.addr()),
        |_| (),
    );
    // SAFETY: the data is no pointer to anything; the functions may be called on every hart.
    unsafe { Waker::new(core::ptr::without_provenance(index()), &TABLE) }
}

/// Lets this hart serve as a worker from now on, or as none if `worker` is null.
///
/// # Safety
/// The worker, which is new, stays valid until this is called again on this hart.
pub(crate) unsafe fn serve_as(worker: *const Worker<'static>) {
    let page = this();
    page.worker.set(worker);
    // As a new worker is.
    page.interruptible.set(false);
}

/// Sets whether this hart is called when something is ready that is more urgent than what it runs.
pub(crate) fn set_interruptible(interruptible: bool) {
    // It rarely changes, and this hart's page is at hand.
    let page = this();
    if page.interruptible.replace(interruptible) == interruptible {
        return;
    }
    // SAFETY: null, or what lies on this hart's stack as long as it serves.
    if let Some(worker) = unsafe { page.worker.get().as_ref() } {
        worker.set_interruptible(interruptible);
    }
}

/// Sets whether the poll that this hart makes ends soon, as all polls do except in user mode.
///
/// If it does, what the poll makes ready is left for this hart, unless more is ready than one hart
/// takes. Calling another hart would cost more. Call this before user mode and after it.
pub(crate) fn set_short_polls(are_short: bool) {
    if count() == 1 {
        return;
    }
    // SAFETY: null, or what lies on this hart's stack as long as it serves.
    if let Some(worker) = unsafe { this().worker.get().as_ref() } {
        worker.set_short_polls(are_short);
    }
}

/// Ends user mode on the other harts that run this address space now.
pub(crate) fn interrupt_elsewhere(satp: usize) {
    for id in others_in(satp) {
        sbi_rt::send_ipi(HartMask::from_mask_base(1, id));
    }
}

/// Calls the harts whose bit is set.
pub(super) fn call_all(harts: usize) {
    for page in all().filter(|page| harts >> page.index & 1 != 0) {
        sbi_rt::send_ipi(HartMask::from_mask_base(1, page.id));
    }
}

/// Takes a call.
///
/// The hart that was called checks what there is to do next.
pub(crate) fn take_call() {
    // SAFETY: clears the software interrupt, which says no more than that.
    unsafe { asm!("csrc sip, {}", in(reg) 1 << 1) };
}
