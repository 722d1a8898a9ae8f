//! **Corank on Linux**: an async runtime whose coroutines have priorities.
//!
//! Coroutines are ordinary futures. Each has one of 64 levels; 0 is the most urgent. A free worker
//! runs the most urgent ready coroutine, first in, first out within a level. Any crate whose
//! futures do not need another runtime works here.
//!
//! ```no_run
//! use corank_linux::{Priority, net::TcpListener, spawn};
//! use futures::{AsyncReadExt, AsyncWriteExt};
//!
//! #[corank_linux::main]
//! async fn main() -> std::io::Result<()> {
//!     let listener = TcpListener::bind("127.0.0.1:8080").await?;
//!     loop {
//!         let (mut stream, peer) = match listener.accept().await {
//!             Ok(accepted) => accepted,
//!             // Often no descriptors are left: the next call waits a moment, and others end.
//!             Err(error) => {
//!                 eprintln!("accept: {error}");
//!                 continue;
//!             }
//!         };
//!         // Connections from this machine are served first.
//!         let local = peer.ip().is_loopback();
//!         let priority = if local { Priority::URGENT } else { Priority::DEFAULT };
//!         let serve = async move {
//!             let mut buffer = [0; 1024];
//!             while let Ok(count @ 1..) = stream.read(&mut buffer).await {
//!                 if stream.write_all(&buffer[..count]).await.is_err() {
//!                     break;
//!                 }
//!             }
//!         };
//!         spawn(priority, serve)?;
//!     }
//! }
//! ```
//!
//! # What is promised
//! - **Order.** All workers share one set of ready queues, unless [`Order::Bounded`] gives each
//!   worker its own. A free worker never picks a coroutine
//!   while a more urgent one is ready. So while a coroutine is ready, no worker begins a poll of a
//!   less urgent one; at worst it finishes the poll that it is in.
//! - **I/O.** A busy worker checks for events after at most [`POLLS_PER_CHECK`] polls, and after
//!   each poll that takes [`TIME_PER_CHECK`] or more. Busy workers share these checks. An event
//!   wakes an idle worker at once, unless a busy worker with short polls checks for events. If one
//!   poll keeps that busy worker, an idle one takes over within two ticks of the watchdog
//!   ([`WATCHDOG_TICK`]). A worker that has stepped aside for another process of its domain checks
//!   each millisecond.
//! - **Operations that never wait.** A coroutine whose I/O, channels, locks, sleeps or joins are
//!   always ready lets others run after [`OPERATIONS_IN_A_ROW`] of them, before the next one if
//!   something more urgent is ready, and after [`TIME_IN_A_ROW`]. So it delays level 0 by that time
//!   and one stretch of its own work between two operations.
//! - **Polls that do not end.** If no worker's poll ends within [`SPARE_WORKER_AFTER`], a spare
//!   worker polls what is strictly more urgent ([`Builder::spare_workers`]). The first such poll
//!   after a while without any may take two ticks of the watchdog more.
//! - **Bulk work.** [`Builder::bulk`] gives less urgent work threads of their own, in a class that
//!   Linux puts behind the others.
//! - **Blocked workers.** [`Builder::on_blocked`] reports each worker that one poll keeps for long,
//!   with the coroutine, the time and the level that waits.
//! - **Failure.** A panic ends its coroutine, and its handle returns the panic. Exhausted memory
//!   and a full table are errors of `spawn`. Exhausted descriptors are errors of the call that
//!   needs one. Exhausted memory is an error of a call that registers a descriptor, waits as a
//!   second coroutine for one, makes a [blocking call](spawn_blocking), or operates on a file.
//!   Existing coroutines continue without memory: polls, wakes, timers, I/O, locks, joins. Memory
//!   that the standard library allocates is the exception, as everywhere in Rust. Without it the
//!   process ends when a runtime starts, a name is resolved, or child processes and signals are
//!   used.
//!
//! # Features
//! - `macros` (default): [`main`] and [`test`].
//! - `hyper`: hyper's runtime traits.
//! - `tokio`: tokio's I/O, timers and tasks, for crates that need them (see [`Builder::tokio`]).
//! - `tower`: a layer that runs each request on a level of its own, and sheds load by level.
//! - `tracing`: spans of coroutines, and an event for each blocked worker.
//! - `domain`: priorities that processes share (see [`Builder::domain`]).
//! - `figures`: `corank top` shows the coroutines of a runtime in a domain.
//! - `metrics`: figures of coroutines by level (see `Builder::metrics`), and their export through
//!   the crate `metrics`.
//! - `recording`: a recording of what the scheduler does, for `corank trace` (see
//!   `Builder::record`).
//! - `hooks`: an observer of each transition of a coroutine (see `Builder::observer`).
//!
//! # Where to find what
//! - [`main`], [`Runtime`], [`Builder`]; [`spawn`], [`JoinHandle`], [`Handle`]; [`at`] to run a
//!   part of a coroutine on another level; [`spawn_blocking`] for calls that block.
//! - [`Runtime::metrics`]: the figures of a running service.
//! - [`time`]: sleeping and time limits. [`sync`]: locks with priority inheritance, semaphores,
//!   events, channels.
//! - [`process`]: child processes. [`signal`]: Ctrl-C and other signals.
//! - [`fs`]: files and directories.
//! - [`net`], [`pipe`], and [`Async`] for any other descriptor. Streams implement the traits of
//!   `futures`.
//!
//! Needs Linux 5.11 or later, and no privileges.

