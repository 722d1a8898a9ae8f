//! The threads or harts that run a scheduler: what each keeps, and the lock among them.

#[cfg(all(feature = "std", target_has_atomic = "64"))]
pub(crate) mod board;
pub(crate) mod budget;
pub(crate) mod context;
pub(crate) mod scheduler_lock;
pub(crate) mod wake_policy;
pub(crate) mod worker_context;
