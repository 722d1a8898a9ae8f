//! The budget of a coroutine: operations that are always ready must not keep a worker from more
//! urgent coroutines.
//!
//! The executor counts them (rule O8 of the contract), for its own primitives and for I/O.

use std::num::NonZeroU32;
use std::time::Duration;

/// Limits the operations in a row that a coroutine completes without waiting; before the next one
/// it lets others run.
///
/// It lets them run earlier if something more urgent is ready.
pub const OPERATIONS_IN_A_ROW: u32 = 32;

/// Limits the time in which a worker completes operations without waiting; then it fires timers and
/// checks for events.
pub const TIME_IN_A_ROW: Duration = Duration::from_micros(500);

/// [`OPERATIONS_IN_A_ROW`], for the executor.
pub(crate) const OPERATIONS: NonZeroU32 = NonZeroU32::new(OPERATIONS_IN_A_ROW).unwrap();
