//! Pointers that come from user mode.
use super::OutOfMemory;
use super::account::{self, Account, Charge};
use super::address_space::AddressSpace;
use super::bulk;
use super::{PAGE_SIZE, page_down};
use crate::lock::Mutex;
use alloc::sync::Arc;
use corank_abi::call::FAILED;
use core::fmt;

/// What an access wanted to do with an address.
///
/// As large as a word, so that a result in which it tells the error is copied by words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Access {
    /// Load from it.
    Read,
    /// Store to it.
    Write,
    /// Execute it.
    Execute,
}

/// An address that does not allow what was wanted.
///
/// It ends the process, in a system call only if it does not lack memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadAddress {
    /// The first byte that is not there.
    pub address: usize,
    /// What was wanted.
    pub access: Access,
    /// It is the place of a page that a touch maps, and there is no memory for that page.
    ///
    /// A system call fails by that.
    pub lacks_memory: bool,
}

impl BadAddress {
    /// Returns the result of a system call that has met it.
    ///
    /// # Errors
    /// The address itself, if it ends the process.
    pub(crate) fn or_failed(self) -> Result<isize, BadAddress> {
        if self.lacks_memory {
            Ok(FAILED)
        } else {
            Err(self)
        }
    }
}

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = match self.access {
            Access::Read => "load from",
            Access::Write => "store to",
            Access::Execute => "execution of",
        };
        write!(f, "{access} {:#x}", self.address)?;
        if self.lacks_memory {
            f.write_str(", for which there is no memory")?;
        }
        Ok(())
    }
}

/// What a process has of the machine's memory: its address space, and the account for what the
/// kernel keeps for it.
#[derive(Debug)]
pub(crate) struct UserMemory {
    /// What the process and its descendants cost the kernel's heap.
    pub account: Arc<Account>,
    /// `None` before the process has begun and when it has ended.
    space: Mutex<Option<AddressSpace>>,
}

impl UserMemory {
    /// Makes the memory of a process that has no address space yet.
    pub(crate) const fn new(account: Arc<Account>) -> UserMemory {
        let space = Mutex::new(None);
        UserMemory { account, space }
    }

    /// Reserves so many bytes of the kernel's heap for something that the process asks for.
    ///
    /// # Errors
    /// When there is no memory for it, or the process has reached a limit.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Charge, OutOfMemory> {
        account::charge(&self.account, bytes)
    }

    /// Calls `use_it` with the address space, or returns `gone` if there is none.
    pub(crate) fn with_space<T>(&self, use_it: impl FnOnce(&mut AddressSpace) -> T, gone: T) -> T {
        self.space.lock().as_mut().map_or(gone, use_it)
    }

    /// Replaces the address space, and returns the one before.
    pub(crate) fn replace(&self, space: Option<AddressSpace>) -> Option<AddressSpace> {
        core::mem::replace(&mut *self.space.lock(), space)
    }
}

/// A range of a program's memory that is read or written from front to back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserBuffer {
    /// The next byte.
    pub address: usize,
    /// How many bytes are left.
    pub length: usize,
}

impl AddressSpace {
    /// Returns the bytes from `address` to the end of its page, at most `length`, as the kernel
    /// sees them.
    fn run(
        &mut self,
        address: usize,
        length: usize,
        access: Access,
    ) -> Result<(*mut u8, usize), BadAddress> {
        let frame = self.translate(address, access)?;
        let offset = address - page_down(address);
        Ok(((frame + offset) as *mut u8, length.min(PAGE_SIZE - offset)))
    }

    /// Copies `data` to the program's memory at `address`.
    ///
    /// # Errors
    /// [`BadAddress`] where the memory is not there or not writable; what lies in front of it has
    /// been written.
    pub(crate) fn write(&mut self, mut address: usize, mut data: &[u8]) -> Result<(), BadAddress> {
        while !data.is_empty() {
            let (target, length) = self.run(address, data.len(), Access::Write)?;
            let (now, rest) = data.split_at(length);
            // SAFETY: `run` checked that the program's page lies there; user memory is only touched
            // by copying.
            unsafe { bulk::copy(now.as_ptr(), target, length) };
            data = rest;
            address = address.wrapping_add(length);
        }
        Ok(())
    }

    /// Copies from the program's memory at `address` to `data`.
    ///
    /// # Errors
    /// [`BadAddress`] where the memory is not there.
    pub(crate) fn read(
        &mut self,
        mut address: usize,
        mut data: &mut [u8],
    ) -> Result<(), BadAddress> {
        while !data.is_empty() {
            let (source, length) = self.run(address, data.len(), Access::Read)?;
            let (now, rest) = data.split_at_mut(length);
            // SAFETY: as in `write`.
            unsafe { bulk::copy(source, now.as_mut_ptr(), length) };
            data = rest;
            address = address.wrapping_add(length);
        }
        Ok(())
    }

    /// Copies `length` bytes of the program's memory from one address to another.
    ///
    /// Where the two ranges overlap it is not said what is there afterwards.
    ///
    /// # Errors
    /// [`BadAddress`] where the memory is not there, or not writable at `to`; what lies in front of
    /// it has been copied.
    pub(crate) fn move_within(
        &mut self,
        mut from: usize,
        mut to: usize,
        mut length: usize,
    ) -> Result<(), BadAddress> {
        while length > 0 {
            let (source, here) = self.run(from, length, Access::Read)?;
            let (target, here) = self.run(to, here, Access::Write)?;
            if source.addr().abs_diff(target.addr()) < here {
                // SAFETY: `run` checked that the program's pages lie there; the ranges may overlap.
                unsafe { core::ptr::copy(source, target, here) };
            } else {
                // SAFETY: as above, and the ranges are apart.
                unsafe { bulk::copy(source, target, here) };
            }
            from = from.wrapping_add(here);
            to = to.wrapping_add(here);
            length -= here;
        }
        Ok(())
    }

    /// Reads one word.
    ///
    /// # Errors
    /// [`BadAddress`] where the memory is not there.
    pub(crate) fn read_word(&mut self, address: usize) -> Result<usize, BadAddress> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(usize::from_le_bytes(bytes))
    }

    /// Appends the bytes at `address` up to the first NUL to `text`, at most `limit` of them.
    ///
    /// Returns whether the NUL was found.
    ///
    /// # Errors
    /// [`BadAddress`] where the memory is not there.
    pub(crate) fn read_string(
        &mut self,
        mut address: usize,
        limit: usize,
        text: &mut alloc::vec::Vec<u8>,
    ) -> Result<bool, BadAddress> {
        let mut left = limit;
        while left > 0 {
            let (source, length) = self.run(address, left, Access::Read)?;
            for at in 0..length {
                // SAFETY: `run` checked that `length` bytes of the program's page lie there.
                match unsafe { source.add(at).read_volatile() } {
                    0 => return Ok(true),
                    byte => text.push(byte),
                }
            }
            left -= length;
            address = address.wrapping_add(length);
        }
        Ok(false)
    }
}

impl UserBuffer {
    /// Leaves `count` bytes behind.
    pub(crate) fn advance(&mut self, count: usize) {
        self.address = self.address.wrapping_add(count);
        self.length -= count;
    }
}
