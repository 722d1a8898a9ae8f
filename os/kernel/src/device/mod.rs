//! Devices: who interrupts, the disk, the clock on the wall.
pub(crate) mod calendar;
pub(crate) mod disk;
pub(crate) mod plic;

pub(crate) use plic::serve as interrupt;
