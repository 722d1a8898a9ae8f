//! The kernel's memory, as the files that are built here use it.

use std::fmt;

pub(crate) const PAGE_SIZE: usize = 4096;

/// There is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not enough memory")
    }
}

pub(crate) fn page_down(address: usize) -> usize {
    address & !(PAGE_SIZE - 1)
}

pub(crate) fn page_up(address: usize) -> usize {
    page_down(address + PAGE_SIZE - 1)
}

/// The frames that are free.
pub(crate) mod frame {
    use std::cell::Cell;

    thread_local! {
        static FREE: Cell<usize> = const { Cell::new(0) };
    }

    pub(crate) fn free() -> usize {
        FREE.get()
    }

    pub(crate) fn set_free(frames: usize) {
        FREE.set(frames);
    }
}

pub(crate) mod page_table {
    bitflags::bitflags! {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct Flags: usize {
            const READ = 1 << 1;
            const WRITE = 1 << 2;
            const EXECUTE = 1 << 3;
            const USER = 1 << 4;
        }
    }
}

/// The address space of a program.
pub(crate) mod address_space {
    use super::page_table::Flags;
    use super::{OutOfMemory, PAGE_SIZE, frame};
    use std::cell::UnsafeCell;
    use std::collections::BTreeMap;
    use std::ops::Range;

    pub(crate) const PROGRAM: Range<usize> = PAGE_SIZE..0x10_0000_0000;

    type Frame = Box<UnsafeCell<[u8; PAGE_SIZE]>>;

    #[derive(Default)]
    pub(crate) struct AddressSpace {
        pages: BTreeMap<usize, (Flags, Frame)>,
        pub(crate) heap: usize,
    }

    impl AddressSpace {
        pub(crate) fn is_mapped(&self, page: usize) -> bool {
            self.pages.contains_key(&page)
        }

        pub(crate) fn map_zeroed(
            &mut self,
            page: usize,
            flags: Flags,
        ) -> Result<usize, OutOfMemory> {
            assert!(page.is_multiple_of(PAGE_SIZE) && PROGRAM.contains(&page));
            let left = frame::free().checked_sub(1).ok_or(OutOfMemory)?;
            frame::set_free(left);
            let new = Frame::new(UnsafeCell::new([0; PAGE_SIZE]));
            let address = new.get().expose_provenance();
            let before = self.pages.insert(page, (flags, new));
            assert!(before.is_none(), "a page is mapped twice");
            Ok(address)
        }

        pub(crate) fn map_read_only(
            &mut self,
            page: usize,
            flags: Flags,
        ) -> Result<usize, OutOfMemory> {
            assert!(!flags.contains(Flags::WRITE));
            self.map_zeroed(page, flags)
        }

        pub(crate) fn set_heap(&mut self, start: usize) {
            self.heap = start;
        }

        /// Returns the byte at an address, and how it is mapped.
        pub(crate) fn byte(&self, address: usize) -> Option<(u8, Flags)> {
            let (flags, frame) = self.pages.get(&super::page_down(address))?;
            // SAFETY: nothing else refers to the frame once the program is loaded.
            let bytes = unsafe { &*frame.get() };
            Some((bytes[address % PAGE_SIZE], *flags))
        }
    }
}

pub(crate) mod bulk {
    pub(crate) fn copy_all(source: &[u8], target: &mut [u8]) {
        target.copy_from_slice(source);
    }

    pub(crate) fn append(bytes: &mut Vec<u8>, data: &[u8]) {
        bytes.extend_from_slice(data);
    }

    pub(crate) fn append_zeros(bytes: &mut Vec<u8>, count: usize) {
        bytes.resize(bytes.len() + count, 0);
    }
}