#![cfg(not(loom))]

mod async_fd;
mod at;
mod block_on;
mod blocked;
mod blocking;
mod budget;
mod builder;
mod bulk;
mod class;
mod executor;
mod external_scheduler;
mod fork;
pub mod fs;
mod handle;
#[cfg(feature = "hyper")]
pub mod hyper;
mod idle;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod net;
#[cfg(any(feature = "figures", feature = "metrics", feature = "recording"))]
mod observers;
pub mod pipe;
pub mod process;
mod reactor;
mod readiness;
mod reclaim;
#[cfg(feature = "recording")]
mod recording;
mod runtime;
mod shared;
pub mod signal;
mod snapshot;
mod sources;
#[cfg(feature = "tracing")]
mod span;
mod spare;
mod spare_pool;
mod stream;
pub mod time;
#[cfg(feature = "tokio")]
mod tokio;
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(feature = "tracing")]
pub mod trace;
mod watchdog;
mod worker;

/// Locks, semaphores, events and channels that coroutines of one runtime share, on any of its
/// workers.
///
/// `new_in` creates them for [`Here`](sync::Shared::here), the runtime of the current coroutine.
/// They wake the most urgent waiter first, and waiters for the mutex donate their priority to its
/// holder. Channels and locks of other crates work too.
pub mod sync {
    pub use corank::workers::{Channel, Event, Keys, Mutex, MutexGuard, Permit, Semaphore, Shared};
}

pub use async_fd::Async;
pub use at::{At, at};
pub use blocked::Blocked;
pub use blocking::{Blocking, limit_blocking_threads, spawn_blocking};
pub use budget::{OPERATIONS_IN_A_ROW, TIME_IN_A_ROW};
pub use builder::{Builder, Order};
pub use class::Class;
pub use corank::{
    CoroutineId, Demotion, JoinError, LEVELS, Payload, Policy, Priority, Remote, SpawnError,
    YieldNow, current, poll_proceed, yield_now,
};
#[cfg(feature = "hooks")]
pub use corank::{Exit, Observer};
#[cfg(feature = "domain")]
pub use corank_domain as domain;
pub use corank_figures::{Coroutines, Histogram, LevelState};
#[cfg(feature = "macros")]
pub use corank_linux_macros::{main, test};
pub use handle::{Entered, Handle, JoinHandle, cancel, reprioritize, spawn};
pub use runtime::{Runtime, Unfinished};
pub use shared::WorkerRole;
pub use snapshot::{Metrics, SpareMetrics, WorkerMetrics};
pub use spare_pool::SPARE_WORKER_AFTER;
pub use watchdog::WATCHDOG_TICK;
pub use worker::{POLLS_PER_CHECK, TIME_PER_CHECK, TIME_PER_WATCHED_CHECK};

/// Compiles and runs the programs of the README.
#[cfg(all(doctest, feature = "macros", feature = "hyper", feature = "tower"))]
#[doc = include_str!("../README.md")]
struct Readme;
