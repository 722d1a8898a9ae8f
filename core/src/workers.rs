//! What the coroutines of a [`SharedExecutor`](crate::SharedExecutor) share, and their timers.
//!
//! The same as in [`crate::sync`], [`crate::key`] and [`crate::time`], from the same source, and by
//! the same rules: most urgent first, handed over directly, a mutex whose holder inherits the
//! urgency of its waiters. But these are `Send` and `Sync`, so that any worker may poll the
//! coroutines that use them; other threads may use them too.
//!
//! A primitive is made for one executor, whose coroutines wait in it; an operation on it is one
//! step of that executor (rules H). So each costs two atomic operations, and waits while another
//! worker picks or changes the queues.
//!
//! ```
//! # #[cfg(all(feature = "std", not(loom)))] {
//! use std::sync::Arc;
//! use std::task::Waker;
//! use corank::{Priority, SharedExecutor, workers::Mutex, yield_now};
//!
//! let executor = SharedExecutor::new();
//! let sum = Arc::new(Mutex::new_in(&executor, 0));
//! for n in 1..=3 {
//!     let sum = sum.clone();
//!     drop(executor.spawn(Priority::DEFAULT, async move {
//!         let mut sum = sum.lock().await;
//!         yield_now().await; // the others wait
//!         *sum += n;
//!     })?);
//! }
//! std::thread::scope(|scope| {
//!     scope.spawn(|| executor.worker(Waker::noop().clone()).run_until_idle());
//!     executor.worker(Waker::noop().clone()).run_until_idle();
//! });
//! assert_eq!(*sum.try_lock().unwrap(), 6);
//! # }
//! # Ok::<(), corank::SpawnError>(())
//! ```
//!
//! Inside a coroutine, [`Shared::here`] stands for its executor.

use core::time::Duration;

pub use crate::ownership::Shared;
pub use crate::priority_listener::shared::{Changed, PriorityListener};
use crate::{key, sync, time};

/// [`sync::Mutex`] of a shared executor; made by [`new_in`](sync::Mutex::new_in).
pub type Mutex<T> = sync::Mutex<T, Shared>;
/// The lock of a [`Mutex`].
pub type MutexGuard<'a, T> = sync::MutexGuard<'a, T, Shared>;
/// [`sync::Semaphore`] of a shared executor; made by [`new_in`](sync::Semaphore::new_in).
pub type Semaphore = sync::Semaphore<Shared>;
/// A permit of a [`Semaphore`].
pub type Permit<'a> = sync::Permit<'a, Shared>;
/// [`sync::Event`] of a shared executor; made by [`new_in`](sync::Event::new_in).
pub type Event = sync::Event<Shared>;
/// [`sync::Channel`] of a shared executor; made by [`new_in`](sync::Channel::new_in).
pub type Channel<T, const CAPACITY: usize> = sync::Channel<T, CAPACITY, Shared>;
/// [`key::Keys`] of a shared executor; made by [`new_in`](key::Keys::new_in).
pub type Keys = key::Keys<Shared>;
/// Future of [`sleep`] and [`sleep_until`].
pub type Sleep = time::Sleep<Shared>;
/// Future of [`timeout`].
pub type Timeout<F> = time::Timeout<F, Shared>;
/// [`time::Ticker`] in a shared executor; made by [`ticker`].
pub type Ticker = time::Ticker<Shared>;

/// Waits until `deadline`, as [`time::sleep_until`] does.
///
/// If the platform does not [advance](crate::SharedExecutor::advance) the time itself, a worker
/// reads the clock between polls. A worker that goes to sleep asks for the [next
/// deadline](crate::SharedExecutor::next_deadline) before, and is called when an earlier one is
/// set.
pub fn sleep_until(deadline: u64) -> Sleep {
    Sleep::new(time::Until::Deadline(deadline))
}

/// Waits for `duration`, as [`time::sleep`] does.
pub fn sleep(duration: Duration) -> Sleep {
    Sleep::new(time::Until::After(time::nanoseconds(duration)))
}

/// Gives `future` up to `duration`, as [`time::timeout`] does.
///
/// # Errors
/// [`Elapsed`](time::Elapsed) if the time was over first.
pub fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    Timeout::new(future, sleep(duration))
}

/// Makes a ticker, as [`time::Ticker::new`] does.
///
/// # Panics
/// If the period is zero.
#[must_use]
pub const fn ticker(period: Duration) -> Ticker {
    Ticker::every(period)
}
