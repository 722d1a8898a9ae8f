//! Detects that a process is the child of a fork of the one that started a runtime.
//!
//! The child has copies of the runtime's memory and descriptors, but none of its threads. The
//! descriptors lead to the objects of the parent: a registration that the child ended would be the
//! parent's. So in the child a runtime refuses new work, and is dropped without a trace.
//!
//! The mark is a page that Linux empties in a child (`MADV_WIPEONFORK`). Reading it costs one load,
//! which a comparison of process identifiers does not: that is a system call. It also holds for a
//! child that was made without the C library, whose handlers (`pthread_atfork`) would miss that.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Linux maps whole pages, so this is enough for one byte.
const SIZE: usize = 1;
const PARENT: u8 = 1;

/// Marks memory as that of this process.
#[derive(Debug)]
pub(crate) struct ForkMark(NonNull<AtomicU8>);

// SAFETY: the page holds an atomic, and stays until the mark is dropped.
unsafe impl Send for ForkMark {}
// SAFETY: as above.
unsafe impl Sync for ForkMark {}

impl ForkMark {
    /// Marks this process.
    ///
    /// # Errors
    /// Fails without memory.
    pub(crate) fn new() -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let page = unsafe { mmap_anonymous(ptr::null_mut(), SIZE, access, MapFlags::PRIVATE) }?;
        let mark = Self(NonNull::new(page.cast()).expect("a mapping is not at address 0"));
        // SAFETY: the mapping is ours, and emptying it in a child is what it is for.
        unsafe { madvise(page, SIZE, Advice::LinuxWipeOnFork) }?;
        mark.byte().store(PARENT, Ordering::Relaxed);
        Ok(mark)
    }

    fn byte(&self) -> &AtomicU8 {
        // SAFETY: the page stays until the mark is dropped, and all its values are valid.
        unsafe { self.0.as_ref() }
    }

    /// Tests whether this process is a child of the one that was marked.
    #[inline]
    pub(crate) fn is_in_child(&self) -> bool {
        self.byte().load(Ordering::Relaxed) != PARENT
    }
}

impl Drop for ForkMark {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), SIZE) };
    }
}
