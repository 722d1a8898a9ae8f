//! What coroutines of one thread share: [`Mutex`], [`Semaphore`], [`Event`], [`Channel`] (rules M
//! and N).
//!
//! - **Most urgent first.** The waiter that is served next is the most urgent one by its level *at
//!   that moment*, first come first served among equals. Finding it is a scan of the waiters, O(n):
//!   their levels change while they wait, and there are few.
//! - **Handed over directly.** A lock or permit that is given to a waiter belongs to it from then
//!   on, and no later caller overtakes it. A future that is dropped before it has used what it was
//!   given passes it on. So nothing is lost however a wait ends: `select!`, timeout, cancellation,
//!   panic.
//! - **No allocation.** A waiter is a link inside the future that waits.
//!
//! # One thread, or the workers of one executor
//! Made by `new`, these types belong to one thread: they are neither `Send` nor `Sync`. Their state
//! is made of plain cells, and lists run through the futures of one executor's thread. Therefore
//! they cost a few instructions and no atomic operation. Made by `new_in`, they serve the
//! coroutines of a [`SharedExecutor`](crate::SharedExecutor): see [`crate::workers`]. Elsewhere use
//! any async crate, such as `async-channel`: its wakers reach a coroutine from everywhere. An
//! interrupt handler wakes its coroutine through a [`Waker`](core::task::Waker) or
//! [`Remote`](crate::Remote).
//!
//! To share one, put it in an `Rc`, or borrow it in a future that owns it; without an allocator,
//! make a `&'static` of it with a crate such as `static_cell`:
//!
//! ```
//! use corank::sync::Mutex;
//! use static_cell::StaticCell;
//!
//! static COUNT: StaticCell<Mutex<u32>> = StaticCell::new();
//! let count: &'static Mutex<u32> = COUNT.init(Mutex::new(0));
//! *count.try_lock().unwrap() += 1;
//! ```
//!
//! ```compile_fail,E0277
//! fn needs_send<T: Send>() {}
//! needs_send::<corank::sync::Semaphore>();
//! ```
//! ```compile_fail,E0277
//! fn needs_sync<T: Sync>() {}
//! needs_sync::<corank::sync::Mutex<u32>>();
//! ```

mod channel;
mod event;
mod mutex;
pub(crate) mod permits;
pub(crate) mod queue;
mod semaphore;

pub use channel::{Channel, ChannelReceive, ChannelSend, SendError, TryReceiveError, TrySendError};
pub use event::{Event, EventWait};
pub use mutex::{Lock, Mutex, MutexGuard};
pub use semaphore::{Acquire, Permit, Semaphore};
