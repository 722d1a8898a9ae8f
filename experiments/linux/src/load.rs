//! The requests of a trial: when, how urgent, how long.
//!
//! The schedule is the same for every model. Requests arrive by a clock whatever the server does
//! (an open loop), and a request's time runs from when it should have been sent. So a server that
//! is late doesn't slow its clients down, and nothing is left out.

use std::hint::black_box;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::processors::{self, Processors};
use corank_linux::Demotion;
use corank_report::trials::Trial;

/// Bytes of a request: its number.
pub(crate) const REQUEST: usize = 4;
/// Work after which a handler lets others run: short requests never do.
pub(crate) const SLICE: Duration = Duration::from_micros(20);

pub(crate) const SHORT: Duration = Duration::from_micros(10);
pub(crate) const LONG: Duration = Duration::from_millis(5);

/// Returns the demotion of the model that has it.
///
/// The quantum is the time of a short request, which never yields and so is never demoted. The
/// first slice of a long one takes two quanta: it goes behind all short ones when it first yields.
pub(crate) fn demotion() -> Demotion {
    Demotion::after(SHORT).levels(63)
}
/// Number of requests of which one is a long one.
const LONG_EVERY: u64 = 200;

/// The mixture of requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    TwoClass,
    EightLevels,
}

impl Shape {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TwoClass => "two-class",
            Self::EightLevels => "eight-levels",
        }
    }

    pub(crate) fn levels(self) -> usize {
        match self {
            Self::TwoClass => 2,
            Self::EightLevels => 8,
        }
    }
}

/// First part of a trial, in which requests are served, and not counted: until then there is no
/// backlog.
const WARM_UP: Duration = Duration::from_millis(10);
/// Time for which requests come.
pub(crate) const TRIAL: Duration = Duration::from_millis(60);
/// Time in which the server accepts all connections.
const START_UP: Duration = Duration::from_millis(20);

/// Rounds of [`work`] in a microsecond.
#[derive(Clone, Copy)]
pub(crate) struct Pace(f64);

impl Pace {
    /// Returns the rounds that take this time.
    pub(crate) fn rounds(self, time: Duration) -> u64 {
        (time.as_secs_f64() * 1e6 * self.0) as u64
    }
}

pub(crate) struct Request {
    /// Time at which it should be sent, from the beginning.
    due: Duration,
    pub(crate) level: usize,
    is_long: bool,
    /// Rounds of work.
    pub(crate) rounds: u64,
}

/// Requests whose latencies are reported together.
#[derive(Clone, Copy)]
pub(crate) enum Group {
    /// All of a level.
    Level(usize),
    /// The short ones of a level.
    Short(usize),
    /// The long ones of all levels.
    Long,
}

impl Group {
    /// Returns the number of the group in a trial.
    pub(crate) fn index(self, shape: Shape) -> usize {
        match self {
            Self::Level(level) => level,
            Self::Short(level) => shape.levels() + level,
            Self::Long => 2 * shape.levels(),
        }
    }

    fn all(shape: Shape) -> usize {
        2 * shape.levels() + 1
    }
}

pub(crate) struct Load {
    pub(crate) shape: Shape,
    processors: Processors,
    pub(crate) requests: Vec<Request>,
    pub(crate) slice: u64,
    start: OnceLock<Instant>,
    begun: AtomicU64,
    /// Time at which each was finished, in nanoseconds from the beginning; 0 if it was not.
    finished: Vec<AtomicU64>,
    /// Time for which the client's and the server's threads were ready to run and had no processor,
    /// in nanoseconds.
    lost: AtomicU64,
}

/// Pseudo-random numbers: xorshift64*, seeded.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(0x9E37_79B9_7F4A_7C15 ^ (seed + 1))
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 32) % bound
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Returns a number above 0, at most 1.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

/// Selection of long requests: one at random of each [`LONG_EVERY`] of a group.
///
/// Their share is the same in every run. If it were left to chance, among the few requests of a
/// level with little load more than one in a hundred would be long now and then. The 99th
/// percentile would then be the length of a long one.
pub(crate) struct Mixture {
    random: Random,
    groups: Vec<Draw>,
}

struct Draw {
    /// Number of the next [`LONG_EVERY`] that there have been.
    count: u64,
    /// Which of them is long.
    long: u64,
}

impl Mixture {
    /// Creates a mixture for this many groups; the first of each begins anywhere.
    pub(crate) fn new(groups: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let groups = (0..groups)
            .map(|_| Draw {
                count: random.below(LONG_EVERY),
                long: random.below(LONG_EVERY),
            })
            .collect();
        Self { random, groups }
    }

    /// Tests whether the next request of this group is long.
    fn is_long(&mut self, group: usize) -> bool {
        let group = &mut self.groups[group];
        let is_long = group.count == group.long;
        group.count += 1;
        if group.count == LONG_EVERY {
            *group = Draw {
                count: 0,
                long: self.random.below(LONG_EVERY),
            };
        }
        is_long
    }
}

/// Computes for this many rounds.
#[inline(never)]
pub(crate) fn work(rounds: u64) {
    for round in 0..rounds {
        black_box(round);
    }
}

/// Measures how fast this processor works.
///
/// It takes the best of many tries, because other programs may use the processor.
pub(crate) fn calibrate() -> Pace {
    const ROUNDS: u64 = 200_000;
    let times = (0..200).map(|_| {
        let start = Instant::now();
        work(ROUNDS);
        start.elapsed()
    });
    let best = times.min().unwrap_or(Duration::from_micros(1));
    Pace(ROUNDS as f64 / (best.as_secs_f64() * 1e6))
}

