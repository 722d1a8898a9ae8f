//! The scheduler in the system's image.
use core::arch::asm;
use core::ptr;
use core::slice;
use core::sync::atomic::AtomicUsize;

use corank::image::{CONTEXT_SLOT, attach};
use corank_abi::page::PAGE_SIZE;
use corank_abi::vdso::{BASE, SYMBOL, VERSION};
use corank_image::{find, size};

use crate::or_exit;

const SLOT: usize = CONTEXT_SLOT / size_of::<usize>();

/// What `tp` points to: the scheduler's context slot, and in front of it what is other programs'
/// own.
static THREAD: [AtomicUsize; SLOT + 1] = [const { AtomicUsize::new(0) }; SLOT + 1];

/// Finds the image's scheduler and takes it into use.
pub(crate) fn init() {
    // SAFETY: nothing else uses `tp`, and there is one thread.
    unsafe { asm!("mv tp, {}", in(reg) &raw const THREAD, options(nostack, preserves_flags)) };
    let start: *const u8 = ptr::with_exposed_provenance(BASE);
    // SAFETY: the kernel has mapped an image there, for ever: at least one page, and as many bytes
    // as its header says. It has no variables.
    let image = unsafe {
        let size = or_exit(size(slice::from_raw_parts(start, PAGE_SIZE)));
        slice::from_raw_parts(start, size)
    };
    let table = &raw const image[or_exit(find(image, SYMBOL, VERSION))];
    // SAFETY: the symbol in its version is such a table, and the image stays; nothing of the
    // scheduler has run.
    or_exit(unsafe { attach(table.cast()) });
}
