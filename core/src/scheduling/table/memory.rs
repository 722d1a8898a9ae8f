//! Where a heap's memory comes from: the global allocator or, in the shared image, functions of the
//! client's.

use core::alloc::Layout;

use crate::scheduling::config::SpawnError;

/// The source of a heap's memory: the global allocator.
#[cfg(not(feature = "image"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory;

#[cfg(not(feature = "image"))]
impl Memory {
    /// The global allocator.
    #[cfg(feature = "alloc")]
    pub(crate) const GLOBAL: Self = Self;

    #[inline]
    fn get(self, layout: Layout) -> *mut u8 {
        // SAFETY: `allocate` asks for no empty layout.
        unsafe { alloc::alloc::alloc(layout) }
    }

    /// Gives memory back.
    ///
    /// # Safety
    /// As for [`free`](Self::free), of a layout that is not empty.
    #[inline]
    unsafe fn give(self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { alloc::alloc::dealloc(memory, layout) }
    }
}

/// The source of a heap's memory: functions of the client's.
///
/// They are those of an allocator: null means that there is no memory.
#[cfg(feature = "image")]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// The function that allocates: takes the size, which is not zero, and the alignment.
    pub(crate) allocate: unsafe extern "C" fn(usize, usize) -> *mut u8,
    /// The function that frees: takes what was allocated, with its size and alignment.
    pub(crate) free: unsafe extern "C" fn(*mut u8, usize, usize),
}

#[cfg(feature = "image")]
impl Memory {
    fn get(self, layout: Layout) -> *mut u8 {
        // SAFETY: an allocator's function, and `allocate` asks for no empty layout.
        unsafe { (self.allocate)(layout.size(), layout.align()) }
    }

    /// Gives memory back.
    ///
    /// # Safety
    /// As for [`free`](Self::free), of a layout that is not empty.
    unsafe fn give(self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { (self.free)(memory, layout.size(), layout.align()) }
    }
}

impl Memory {
    #[inline]
    pub(crate) fn allocate(self, layout: Layout) -> Result<*mut u8, SpawnError> {
        if layout.size() == 0 {
            return Ok(core::ptr::without_provenance_mut(layout.align()));
        }
        let memory = self.get(layout);
        if memory.is_null() {
            return Err(SpawnError::OutOfMemory);
        }
        Ok(memory)
    }

    /// Frees what was allocated.
    ///
    /// # Safety
    /// `memory` came from [`allocate`](Self::allocate) with this layout and is not used again.
    #[inline]
    pub(crate) unsafe fn free(self, memory: *mut u8, layout: Layout) {
        if layout.size() != 0 {
            // SAFETY: the caller's promise.
            unsafe { self.give(memory, layout) }
        }
    }
}
