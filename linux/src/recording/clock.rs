//! The clock of a recording: the processor's counter where Linux trusts it as well.

use std::fs;
use std::sync::OnceLock;

use crate::time;

/// For so long both clocks are compared at the beginning, in nanoseconds.
const MEASURED: u64 = 2_000_000;
const SECOND: u64 = 1_000_000_000;

/// Counts ticks.
#[derive(Debug)]
pub(super) struct Clock {
    /// Whether the ticks are the processor's; otherwise they are nanoseconds.
    counts: bool,
    second: OnceLock<u64>,
}

/// The relation of both clocks.
pub(super) struct Measured {
    pub(super) ticks: u64,
    pub(super) nanoseconds: u64,
    /// Ticks per second.
    pub(super) frequency: u64,
}

impl Clock {
    pub(super) fn new() -> Self {
        // Linux uses the counter itself if it goes evenly, and is the same on all processors.
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let is_trusted = || fs::read_to_string(source).is_ok_and(|name| name.trim() == "tsc");
        Self {
            counts: cfg!(target_arch = "x86_64") && is_trusted(),
            second: OnceLock::new(),
        }
    }

    /// Returns the ticks now.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if self.counts {
            // SAFETY: every processor with 64 bits has the instruction.
            return unsafe { std::arch::x86_64::_rdtsc() };
        }
        time::monotonic()
    }

    /// Returns the ticks and the nanoseconds of the monotonic clock of one moment.
    pub(super) fn pair(&self) -> (u64, u64) {
        if !self.counts {
            let now = time::monotonic();
            return (now, now);
        }
        // The closest of a few readings, because Linux may leave the thread aside in between.
        let reading = |_| {
            let before = self.now();
            let nanoseconds = time::monotonic();
            let after = self.now();
            (after.saturating_sub(before), before, nanoseconds)
        };
        let (apart, before, nanoseconds) = (0..3).map(reading).min().expect("three readings");
        (before + apart / 2, nanoseconds)
    }

    /// Compares both clocks for 2 ms; does not wait if the ticks are nanoseconds.
    pub(super) fn measure(&self) -> Measured {
        let (ticks, nanoseconds) = self.pair();
        let mut frequency = SECOND;
        if self.counts {
            while time::monotonic() < nanoseconds + MEASURED {
                std::hint::spin_loop();
            }
            let (ticks_after, after) = self.pair();
            let (ticks, time) = (ticks_after - ticks, (after - nanoseconds).max(1));
            let exact = u128::from(ticks) * u128::from(SECOND) / u128::from(time);
            frequency = u64::try_from(exact).unwrap_or(u64::MAX).max(1);
        }
        let _ = self.second.set(frequency);
        Measured {
            ticks,
            nanoseconds,
            frequency,
        }
    }

    /// Returns the ticks of a second, once they are measured.
    pub(super) fn second(&self) -> u64 {
        self.second.get().copied().unwrap_or(SECOND)
    }
}
