//! What the fuzzers of `fuzz_targets` do with an input.
//!
//! - [`scheduler`]: operations on the core, compared with the model of the contract;
//! - [`recording`]: the reader of recordings, the summary, the check and the cut;
//! - [`volume`]: the kernel's access to a disk, and the FAT driver above it;
//! - [`program`]: the kernel's ELF loader;
//! - [`requests`]: what the HTTP server reads.
//!
//! The kernel's own files are built here for the host. `device`, `fault`, `memory` and `pace` stand
//! in for the modules of the kernel that these files use.

extern crate alloc;

mod allocator;
pub mod program;
pub mod recording;
pub mod requests;
pub mod scheduler;
pub mod volume;

mod device;
mod fault;
mod memory;
mod pace;
