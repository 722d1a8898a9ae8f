//! Memory: physical frames, page tables, address spaces, the kernel's heap, and the accounts of
//! what it holds for programs.
//!
//! The kernel has an address space of its own, in which all physical memory is mapped at its own
//! address. So a frame's physical address is also the pointer by which the kernel reaches it.
pub(crate) mod account;
pub(crate) mod address_space;
pub(crate) mod bulk;
pub(crate) mod frame;
pub(crate) mod heap;
pub(crate) mod kernel_space;
pub(crate) mod list;
pub(crate) mod page_table;
pub(crate) mod segments;
pub(crate) mod slots;
pub(crate) mod stack;
pub(crate) mod user;

pub(crate) use corank_abi::page::PAGE_SIZE;
pub(crate) use corank_account::OutOfMemory;

/// Rounds `address` down to the start of its page.
pub(crate) const fn page_down(address: usize) -> usize {
    address & !(PAGE_SIZE - 1)
}

/// Rounds `address` up to the start of a page.
pub(crate) const fn page_up(address: usize) -> usize {
    page_down(address + PAGE_SIZE - 1)
}
