//! The memory that the conductor and its processes share: what they count, and when they run.

use anyhow::Result;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::fs::OpenOptions;
use std::sync::atomic::{AtomicU64, Ordering};

/// The file of the memory.
const FILE: &str = "/counters";
/// How many processes there are at most.
pub(crate) const PROCESSES: usize = 64;
/// The buckets of latencies, and their width in nanoseconds.
const BUCKETS: usize = 2000;
const WIDTH: u64 = 10_000;

/// What one process shows.
#[repr(C)]
pub(crate) struct Cell {
    /// Whether the process waits for the start.
    pub(crate) is_ready: AtomicU64,
    /// Whether it has a page: 0 if it has not asked, 1 if so, 2 if refused, 3 if the board beside
    /// it is not protected.
    pub(crate) joined: AtomicU64,
    /// When the urgent work that waits was due, and the middle work; 0 while the process ended.
    pub(crate) due: [AtomicU64; 2],
    pub(crate) urgent: AtomicU64,
    pub(crate) missed: AtomicU64,
    /// Polls of bulk, or chunks of a process that computes only.
    pub(crate) chunks: AtomicU64,
    /// The time in which it ran something while more urgent work waited, in nanoseconds.
    pub(crate) inversion: AtomicU64,
    latencies: [AtomicU64; BUCKETS],
}

#[repr(C)]
pub(crate) struct Shared {
    /// When everything begins and ends, by `CLOCK_MONOTONIC`; 0 while it is not known.
    pub(crate) start: AtomicU64,
    pub(crate) stop: AtomicU64,
    pub(crate) cells: [Cell; PROCESSES],
}

/// Returns nanoseconds of `CLOCK_MONOTONIC`.
pub(crate) fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Adds to a counter that this process alone writes.
pub(crate) fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

impl Shared {
    /// Maps the memory. The conductor creates it, all zeros.
    pub(crate) fn open(creates: bool) -> Result<&'static Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        if creates {
            use std::os::unix::fs::OpenOptionsExt;
            options.create(true).truncate(true).mode(0o666);
        }
        let file = options.open(FILE)?;
        if creates {
            // For every user that the tests run as.
            rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(0o666))?;
            file.set_len(size_of::<Self>() as u64)?;
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let none = std::ptr::null_mut();
        // SAFETY: a new mapping, which overlaps nothing and stays. Any bits are a `Shared`, which
        // consists of atomics, and nothing cuts the file.
        Ok(unsafe {
            let start = mmap(none, size_of::<Self>(), access, MapFlags::SHARED, file, 0)?;
            &*start.cast::<Self>()
        })
    }

    /// Clears everything for the next scene.
    pub(crate) fn clear(&self) {
        self.start.store(0, Ordering::Relaxed);
        self.stop.store(u64::MAX, Ordering::Relaxed);
        for cell in &self.cells {
            let counters = [
                &cell.is_ready,
                &cell.joined,
                &cell.due[0],
                &cell.due[1],
                &cell.urgent,
                &cell.missed,
                &cell.chunks,
                &cell.inversion,
            ];
            for counter in counters.into_iter().chain(&cell.latencies) {
                counter.store(0, Ordering::Relaxed);
            }
        }
    }
}

impl Cell {
    pub(crate) fn record_latency(&self, nanoseconds: u64) {
        let bucket = (nanoseconds / WIDTH).min(BUCKETS as u64 - 1);
        add(&self.latencies[bucket as usize], 1);
    }
}

/// Returns a percentile of the latencies of all `cells`, in microseconds.
pub(crate) fn percentile(cells: &[Cell], of_thousand: u64) -> u64 {
    let count = |bucket: usize| -> u64 {
        let counts = cells.iter().map(|cell| &cell.latencies[bucket]);
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    };
    let all: u64 = (0..BUCKETS).map(count).sum();
    let mut seen = 0;
    for bucket in 0..BUCKETS {
        seen += count(bucket);
        if seen * 1000 >= all * of_thousand {
            return (bucket as u64 + 1) * WIDTH / 1000;
        }
    }
    0
}
