//! Work at a level, and when it was done.
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::time::Duration;

use crate::stretches::Stretch;
use corank_user::corank::time::sleep_until;
use corank_user::{time, yield_now};

/// Longest time between two reads of the clock that counts as work.
///
/// If more time passes, the hart was taken away. The gap is longer than an interrupt that changes
/// nothing, and shorter than any other coroutine's turn.
const GAP: Duration = Duration::from_micros(10);

/// Log of what the coroutines of one process did.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    process: u8,
    stretches: Rc<RefCell<Vec<Stretch>>>,
}

impl Log {
    /// Creates a log with room for this many stretches, so that noting one takes no memory.
    pub(crate) fn new(process: u8, room: usize) -> Self {
        Self {
            process,
            stretches: Rc::new(RefCell::new(Vec::with_capacity(room))),
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let stretches = self.stretches.borrow();
        stretches
            .iter()
            .flat_map(|stretch| stretch.to_bytes())
            .collect()
    }

    /// Computes at `level` for a number of slices, with a turn for others between two.
    ///
    /// It has been ready for this since `ready`.
    pub(crate) async fn work(&self, level: u8, mut ready: u64, slices: u32, slice: Duration) {
        for left in (0..slices).rev() {
            ready = self.slice(level, ready, time::ticks_in(slice));
            if left > 0 {
                yield_now().await;
            }
        }
    }

    /// Computes for this many ticks, and returns when it was done.
    fn slice(&self, level: u8, mut ready: u64, ticks: u64) -> u64 {
        let gap = time::ticks_in(GAP);
        let mut start = time::ticks();
        let (mut last, mut done) = (start, 0);
        while done < ticks {
            let now = time::ticks();
            if now - last > gap {
                self.note(level, ready, start, last);
                (ready, start) = (last, now);
            } else {
                done += now - last;
            }
            last = now;
        }
        self.note(level, ready, start, last);
        last
    }

    fn note(&self, level: u8, ready: u64, start: u64, end: u64) {
        self.stretches.borrow_mut().push(Stretch {
            // A clock is read a little later than a timer is due.
            ready: ready.min(start),
            start,
            end,
            level,
            process: self.process,
        });
    }
}

/// Sleeps until `due`, in nanoseconds; returns since when the coroutine has been ready, in ticks.
pub(crate) async fn wait_until(due: u64) -> u64 {
    let before = time::nanoseconds();
    sleep_until(due).await;
    time::ticks_in(Duration::from_nanos(due.max(before)))
}

/// Generator of the same numbers each time: Lehmer's generator (minimal standard).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed * 7919 % 0x7fff_fffe + 1)
    }

    /// Returns a number from half of `mean` to one and a half of it.
    pub(crate) fn around(&mut self, mean: u64) -> u64 {
        self.0 = self.0 * 48_271 % 0x7fff_ffff;
        mean / 2 + self.0 * mean / 0x7fff_ffff
    }
}
