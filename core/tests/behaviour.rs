//! What the core does, one file for each part of it. One program of all of them: to link each by
//! itself, for each set of features, took longer than to run them. Apart are those with an
//! allocator of their own (`exhaustion.rs`) and those that loom explores.

extern crate alloc;

mod common;

mod cancel;
mod channel;
mod deadlines;
mod drop;
mod ecosystem;
mod event;
mod follower;
mod hooks;
mod hostile;
mod join;
mod keys;
mod mutex;
mod order;
mod panic;
mod pool;
mod preempt;
mod remote;
mod semaphore;
mod shared;
mod shared_follower;
mod shared_oracle;
mod stats;
mod time;
mod traces;
mod waker;
mod workers;
