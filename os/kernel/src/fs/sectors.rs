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
///
/// All entries are there from the start, some 140 KiB together, so that no later access takes
/// memory. Those that are not [valid](Entry::valid) are the first to be used again.
pub(super) struct Sectors(LruCache<u64, Entry>);

struct Entry {
    valid: bool,
    data: [u8; SECTOR],
}

impl Sectors {
    /// Returns a cache in which no entry is valid.
    pub(super) fn new() -> Sectors {
        let mut entries = LruCache::new(KEPT);
        // No disk has sectors with the last numbers.
        for unused in u64::MAX - KEPT.get() as u64..u64::MAX {
            let (valid, data) = (false, [0; SECTOR]);
            entries.put(unused, Entry { valid, data });
        }
        Sectors(entries)
    }

    /// Returns a sector, if it is kept.
    pub(super) fn find(&mut self, sector: u64) -> Option<&[u8; SECTOR]> {
        let entry = self.0.get(&sector).filter(|entry| entry.valid);
        entry.map(|entry| &entry.data)
    }

    /// Keeps a sector, in place of the one that was used least lately.
    ///
    /// Anything but one sector is not kept.
    pub(super) fn keep(&mut self, sector: u64, data: &[u8]) {
        if let Ok(data) = data.try_into() {
            self.0.put(sector, Entry { valid: true, data });
        }
    }

    /// Changes a sector from its byte `at` on.
    ///
    /// Keeps it, if it changes as a whole or is kept already.
    pub(super) fn change(&mut self, sector: u64, at: usize, data: &[u8]) {
        match self.0.get_mut(&sector) {
            Some(entry) if entry.valid => entry.data[at..at + data.len()].copy_from_slice(data),
            _ => self.keep(sector, data),
        }
    }

    /// Keeps none of these any more.
    ///
    /// Takes some 50 instructions for each.
    pub(super) fn forget(&mut self, sectors: Range<u64>) {
        for sector in sectors {
            if let Some(entry) = self.0.peek_mut(&sector) {
                entry.valid = false;
                self.0.demote(&sector);
            }
        }
    }

    /// Keeps none any more.
    pub(super) fn clear(&mut self) {
        for (_, entry) in self.0.iter_mut() {
            entry.valid = false;
        }
    }
}
