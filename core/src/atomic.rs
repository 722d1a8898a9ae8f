//! Atomics: `core`'s, or loom's when loom explores the interleavings. With the feature
//! `portable-atomic`, those of that crate, for processors that only load and store.

#[cfg(not(any(target_has_atomic = "32", feature = "portable-atomic")))]
compile_error!(
    "this target has no atomic compare-and-swap: choose the feature `portable-atomic` of corank, \
     and one of the crate portable-atomic, such as `critical-section`"
);

#[cfg(not(any(loom, feature = "portable-atomic")))]
pub(crate) use core::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize};
#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{Ordering, fence};
#[cfg(all(feature = "portable-atomic", not(loom)))]
pub(crate) use portable_atomic::{AtomicU8, AtomicU32, AtomicUsize};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering, fence};

#[cfg(all(target_has_atomic = "64", not(loom)))]
pub(crate) use core::sync::atomic::AtomicU64;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::AtomicU64;

/// Atomics of statics and of shared memory, which loom does not explore.
pub(crate) mod unexplored {
    #[cfg(all(not(feature = "portable-atomic"), not(target_has_atomic = "64")))]
    pub(crate) use core::sync::atomic::AtomicU32;
    #[cfg(not(feature = "portable-atomic"))]
    pub(crate) use core::sync::atomic::AtomicUsize;
    #[cfg(all(feature = "portable-atomic", not(target_has_atomic = "64")))]
    pub(crate) use portable_atomic::AtomicU32;
    #[cfg(feature = "portable-atomic")]
    pub(crate) use portable_atomic::AtomicUsize;
}
