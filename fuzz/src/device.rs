//! The kernel's devices: a disk in memory.

pub(crate) mod disk;
