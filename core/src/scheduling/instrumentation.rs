//! What is counted and reported of coroutines.

#[cfg(feature = "hooks")]
pub(crate) mod hooks;
pub(crate) mod notes;
#[cfg(feature = "stats")]
pub(crate) mod stats;
