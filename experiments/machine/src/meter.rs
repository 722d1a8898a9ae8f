//! What a process did in each trial.
//!
//! All processes of a measurement cut the time at the same moments. So a process needs no message
//! at those moments, and a thread that was delayed knows afterwards what belongs to which trial.

use anyhow::{Context, Result};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Duration of a trial: 60 jobs.
pub(crate) const TRIAL: Duration = Duration::from_millis(60);

/// Returns nanoseconds of the clock that all processes share.
pub(crate) fn now() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Times of the trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Beginning of the first trial, by [`now`].
    pub(crate) begin: u64,
    pub(crate) trials: usize,
}

impl Schedule {
    /// Returns the trial of this moment; `None` before and after all.
    pub(crate) fn trial(&self, moment: u64) -> Option<usize> {
        let passed = moment.checked_sub(self.begin)?;
        let trial = usize::try_from(passed / TRIAL.as_nanos() as u64).ok()?;
        (trial < self.trials).then_some(trial)
    }

    /// Returns when the last trial ends.
    pub(crate) fn end(&self) -> u64 {
        self.begin + self.trials as u64 * TRIAL.as_nanos() as u64
    }
}

/// Text that a process receives: `begin trials`.
impl FromStr for Schedule {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let (begin, trials) = line.split_once(' ').context("two numbers")?;
        Ok(Self {
            begin: begin.parse()?,
            trials: trials.parse()?,
        })
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.begin, self.trials)
    }
}

/// Work of a process, or of a thread of it, in one trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Share {
    /// Processor time that it had, in nanoseconds.
    pub(crate) used: u64,
    /// Chunks of bulk work.
    pub(crate) chunks: u64,
    /// Latencies of jobs that were due, in microseconds.
    pub(crate) latencies: Vec<f64>,
}

impl Share {
    pub(crate) fn add(&mut self, other: &Self) {
        self.used += other.used;
        self.chunks += other.chunks;
        self.latencies.extend(&other.latencies);
    }
}

/// Text that a process sends: `used chunks latency…`.
impl FromStr for Share {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let mut words = line.split(' ');
        let mut next = || words.next().context("too few numbers");
        Ok(Self {
            used: next()?.parse()?,
            chunks: next()?.parse()?,
            latencies: words.map(str::parse).collect::<Result<_, _>>()?,
        })
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.used, self.chunks)?;
        self.latencies
            .iter()
            .try_for_each(|latency| write!(f, " {latency}"))
    }
}

/// Counts of one thread, which updates them after each piece of its work.
pub(crate) struct Meter {
    schedule: Schedule,
    shares: Vec<Share>,
    /// The trial at the last piece, if there was one.
    current: Option<usize>,
    /// The thread's processor time when that began.
    used: u64,
}

impl Meter {
    pub(crate) fn new(schedule: Schedule) -> Self {
        Self {
            shares: vec![Share::default(); schedule.trials],
            schedule,
            current: None,
            used: 0,
        }
    }

    /// Notes that a piece of work has ended now, with this many chunks.
    ///
    /// What the thread used since the last trial ended belongs to the trial in which it last
    /// worked: while it did not run it used nothing.
    pub(crate) fn note(&mut self, chunks: u64) {
        self.note_at(now(), chunks, || {
            nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
        });
    }

    fn note_at(&mut self, now: u64, chunks: u64, used: impl FnOnce() -> u64) {
        let trial = self.schedule.trial(now);
        if trial != self.current {
            let used = used();
            if let Some(last) = self.current {
                self.shares[last].used += used - self.used;
            }
            self.used = used;
            self.current = trial;
        }
        if let Some(trial) = trial {
            self.shares[trial].chunks += chunks;
        }
    }

    /// Notes that a job that was due at this moment took this long.
    pub(crate) fn note_job(&mut self, due: u64, latency: Duration) {
        if let Some(trial) = self.schedule.trial(due) {
            let latency = latency.as_nanos() as f64 / 1e3;
            self.shares[trial].latencies.push(latency);
        }
    }

    /// Tests whether all trials have been.
    pub(crate) fn has_ended(&self) -> bool {
        self.current.is_none() && now() >= self.schedule.end()
    }

    pub(crate) fn shares(self) -> Vec<Share> {
        self.shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE: Schedule = Schedule {
        begin: 1000,
        trials: 3,
    };

    fn at(trials: u64) -> u64 {
        1000 + trials * TRIAL.as_nanos() as u64
    }

    #[test]
    fn a_moment_is_in_one_trial_or_in_none() {
        let moments = [999, 1000, at(1) - 1, at(1), at(3) - 1, at(3)];
        let trials = moments.map(|moment| SCHEDULE.trial(moment));
        assert_eq!(trials, [None, Some(0), Some(0), Some(1), Some(2), None]);
        assert_eq!(SCHEDULE.end(), at(3));
    }

    #[test]
    fn a_printed_message_is_parsed() {
        let said: Schedule = SCHEDULE.to_string().parse().unwrap();
        assert_eq!(said, SCHEDULE);
        let share = Share {
            used: 5,
            chunks: 7,
            latencies: vec![1.5, 250.0],
        };
        assert_eq!(share.to_string().parse::<Share>().unwrap(), share);
        assert!("5".parse::<Share>().is_err());
    }

    #[test]
    fn time_and_work_count_for_their_trial() {
        let mut meter = Meter::new(SCHEDULE);
        // Before the trials, in the first, not at all in the second, in the third, and after all.
        let pieces = [(500, 10), (2000, 20), (3000, 30), (at(2), 50), (at(3), 90)];
        for (now, used) in pieces {
            meter.note_at(now, 1, || used);
        }
        meter.note_job(at(1) - 1, Duration::from_micros(3));
        meter.note_job(500, Duration::from_micros(3));
        let shares = meter.shares();
        let figures: Vec<(u64, u64)> = (shares.iter())
            .map(|share| (share.used, share.chunks))
            .collect();
        assert_eq!(figures, [(30, 2), (0, 0), (40, 1)]);
        assert_eq!(shares[0].latencies, [3.0]);
    }
}
