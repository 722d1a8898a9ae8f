//! What a hart remembers of address spaces, and how it forgets.

use super::page::{all, index, this};
use core::arch::asm;
use core::sync::atomic::Ordering;
use sbi_rt::HartMask;

/// Declares that this hart may run user mode in the address space that `satp` names, until
/// [`leave_user`].
///
/// Call it under the lock of that address space. A hart that changes the address space later, under
/// the same lock, then knows which harts may still hold old translations.
pub(crate) fn enter_user(satp: usize) {
    this().user_satp.store(satp, Ordering::Relaxed);
}

/// Declares that this hart is back from user mode.
pub(crate) fn leave_user() {
    this().user_satp.store(0, Ordering::Relaxed);
}

/// Returns the numbers of the other harts that may be in user mode in this address space.
///
/// Called under its lock.
pub(super) fn others_in(satp: usize) -> impl Iterator<Item = usize> {
    let index = index();
    all()
        .filter(move |page| page.index != index && page.user_satp.load(Ordering::Relaxed) == satp)
        .map(|page| page.id)
}

/// Makes the other harts that run this address space now forget its translations.
///
/// The harts that don't run it now forget them before they run it again (see
/// [`crate::memory::address_space`]).
pub(crate) fn forget_elsewhere(satp: usize) {
    for id in others_in(satp) {
        let space = satp >> 44 & 0xffff;
        let done =
            sbi_rt::remote_sfence_vma_asid(HartMask::from_mask_base(1, id), 0, usize::MAX, space);
        assert!(done.is_ok(), "OpenSBI serves remote fences");
    }
}

/// Forgets what this hart remembers of the address space that `satp` names, and of the instructions
/// in it.
pub(crate) fn forget(satp: usize) {
    // SAFETY: forgetting translations and instructions is always allowed.
    unsafe { asm!("sfence.vma zero, {}", "fence.i", in(reg) satp >> 44 & 0xffff) };
}

/// Forgets what this hart remembers of the page of `address`, in every address space.
pub(crate) fn forget_page(address: usize) {
    // SAFETY: as in `forget`.
    unsafe { asm!("sfence.vma {}, zero", in(reg) address) };
}
