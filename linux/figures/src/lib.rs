#![doc = include_str!("../README.md")]

#[cfg(feature = "counter")]
mod counter;
mod figures;
mod histogram;
#[cfg(feature = "counter")]
mod running;
mod state;
#[cfg(feature = "counter")]
mod stays;

#[cfg(feature = "counter")]
pub use counter::Counter;
pub use figures::Figures;
pub use histogram::Histogram;
pub use state::{Coroutines, LevelState};
