//! What the core does, one file for each part of it.
//!
//! All of them are one program. To link each by itself, for each set of features, took longer than
//! to run them. Separate programs are the tests with an allocator of their own (`exhaustion.rs`)
//! and those that loom explores.

extern crate alloc;

mod common;

mod budget;
mod cancel;
mod channel;
mod deadlines;
mod demotion;
mod drop;
mod ecosystem;
mod event;
mod hooks;
mod hostile;
mod join;
mod keys;
mod mutex;
mod order;
mod panic;
mod pool;
mod preempt;
mod priority_listener;
mod remote;
mod semaphore;
mod sharded;
mod sharded_oracle;
mod shared;
mod shared_oracle;
mod shared_priority_listener;
mod spare;
mod stats;
mod time;
mod traces;
mod waker;
mod workers;
