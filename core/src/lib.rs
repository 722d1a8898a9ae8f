//! **Corank**: a coroutine scheduler with priorities that the whole system can see.
//!
//! One small core that runs wherever tasks wait: in a kernel, in its processes, in a Linux program,
//! on a microcontroller. Coroutines are ordinary futures with one of 64 priorities. The most urgent
//! one that is ready runs next. Which levels are ready is one word that others may read, so that
//! urgency can be compared across executors, processes and the kernel.
//!
//! The rules of scheduling are numbered in `spec/contract.md`; comments here cite them (rule O1,
//! …).
//!
//! - Inside a coroutine: [`spawn`], [`current`], [`yield_now`], [`wake`], [`reprioritize`],
//!   [`cancel`].
//! - A program: [`coroutine_run`]. A port of its own: [`Executor`], [`Config`], [`SystemView`].
//! - What coroutines share: [`sync`]. Sleeping and time limits: [`time`]. Wake by key: [`key`].
//! - One scheduler for several threads or harts: [`SharedExecutor`] and its [`Worker`]s; what its
//!   coroutines share, and their timers: [`workers`].
//! - From other threads and interrupt handlers: any [`Waker`](core::task::Waker), and [`Remote`].
//!
//! # Features
//! - `std` (default): panics stay inside their coroutine; each thread has a slot for the
//!   executor that runs on it.
//! - `alloc`: tables that grow. Without it, coroutines live in a [`Pool`].
//! - `stats`: how often and how long coroutines ran and waited: `Executor::stats`,
//!   `Executor::level_stats`.
//! - `hooks`: an `Observer` is called at every transition.

#![no_std]
#![cfg_attr(
    not(feature = "std"),
    allow(
        rustdoc::broken_intra_doc_links,
        reason = "the documentation describes what is there with `std`"
    )
)]
#![cfg_attr(
    feature = "image",
    allow(
        dead_code,
        unused_imports,
        reason = "the other half of what both sides touch is on the other side of the image's boundary"
    )
)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod access;
mod atomic;
mod block;
mod call;
mod context;
#[cfg(target_has_atomic = "64")]
mod deadlines;
mod scheduler_lock;
/// Publishes nothing on targets without 64-bit atomics.
#[cfg(not(target_has_atomic = "64"))]
mod deadlines {
    use crate::block::BlockRef;
    use crate::executor::Config;
    use crate::priority::Priority;

    pub(crate) struct Bounds;

    impl Bounds {
        pub(crate) fn new(_: &Config) -> Self {
            Self
        }
        pub(crate) fn started(&self, _: Option<BlockRef>, _: Priority, _: u64) {}
        pub(crate) fn handed_over(&self, _: Option<BlockRef>, _: Priority, _: u64) {}
        pub(crate) fn sleeper_moves(&self, _: BlockRef, _: Priority) {}
        pub(crate) fn ended(&self) {}
        pub(crate) fn emptied(&self) {}
        pub(crate) fn are_stale(&self, _: u64) -> bool {
            false
        }
        pub(crate) fn raise(
            &self,
            _: u64,
            _: Priority,
            _: impl FnOnce(&mut dyn FnMut(Priority, u64)),
        ) {
        }
    }
}
mod executor;
mod here;
#[cfg(feature = "hooks")]
mod hooks;
mod id;
#[cfg(feature = "image")]
pub mod image;
mod join;
pub mod key;
mod link;
#[cfg(feature = "heap")]
mod memory;
mod notes;
mod ownership;
#[cfg(feature = "std")]
mod park;
mod policy;
#[cfg(feature = "std")]
mod polling;
mod preempt;
mod priority;
mod priority_listener;
mod published;
#[cfg(not(feature = "image-client"))]
mod scheduler;
mod stored_waker;
/// The scheduler that is behind an image.
#[cfg(feature = "image-client")]
mod scheduler {
    pub(crate) use crate::image::Scheduler;
}
#[cfg(feature = "alloc")]
mod shared;
mod signals;
#[cfg(feature = "stats")]
mod stats;
#[cfg(not(feature = "image-client"))]
mod storage;
mod worker_context;
/// The client's part of storage: its allocator.
#[cfg(feature = "image-client")]
mod storage {
    pub(crate) use crate::image::create as heap_scheduler;
    pub(crate) use crate::memory::Memory;
}
pub mod sync;
mod task;
pub mod time;
mod timers;
mod waiter;
mod waker;
#[cfg(feature = "alloc")]
pub mod workers;

pub use block::State;
#[cfg(not(feature = "image"))]
pub use context::ContextSlot;
#[cfg(target_has_atomic = "64")]
pub use deadlines::{Deadlines, Due};
pub use executor::{Config, Executor, Relaxed, SpawnError, Step, SystemView};
#[cfg(feature = "std")]
pub use here::coroutine_run;
pub use here::{YieldNow, cancel, current, reprioritize, spawn, spawn_with, wake, yield_now};
#[cfg(feature = "hooks")]
pub use hooks::{Exit, Observer};
pub use id::CoroutineId;
#[cfg(feature = "std")]
pub use join::Payload;
pub use join::{JoinError, JoinHandle};
#[cfg(feature = "alloc")]
pub use ownership::Shared;
pub use ownership::{Local, Ownership};
pub use policy::Policy;
#[cfg(feature = "std")]
pub use polling::{Polling, WorkerId};
pub use preempt::{Interrupted, Preempted};
pub use priority::{LEVELS, Levels, Priority, PriorityOutOfRange};
pub use priority_listener::{Changed, PriorityListener};
pub use published::Published;
#[cfg(feature = "alloc")]
pub use shared::{SharedExecutor, SharedHandle, Worker};
#[cfg(feature = "stats")]
pub use stats::Stats;
#[cfg(not(feature = "image-client"))]
pub use storage::{Pool, PoolInUse};
pub use waker::Remote;
