//! Devices: who interrupts, the disk, the network card, the clock on the wall.
pub(crate) mod calendar;
pub(crate) mod disk;
mod dma;
pub(crate) mod net;
pub(crate) mod plic;

pub(crate) use plic::serve as interrupt;
