//! Wakes: the wakers, and the word in which signals from other threads arrive.

pub(crate) mod signals;
pub(crate) mod stored_waker;
pub(crate) mod waker;
