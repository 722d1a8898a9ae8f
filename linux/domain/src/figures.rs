//! What a participant counts for those who watch the domain.

use crate::claim::Nanoseconds;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters in the page. Written by the process that owns it, read by `corank top`.
#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct Figures {
    /// How often a worker has stepped aside.
    pub(crate) asides: AtomicU64,
    /// How often a worker found, when it stepped aside, that something more urgent had been waiting for it to do so.
    pub(crate) inversions: AtomicU64,
    /// How long these had waited, all together, in nanoseconds.
    pub(crate) inverted: AtomicU64,
    /// How long one of these had waited at most, in nanoseconds.
    pub(crate) longest_inversion: AtomicU64,
}

impl Figures {
    /// A worker steps aside; for something that has been `waiting` for that, or to keep room for something that has gone.
    pub(crate) fn step_aside(&self, waiting: Option<Nanoseconds>) {
        self.asides.fetch_add(1, Ordering::Relaxed);
        let Some(waited) = waiting else {
            return;
        };
        self.inversions.fetch_add(1, Ordering::Relaxed);
        self.inverted.fetch_add(waited, Ordering::Relaxed);
        self.longest_inversion.fetch_max(waited, Ordering::Relaxed);
    }
}
