//! What tasks share: the names are those of `corank::sync`, the rules are M and N of the contract.
//!
//! Everything here may stand in a `static`, and serves the tasks of all executors. Interrupts are
//! masked for one step of an operation, which visits the waiters of the primitive.

mod channel;
mod event;
mod keys;
mod mutex;
mod queue;
mod semaphore;

pub use channel::{Channel, ChannelReceive, ChannelSend};
pub use event::{Event, WaitForEvent};
pub use keys::{Keys, KeysFull, WaitForKey};
pub use mutex::{Lock, Mutex, MutexGuard};
pub use semaphore::{Acquire, Permit, Semaphore};
