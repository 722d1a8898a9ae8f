//! Sectors of tables and directories that are kept in memory.
//!
//! They lie below the driver, whose own cache is off. A search of a long directory or chain finds
//! sector after sector here, without waiting for the disk, and [`Blocks`](super::blocks::Blocks)
//! has a check for more urgent work in front of each. What is written goes to the disk at once, in
//! the driver's order.
use crate::device::disk::SECTOR;
use core::num::NonZeroUsize;
use core::ops::Range;
use lru::LruCache;

/// How many sectors are kept.
const KEPT: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");

/// The sectors that were used last, by number.
pub(super) struct Sectors(LruCache<u64, [u8; SECTOR]>);

impl Sectors {
    /// Returns a cache that is empty.
    pub(super) fn new() -> Sectors {
        Sectors(LruCache::new(KEPT))
    }

    /// Returns a sector, if it is kept.
    pub(super) fn find(&mut self, sector: u64) -> Option<&[u8; SECTOR]> {
        self.0.get(&sector)
    }

    /// Keeps a sector, in place of the one that was used least lately.
    ///
    /// Anything but one sector is not kept.
    pub(super) fn keep(&mut self, sector: u64, data: &[u8]) {
        if let Ok(data) = data.try_into() {
            self.0.put(sector, data);
        }
    }

    /// Changes a sector from its byte `at` on.
    ///
    /// Keeps it, if it changes as a whole or is kept already.
    pub(super) fn change(&mut self, sector: u64, at: usize, data: &[u8]) {
        if let Some(kept) = self.0.get_mut(&sector) {
            kept[at..at + data.len()].copy_from_slice(data);
        } else {
            self.keep(sector, data);
        }
    }

    /// Keeps none of these any more.
    ///
    /// Takes some 50 instructions for each.
    pub(super) fn forget(&mut self, sectors: Range<u64>) {
        for sector in sectors {
            self.0.pop(&sector);
        }
    }

    /// Keeps none any more.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
