//! The shared scheduler's image, as the kernel has mapped it (COPS, section 4.1).
use core::fmt;
use core::ptr;
use core::slice;

use corank::image::{Mismatch, attach};
use corank_abi::auxiliary::SYSINFO_EHDR;
use corank_abi::vdso::{SYMBOL, VERSION, WRONG_VERSION};
use corank_image::{NotFound, find, size};

use crate::entry::auxiliary;
use crate::page::PAGE_SIZE;
use crate::println;

/// Returns the image, if the kernel has mapped one.
#[must_use]
pub fn image() -> Option<&'static [u8]> {
    let start: *const u8 = ptr::with_exposed_provenance(auxiliary(SYSINFO_EHDR)?);
    // SAFETY: the kernel has mapped an image there, for ever: at least one page, and as many bytes
    // as its header says. It has no variables.
    unsafe {
        let size = size(slice::from_raw_parts(start, PAGE_SIZE)).ok()?;
        Some(slice::from_raw_parts(start, size))
    }
}

/// Finds the image's scheduler and takes it into use.
///
/// Ends the process with [`WRONG_VERSION`] if this system has none for it.
///
/// # Safety
/// Called once, before anything of [`corank`] is used.
pub(crate) unsafe fn init() {
    let found = image().ok_or(NotFound::NoImage);
    match found.and_then(|image| Ok(&raw const image[find(image, SYMBOL, VERSION)?])) {
        // SAFETY: the symbol in its version is such a table, and the image stays; the caller's
        // promise.
        Ok(table) => match unsafe { attach(table.cast()) } {
            Ok(()) => {}
            Err(Mismatch) => give_up(Mismatch),
        },
        Err(error) => give_up(error),
    }
}

#[cold]
fn give_up(error: impl fmt::Display) -> ! {
    println!(
        "this program needs {SYMBOL} of version {VERSION} from the scheduler's image, but {error}: build the program for this system, or boot the system with an image of that version"
    );
    crate::process::exit(WRONG_VERSION)
}
