#![doc = include_str!("../README.md")]
#![cfg_attr(
    loom,
    allow(dead_code, unused_imports, reason = "the protocol alone is built")
)]

mod admission_queue;
#[cfg(not(loom))]
mod agent;
mod alone_flag;
mod atomic;
mod claim;
#[cfg(not(loom))]
mod clock;
#[cfg(not(loom))]
mod domain;
mod doorbell;
#[cfg(not(loom))]
mod figures;
#[cfg(not(loom))]
mod handshake;
#[cfg(all(test, not(loom)))]
mod hostile_tests;
#[cfg(not(loom))]
mod linux;
#[cfg(all(test, loom))]
mod loom_tests;
mod membership;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod mode;
#[cfg(not(loom))]
mod page;
#[cfg(not(loom))]
mod peer;
#[cfg(not(loom))]
mod rendezvous;
#[cfg(all(test, not(loom)))]
mod scarcity_tests;
#[cfg(not(loom))]
mod scheduling_class;
#[cfg(not(loom))]
mod shared;
#[cfg(all(test, not(loom)))]
mod stranger_tests;
#[cfg(not(loom))]
mod throttle;
#[cfg(not(loom))]
mod watch;
#[cfg(not(loom))]
mod worker;

#[cfg(not(loom))]
pub use corank_figures::{Coroutines, Figures, Histogram, LevelState};
#[cfg(not(loom))]
pub use domain::{Domain, JoinError, Participant, TooMany};
#[cfg(not(loom))]
pub use figures::RuntimeState;
#[cfg(not(loom))]
pub use mode::Mode;
#[cfg(not(loom))]
pub use scheduling_class::ClassPolicy;
#[cfg(not(loom))]
pub use watch::{Activity, Process, Watcher, WorkerState};
#[cfg(not(loom))]
pub use worker::{Back, Worker};
