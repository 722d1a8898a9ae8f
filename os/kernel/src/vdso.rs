//! The shared scheduler's image: loaded once at boot, then mapped into the kernel and into every
//! process (COPS, section 3.4).
//!
//! All address spaces have the image at the same address. So it is relocated once, its pages are
//! the same frames for all, and no page is ever both writable and executable. Only what stays
//! writable after relocation, if there is any, is private: each address space begins with a copy of
//! it.
use crate::memory::address_space::AddressSpace;
use crate::memory::frame::Frame;
use crate::memory::page_table::{Flags, PageTable};
use crate::memory::{OutOfMemory, PAGE_SIZE};
use crate::{power, println, programs};
use alloc::vec;
use alloc::vec::Vec;
use corank::image::{Engine, Mismatch};
use corank_abi::vdso::{BASE, FILE, SYMBOL, VERSION, WRONG_VERSION};
use corank_image::{Defect, Image, NotFound, Rights, find};
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};
use spin::Once;

static PAGES: Once<Vec<Page>> = Once::new();

/// Where the image's table of functions lies.
static TABLE: AtomicUsize = AtomicUsize::new(0);

/// A page of the image, from [`BASE`] on.
#[derive(Debug)]
struct Page {
    /// Its contents. For a private page, what each copy begins as.
    frame: Frame,
    rights: Flags,
}

impl Page {
    fn is_private(&self) -> bool {
        self.rights.contains(Flags::WRITE)
    }
}

/// Why the machine cannot run with the image that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unusable {
    Missing,
    OutOfMemory,
    Defect(Defect),
    NotFound(NotFound),
    Mismatch(Mismatch),
}

impl From<OutOfMemory> for Unusable {
    fn from(_: OutOfMemory) -> Unusable {
        Unusable::OutOfMemory
    }
}

impl From<Defect> for Unusable {
    fn from(defect: Defect) -> Unusable {
        Unusable::Defect(defect)
    }
}

impl From<NotFound> for Unusable {
    fn from(why: NotFound) -> Unusable {
        Unusable::NotFound(why)
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("it is not in the archive"),
            Self::OutOfMemory => f.write_str("not enough memory"),
            Self::Defect(defect) => defect.fmt(f),
            Self::Mismatch(mismatch) => mismatch.fmt(f),
            Self::NotFound(why) => write!(f, "{why}; this kernel needs {SYMBOL} of {VERSION}"),
        }
    }
}

/// Loads the image from the archive and maps it into the kernel's page table, which is not in use
/// yet.
///
/// Switches the machine off if there is no image that the kernel can use.
pub(crate) fn init(kernel: &mut PageTable) {
    match load().and_then(|pages| map_into_kernel(&pages, kernel).map(|()| pages)) {
        Ok(pages) => PAGES.call_once(|| pages),
        Err(error) => give_up(error),
    };
}

fn give_up(error: Unusable) -> ! {
    println!(
        "corank: the scheduler's image {FILE} cannot be used: {error}. Put an image that was built for this kernel into the archive."
    );
    power::off(WRONG_VERSION)
}

/// Takes the image's scheduler into use.
///
/// Switches the machine off if it is not one for this kernel.
///
/// # Safety
/// Once, in the kernel's address space, before anything of the scheduler is used.
pub(crate) unsafe fn attach() {
    let table: *const Engine = core::ptr::with_exposed_provenance(TABLE.load(Ordering::Relaxed));
    // SAFETY: the symbol in its version is such a table, and the image stays; the caller's promise.
    if let Err(mismatch) = unsafe { corank::image::attach(table) } {
        give_up(Unusable::Mismatch(mismatch));
    }
}

fn load() -> Result<Vec<Page>, Unusable> {
    let image = Image::check(programs::find(FILE).ok_or(Unusable::Missing)?)?;
    let mut contents = vec![0; image.size()];
    image.load(&mut contents, BASE);
    let table = find(&contents, SYMBOL, VERSION)?;
    TABLE.store(BASE + table, Ordering::Relaxed);
    let mut pages = Vec::with_capacity(image.size() / PAGE_SIZE);
    for (bytes, rights) in contents.chunks_exact(PAGE_SIZE).zip(image.pages()) {
        let mut frame = Frame::uninitialised()?;
        frame.bytes_mut().copy_from_slice(bytes);
        let rights = Flags::READ
            | match rights {
                Rights::Read => Flags::empty(),
                Rights::Execute => Flags::EXECUTE,
                Rights::Write => Flags::WRITE,
            };
        pages.push(Page { frame, rights });
    }
    // What was written is executed: make this hart's instruction fetch see it. The others begin
    // after this.
    riscv::asm::fence_i();
    Ok(pages)
}

/// Maps the image into the kernel's page table.
///
/// The pages are not global: in a process, pages with other rights lie at these addresses.
fn map_into_kernel(pages: &[Page], kernel: &mut PageTable) -> Result<(), Unusable> {
    for (address, page) in at_their_addresses(pages) {
        let frame = if page.is_private() {
            let mut copy = Frame::uninitialised()?;
            copy.bytes_mut().copy_from_slice(page.frame.bytes());
            copy.into_address()
        } else {
            page.frame.address()
        };
        kernel.map(address, frame, page.rights)?;
    }
    Ok(())
}

fn at_their_addresses(pages: &[Page]) -> impl Iterator<Item = (usize, &Page)> {
    (BASE..).step_by(PAGE_SIZE).zip(pages)
}

fn loaded() -> impl Iterator<Item = (usize, &'static Page)> {
    let pages = PAGES.get().expect("the image is loaded at boot");
    at_their_addresses(pages)
}

/// Maps the shared pages into a process's address space.
///
/// The frames stay the kernel's, for ever.
///
/// # Errors
/// When no frame is left for a table.
pub(crate) fn map_shared(space: &mut AddressSpace) -> Result<(), OutOfMemory> {
    for (address, page) in loaded().filter(|(_, page)| !page.is_private()) {
        space.map_borrowed(address, page.frame.address(), page.rights | Flags::USER)?;
    }
    Ok(())
}

/// Gives a new address space its private pages.
///
/// A copy of an address space has copied them with its other memory.
///
/// # Errors
/// When no frame is left.
pub(crate) fn map_private(space: &mut AddressSpace) -> Result<(), OutOfMemory> {
    for (address, page) in loaded().filter(|(_, page)| page.is_private()) {
        let frame = space.map_zeroed(address, page.rights | Flags::USER)?;
        // SAFETY: the frame is fresh and belongs to the address space.
        unsafe { *(frame as *mut [u8; PAGE_SIZE]) = *page.frame.bytes() };
    }
    Ok(())
}
