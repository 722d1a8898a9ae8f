//! The shared scheduler's image, as the kernel has mapped it (seed 002, section 4.1).
use core::ptr;
use core::slice;
use core::sync::atomic::{AtomicPtr, Ordering};

use corank_abi::auxiliary::SYSINFO_EHDR;
use corank_abi::vdso::{SYMBOL, VERSION, WRONG_VERSION};
use corank_image::{NotFound, find, size};

use crate::entry::auxiliary;
use crate::page::PAGE_SIZE;
use crate::println;

/// The table that the image exports, in the version that this library was built for.
static ENGINE: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// The image, if the kernel has mapped one.
#[must_use]
pub fn image() -> Option<&'static [u8]> {
    let start: *const u8 = ptr::with_exposed_provenance(auxiliary(SYSINFO_EHDR)?);
    // SAFETY: the kernel has mapped an image there, for ever: at least one page, and as many bytes as its header says. It has no
    // variables.
    unsafe {
        let size = size(slice::from_raw_parts(start, PAGE_SIZE)).ok()?;
        Some(slice::from_raw_parts(start, size))
    }
}

/// Finds the image's table of functions. Ends the process with [`WRONG_VERSION`] if this system has none for it.
pub(crate) fn attach() {
    let image = image().ok_or(NotFound::NoImage);
    match image.and_then(|image| Ok(&raw const image[find(image, SYMBOL, VERSION)?])) {
        Ok(table) => ENGINE.store(table.cast_mut().cast(), Ordering::Relaxed),
        Err(error) => {
            println!(
                "this program needs {SYMBOL} of version {VERSION} from the scheduler's image, but {error}: build the program for this system, or boot the system with an image of that version"
            );
            crate::process::exit(WRONG_VERSION)
        }
    }
}
