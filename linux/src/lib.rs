//! **Corank on Linux**: an async runtime whose coroutines have priorities.
//!
//! Coroutines are ordinary futures. Each has one of 64 levels, 0 the most urgent; whenever a worker is free it runs the most
//! urgent coroutine that is ready, first in, first out within a level. Any crate whose futures don't ask for another runtime works here.
//!
//! ```no_run
//! use corank_linux::{Priority, net::TcpListener, spawn};
//! use futures::{AsyncReadExt, AsyncWriteExt};
//!
//! #[corank_linux::main]
//! async fn main() -> std::io::Result<()> {
//!     let listener = TcpListener::bind("127.0.0.1:8080").await?;
//!     loop {
//!         let (mut stream, peer) = listener.accept().await?;
//!         // Who comes from this machine is served first.
//!         let level = if peer.ip().is_loopback() { 8 } else { 32 };
//!         let priority = Priority::new(level).expect("below 64");
//!         let serve = async move {
//!             let mut buffer = [0; 1024];
//!             while let Ok(count @ 1..) = stream.read(&mut buffer).await {
//!                 if stream.write_all(&buffer[..count]).await.is_err() {
//!                     break;
//!                 }
//!             }
//!         };
//!         spawn(priority, serve).map_err(std::io::Error::other)?;
//!     }
//! }
//! ```
//!
//! # What is promised
//! - **Order.** There is one set of ready queues for all workers: a worker that is free never picks something while something more urgent is
//!   ready. So while a coroutine is ready, each worker begins no poll of a less urgent one; at worst it ends the one that it is in.
//! - **I/O.** A busy worker asks the kernel for events after at most [`POLLS_PER_CHECK`] polls, fewer if they are long: after each, if it
//!   takes [`TIME_PER_CHECK`] or more. Several share that. A worker that is idle is told at once, unless a busy one with short polls looks for
//!   it; should that one be held up in a poll, the idle one is told within two ticks of the watchdog ([`WATCHDOG_TICK`]). A worker that has stepped aside for
//!   another process of its domain looks each millisecond. A coroutine whose I/O is always ready lets others run after [`OPERATIONS_IN_A_ROW`].
//! - **Blocked workers.** A worker that is held up inside one poll is named, with the coroutine, the time and what waits, to whoever asks
//!   with [`Builder::on_blocked`].
//! - **Failure.** A panic ends its coroutine, whose handle says so. Exhausted memory and a full table are errors of `spawn`; exhausted descriptors
//!   are errors of whoever asked for one, and exhausted memory is one of whoever registers a descriptor, or waits for one for which others wait, or has a [blocking call](spawn_blocking) or
//!   an operation on a file to be done. Whatever is
//!   there already goes on without memory: polls, wakes, timers, I/O, locks, joins. Only what the standard library allocates for us ends the process instead, as it does
//!   everywhere in Rust: starting a runtime, names to be resolved, child processes, signals.
//!
//! # Features
//! - `macros` (default): [`main`] and [`test`].
//! - `hyper`: hyper's runtime traits.
//! - `tower`: a layer that runs each request on a level of its own.
//! - `tracing`: spans of coroutines, and an event for each worker that is held up.
//! - `domain`: priorities that processes share; see [`Builder::domain`].
//!
//! # Where to find what
//! - [`main`], [`Runtime`], [`Builder`]; [`spawn`], [`JoinHandle`], [`Handle`]; [`at`] for a stretch on another level;
//!   [`spawn_blocking`] for what blocks.
//! - [`time`]: sleeping and time limits. [`sync`]: locks that lend urgency, semaphores, events, channels.
//! - [`process`]: child processes. [`signal`]: Ctrl-C and its like.
//! - [`fs`]: files and directories.
//! - [`net`], [`pipe`], and [`Async`] for any other descriptor. Streams implement the traits of `futures`.
//!
//! Needs Linux 5.11 or later, and no privileges.

#![cfg(not(loom))]

mod async_fd;
mod at;
mod blocked;
mod blocking;
mod budget;
mod builder;
mod external_scheduler;
pub mod fs;
mod handle;
#[cfg(feature = "hyper")]
pub mod hyper;
mod idle;
pub mod net;
pub mod pipe;
pub mod process;
mod reactor;
mod readiness;
mod runtime;
mod shared;
pub mod signal;
mod sources;
#[cfg(feature = "tracing")]
mod span;
mod stream;
pub mod time;
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(feature = "tracing")]
pub mod trace;
mod watchdog;
mod worker;

/// What coroutines of a runtime share; any of their workers may poll who uses it. Made by `new_in` for [`Here`](sync::Shared::here), the
/// runtime of the coroutine that makes it. Channels and locks of other crates work as well; these hand over to the most urgent first, and
/// the mutex lends its holder the urgency of those who wait.
pub mod sync {
    pub use corank::workers::{Channel, Event, Keys, Mutex, MutexGuard, Permit, Semaphore, Shared};
}

pub use async_fd::Async;
pub use at::{At, at};
pub use blocked::Blocked;
pub use blocking::{Blocking, limit_blocking_threads, spawn_blocking};
pub use budget::OPERATIONS_IN_A_ROW;
pub use builder::Builder;
pub use corank::{
    CoroutineId, JoinError, LEVELS, Payload, Policy, Priority, Remote, SpawnError, YieldNow,
    cancel, current, reprioritize, yield_now,
};
#[cfg(feature = "domain")]
pub use corank_domain as domain;
#[cfg(feature = "macros")]
pub use corank_linux_macros::{main, test};
pub use handle::{Entered, Handle, JoinHandle, spawn};
pub use runtime::{Runtime, Unfinished};
pub use watchdog::WATCHDOG_TICK;
pub use worker::{POLLS_PER_CHECK, TIME_PER_CHECK, TIME_PER_WATCHED_CHECK};

/// The programs of the README, as tests.
#[cfg(all(doctest, feature = "macros"))]
#[doc = include_str!("../README.md")]
struct Readme;
