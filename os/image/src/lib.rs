//! The ELF image of the shared scheduler, for the code that builds it, loads it and uses it.
//!
//! - The build and the kernel [check](Image::check) a file by the same rules.
//! - The kernel [loads](Image::load) it.
//! - The kernel and the programs [look up](find) what they call, in the image as it is mapped.
#![no_std]
#![forbid(unsafe_code)]

mod file;
mod symbol;

pub use file::{Defect, Image, Rights};
pub use symbol::{NotFound, find, size};
