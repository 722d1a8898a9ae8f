//! Devices: the interrupt controller, the disk, the network card, the clock on the wall.
pub(crate) mod calendar;
pub(crate) mod disk;
pub(crate) mod net;
pub(crate) mod plic;
mod virtio;

pub(crate) use plic::serve as interrupt;
