//! Corank's core with deliberate breaks, one of which is chosen while the program runs.
//!
//! `build.rs` copies the sources of the core and puts the breaks of `breaks.rs` into the copy. So
//! the core itself has no code for its breaks, and what is broken is all of the core's real code
//! but one place. `tests/found.rs` records what the broken scheduler does.

#![no_std]
#![allow(
    warnings,
    clippy::all,
    reason = "it is a copy of the core, which is checked where it is"
)]

mod breaks;
pub mod broken;

pub use breaks::{BREAKS, Break};

include!(concat!(env!("OUT_DIR"), "/core/lib.rs"));
