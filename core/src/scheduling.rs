//! The scheduler and all that it works on.
//!
//! Its parts refer to each other, because a control block, a waker and a waiter lead to the
//! scheduler that they belong to:
//! - [`table`]: control blocks, storage, and the calls of a future
//! - [`scheduler`]: ready queues, picks and polls, spawning and exits, the inbox
//! - [`wake`]: wakers and signals
//! - [`turn`]: how code becomes the scheduler's owner for a time
//! - [`join_waiter`]: where the wait of a join handle is
//! - [`waiter`]: waits, and the priorities that they donate
//! - [`time`]: timers and deadlines
//! - [`workers`]: what runs on a thread or hart, and the scheduler lock
//! - [`instrumentation`]: statistics and observers
//! - [`image`]: the boundary, where the scheduler is an image that several programs share

pub(crate) mod config;
#[cfg(feature = "image")]
pub mod image;
pub(crate) mod instrumentation;
pub(crate) mod join_waiter;
#[cfg(not(feature = "image-client"))]
pub(crate) mod scheduler;
pub(crate) mod table;
pub(crate) mod time;
pub(crate) mod turn;
pub(crate) mod waiter;
pub(crate) mod wake;
pub(crate) mod workers;

/// The scheduler that is behind an image.
#[cfg(feature = "image-client")]
pub(crate) mod scheduler {
    pub(crate) use super::image::Scheduler;
}
