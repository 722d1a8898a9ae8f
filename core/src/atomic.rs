//! Atomics: `core`'s, or loom's when loom explores the interleavings.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering, fence};

#[cfg(all(target_has_atomic = "64", not(loom)))]
pub(crate) use core::sync::atomic::AtomicU64;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::AtomicU64;
