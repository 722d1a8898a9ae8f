//! Faults on purpose, for tests.
//!
//! Memory runs out, frames are damaged or lost, or a process ends in the middle of the kernel's
//! work for it. Each fault comes at a step that is counted rather than at a time.
//!
//! Any process may ask for them, and some strike other processes. So only a kernel that is built
//! for tests, with the feature `faults`, has them. Without the feature the call does not exist, and
//! each test for a due fault is a constant.
#[cfg(not(feature = "faults"))]
mod absent;
#[cfg(feature = "faults")]
mod injection;

#[cfg(not(feature = "faults"))]
pub(crate) use absent::*;
#[cfg(feature = "faults")]
pub(crate) use injection::*;
