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
//! - The same for many threads, with a bounded order among them: [`ShardedExecutor`].
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

mod atomic;
mod callback;
mod executor;
pub mod key;
mod ownership;
#[cfg(feature = "std")]
mod park;
mod priority;
mod priority_listener;
mod scheduling;
pub mod sync;
pub mod time;
#[cfg(feature = "alloc")]
pub mod workers;

pub use executor::Executor;
#[cfg(feature = "std")]
pub use executor::current::coroutine_run;
#[cfg(feature = "alloc")]
pub use executor::current::{ExecutorId, current_executor};
pub use executor::current::{
    YieldNow, cancel, current, reprioritize, spawn, spawn_with, wake, woke_itself, yield_now,
};
#[cfg(feature = "std")]
pub use executor::join::Payload;
pub use executor::join::{JoinError, JoinHandle};
#[cfg(feature = "std")]
pub use executor::poll_context::PollContext;
#[cfg(feature = "std")]
pub use executor::polling::{Polling, WorkerId};
pub use executor::preempt::Preempted;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
pub use executor::shard_worker::ShardWorker;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
pub use executor::sharded::ShardedExecutor;
#[cfg(feature = "alloc")]
pub use executor::shared::{SharedExecutor, SharedHandle, Worker};
#[cfg(feature = "std")]
pub use executor::spare::SpareWorker;
#[cfg(feature = "alloc")]
pub use ownership::Shared;
pub use ownership::{Local, Ownership};
pub use priority::policy::{Demotion, Policy};
pub use priority::published::Published;
pub use priority::{LEVELS, Levels, Priority, PriorityOutOfRange};
pub use priority_listener::{Changed, PriorityListener};
pub use scheduling::config::{Config, Interrupted, Relaxed, SpawnError, Step, SystemView};
#[cfg(feature = "image")]
pub use scheduling::image;
#[cfg(feature = "hooks")]
pub use scheduling::instrumentation::hooks::{Exit, Observer};
#[cfg(feature = "stats")]
pub use scheduling::instrumentation::stats::Stats;
pub use scheduling::table::block::State;
pub use scheduling::table::id::CoroutineId;
#[cfg(not(feature = "image-client"))]
pub use scheduling::table::storage::{Pool, PoolInUse};
#[cfg(target_has_atomic = "64")]
pub use scheduling::time::deadlines::{Deadlines, Due};
pub use scheduling::wake::waker::Remote;
pub use scheduling::workers::budget::poll_proceed;
#[cfg(not(feature = "image"))]
pub use scheduling::workers::context::ContextSlot;
