//! What is counted and reported of coroutines.

#[cfg(feature = "hooks")]
pub(crate) mod hooks;
pub(crate) mod recorder;
#[cfg(feature = "stats")]
pub(crate) mod stats;
