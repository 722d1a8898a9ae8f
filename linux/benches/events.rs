//! Compares layers that report events: `rustix` as the runtime uses it, `mio`, and `polling`, on
//! which async-io is built.
//!
//! `cargo bench -p corank-linux --bench events` prints nanoseconds for each byte that is written to
//! one end of a socket pair, announced, and read from the other end. There are 256 pairs, of which
//! a given number have a byte at a time. The three layers take turns; the output is the median of
//! the rounds, the smallest and the largest. Writing and reading are the same for all three.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

const PAIRS: usize = 256;
const BYTES: usize = 50_000;
const ROUNDS: usize = 7;

/// A layer in which the reading ends are registered.
trait Layer {
    /// Calls `read` with the number of each end that is announced without waiting.
    fn check(&mut self, ends: &[UnixStream], read: &mut dyn FnMut(usize));
}

/// Registers once, for both directions and edge-triggered.
struct Rustix {
    epoll: std::os::fd::OwnedFd,
    events: Vec<epoll::Event>,
}

impl Rustix {
    fn new(ends: &[UnixStream]) -> Self {
        let epoll = epoll::create(CreateFlags::CLOEXEC).expect("a descriptor");
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        for (number, end) in ends.iter().enumerate() {
            epoll::add(&epoll, end, EventData::new_u64(number as u64), flags).expect("a watch");
        }
        let events = Vec::with_capacity(PAIRS);
        Self { epoll, events }
    }
}

impl Layer for Rustix {
    fn check(&mut self, _: &[UnixStream], read: &mut dyn FnMut(usize)) {
        self.events.clear();
        let now = Timespec::default();
        epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&now)).expect("events");
        for event in &self.events {
            let (flags, data) = (event.flags, event.data);
            if flags.contains(EventFlags::IN) {
                read(data.u64() as usize);
            }
        }
    }
}

/// Registers as tokio does: in the same way.
struct Mio {
    poll: mio::Poll,
    events: mio::Events,
}

impl Mio {
    fn new(ends: &[UnixStream]) -> Self {
        let poll = mio::Poll::new().expect("a descriptor");
        for (number, end) in ends.iter().enumerate() {
            let both = mio::Interest::READABLE | mio::Interest::WRITABLE;
            let mut source = mio::unix::SourceFd(&end.as_raw_fd());
            let registered = poll
                .registry()
                .register(&mut source, mio::Token(number), both);
            registered.expect("a watch");
        }
        let events = mio::Events::with_capacity(PAIRS);
        Self { poll, events }
    }
}

impl Layer for Mio {
    fn check(&mut self, _: &[UnixStream], read: &mut dyn FnMut(usize)) {
        let now = Some(Duration::ZERO);
        self.poll.poll(&mut self.events, now).expect("events");
        for event in &self.events {
            if event.is_readable() {
                read(event.token().0);
            }
        }
    }
}

/// Registers as async-io does: each wait is armed separately.
struct Polling {
    poller: polling::Poller,
    events: polling::Events,
}

impl Polling {
    fn new(ends: &[UnixStream]) -> Self {
        let poller = polling::Poller::new().expect("a descriptor");
        for (number, end) in ends.iter().enumerate() {
            // SAFETY: the ends are open for longer than the poller.
            unsafe { poller.add(end, polling::Event::readable(number)) }.expect("a watch");
        }
        let events = polling::Events::with_capacity(PAIRS.try_into().expect("some"));
        Self { poller, events }
    }
}

impl Layer for Polling {
    fn check(&mut self, ends: &[UnixStream], read: &mut dyn FnMut(usize)) {
        self.events.clear();
        let now = Some(Duration::ZERO);
        self.poller.wait(&mut self.events, now).expect("events");
        for event in self.events.iter() {
            read(event.key);
            let again = polling::Event::readable(event.key);
            self.poller
                .modify(&ends[event.key], again)
                .expect("a watch");
        }
    }
}

/// Returns nanoseconds for each byte, with `at_once` pairs in use at a time.
fn measure(layer: &mut dyn Layer, far: &[UnixStream], near: &[UnixStream], at_once: usize) -> u64 {
    let mut next = 0;
    let mut take = |least: usize| {
        let mut count = 0;
        while count < least {
            layer.check(near, &mut |number| {
                // Reads what there is, once.
                count += (&near[number]).read(&mut [0; 64]).expect("a byte");
            });
        }
    };
    let start = Instant::now();
    for _ in 0..BYTES / at_once {
        for _ in 0..at_once {
            (&far[next]).write_all(&[1]).expect("room");
            next = (next + 1) % PAIRS;
        }
        take(at_once);
    }
    (start.elapsed().as_nanos() / (BYTES / at_once * at_once) as u128) as u64
}

fn main() {
    // `cargo test --benches` only builds it.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let pairs = || -> (Vec<UnixStream>, Vec<UnixStream>) {
        let pair = || {
            let (far, near) = UnixStream::pair().expect("descriptors");
            near.set_nonblocking(true).expect("a socket");
            (far, near)
        };
        (0..PAIRS).map(|_| pair()).unzip()
    };
    let ends: [_; 3] = std::array::from_fn(|_| pairs());
    let mut layers: [Box<dyn Layer>; 3] = [
        Box::new(Rustix::new(&ends[0].1)),
        Box::new(Mio::new(&ends[1].1)),
        Box::new(Polling::new(&ends[2].1)),
    ];
    println!(
        "{:>8} {:>20} {:>20} {:>20}",
        "at once", "rustix", "mio", "polling"
    );
    for at_once in [1, 8, 64] {
        let mut times: [Vec<u64>; 3] = Default::default();
        for _ in 0..ROUNDS {
            for ((layer, (far, near)), times) in layers.iter_mut().zip(&ends).zip(&mut times) {
                times.push(measure(layer.as_mut(), far, near, at_once));
            }
        }
        let [one, two, three] = times.map(|mut times| {
            times.sort_unstable();
            format!("{} ({}-{})", times[ROUNDS / 2], times[0], times[ROUNDS - 1])
        });
        println!("{at_once:>8} {one:>20} {two:>20} {three:>20}");
    }
}