impl Load {
    /// Creates a load of `percent` of one worker's capacity, for one [trial](TRIAL).
    pub(crate) fn new(
        shape: Shape,
        percent: u32,
        processors: Processors,
        pace: Pace,
        seed: u64,
        mixture: &mut Mixture,
    ) -> Self {
        let rounds = |time| pace.rounds(time);
        let share = 1.0 / LONG_EVERY as f64;
        let mean = SHORT.as_secs_f64() * (1.0 - share) + LONG.as_secs_f64() * share;
        let rate = f64::from(percent) / 100.0 / mean;
        let mut random = Random::new(seed);
        let (mut due, mut requests) = (0.0, Vec::new());
        loop {
            due -= random.unit().ln() / rate;
            if due >= TRIAL.as_secs_f64() {
                break;
            }
            let (level, is_long) = match shape {
                Shape::TwoClass => {
                    let is_long = mixture.is_long(0);
                    (usize::from(is_long), is_long)
                }
                Shape::EightLevels => {
                    let level = random.below(8) as usize;
                    (level, mixture.is_long(level))
                }
            };
            requests.push(Request {
                due: Duration::from_secs_f64(due),
                level,
                is_long,
                rounds: rounds(if is_long { LONG } else { SHORT }),
            });
        }
        let finished = requests.iter().map(|_| AtomicU64::new(0)).collect();
        Self {
            shape,
            processors,
            requests,
            slice: rounds(SLICE),
            start: OnceLock::new(),
            begun: AtomicU64::new(0),
            finished,
            lost: AtomicU64::new(0),
        }
    }

    fn now(&self) -> u64 {
        let elapsed = self.start.get_or_init(Instant::now).elapsed();
        elapsed.as_nanos() as u64
    }

    pub(crate) fn reset(&self) {
        for finished in &self.finished {
            finished.store(0, Ordering::Relaxed);
        }
    }

    /// Notes that a request has been served.
    pub(crate) fn finish(&self, number: usize) {
        let now = self.now() - self.begun.load(Ordering::Relaxed);
        self.finished[number].store(now.max(1), Ordering::Relaxed);
    }

    /// Sends all requests, each when it is due, on one connection for each level.
    ///
    /// A request that does not fit into a full connection is lost: its time runs to the end.
    pub(crate) fn send(&self, server: SocketAddr) {
        self.processors.be_client();
        let mut connections: Vec<TcpStream> = (0..self.shape.levels())
            .map(|level| {
                let mut connection = TcpStream::connect(server).expect("the server listens");
                connection.set_nodelay(true).expect("a TCP socket");
                // The level that the connection is for.
                connection
                    .write_all(&(level as u32).to_le_bytes())
                    .expect("the server reads");
                connection.set_nonblocking(true).expect("a socket");
                connection
            })
            .collect();
        std::thread::sleep(START_UP);
        let lost = processors::lost();
        let begin = self.now();
        self.begun.store(begin, Ordering::Relaxed);
        for (number, request) in self.requests.iter().enumerate() {
            let due = begin + request.due.as_nanos() as u64;
            while self.now() < due {
                std::hint::spin_loop();
            }
            let bytes = (number as u32).to_le_bytes();
            match connections[request.level].write(&bytes) {
                Ok(count) => assert_eq!(count, REQUEST, "a request was cut"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
        }
        let end = begin + TRIAL.as_nanos() as u64;
        while self.now() < end {
            std::hint::spin_loop();
        }
        let lost = processors::lost().saturating_sub(lost);
        self.lost.store(lost.as_nanos() as u64, Ordering::Relaxed);
        self.processors.be_server();
    }

    /// Returns the results of this trial.
    pub(crate) fn trial(&self) -> Trial {
        let levels = self.shape.levels();
        let mut trial = Trial {
            lost: Duration::from_nanos(self.lost.load(Ordering::Relaxed)),
            latencies: vec![Vec::new(); Group::all(self.shape)],
            served: vec![0; levels],
        };
        for (request, finished) in self.requests.iter().zip(&self.finished) {
            if request.due < WARM_UP {
                continue;
            }
            // A request that was not served took until the end.
            let end = TRIAL.as_nanos() as u64;
            let finished = match finished.load(Ordering::Relaxed) {
                0 => end,
                finished => finished.min(end),
            };
            let latency = finished.saturating_sub(request.due.as_nanos() as u64);
            let by_length = match request.is_long {
                true => Group::Long,
                false => Group::Short(request.level),
            };
            for group in [Group::Level(request.level), by_length] {
                trial.latencies[group.index(self.shape)].push(latency as f64 / 1e3);
            }
            trial.served[request.level] += usize::from(finished < end);
        }
        trial
    }
}

/// Returns the part of each trial that counts.
pub(crate) fn counted() -> Duration {
    TRIAL - WARM_UP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_poll_in_each_period_is_long() {
        let mut mixture = Mixture::new(2, 7);
        let mut places = Vec::new();
        for _ in 0..50 {
            let of_these: Vec<u64> = (0..LONG_EVERY).filter(|_| mixture.is_long(1)).collect();
            // A window of this many requests may have the end of one group and the beginning of the
            // next.
            assert!(of_these.len() <= 2);
            places.extend(of_these);
        }
        assert!((49..=51).contains(&places.len()));
        places.sort_unstable();
        places.dedup();
        assert!(places.len() > 25, "they come at random");
    }
}
