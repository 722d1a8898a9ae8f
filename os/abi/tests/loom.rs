//! Every interleaving of the flag of user-level interrupts, explored by loom: see
//! `corank_abi::upcall`.
//!
//! Run it with
//! `RUSTFLAGS="--cfg loom" cargo test --release --manifest-path os/Cargo.toml --package corank-abi --test loom`.
//!
//! A lost interrupt shows as a deadlock: the process waits, and nothing interrupts it. Each of
//! these changes was seen to make `two_producers_wake_the_waiter` end in one:
//!
//! - `close` is a plain store: it hides a producer that has found the flag closed just before;
//! - `open` is a plain store, even a sequentially consistent one;
//! - `raise` is a load and a store; `raise` or `open` is relaxed;
//! - `open_when_quiet` does not check after it has opened.
#![cfg(loom)]

use corank_abi::upcall::Flag;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Notify};
use loom::thread;

/// What a producer has for the process: a word that says that it is there, and plain memory.
struct Item {
    put: AtomicUsize,
    payload: UnsafeCell<usize>,
}

/// A process with one place for each producer.
struct Process {
    flag: Flag,
    items: Vec<Item>,
    interrupt: Notify,
    interrupts: AtomicUsize,
}

// SAFETY: loom fails the test when two accesses to a payload are not ordered.
unsafe impl Sync for Process {}
// SAFETY: as above.
unsafe impl Send for Process {}

impl Process {
    fn new(producers: usize) -> Arc<Self> {
        let item = || Item {
            put: AtomicUsize::new(0),
            payload: UnsafeCell::new(0),
        };
        Arc::new(Self {
            flag: Flag::default(),
            items: (0..producers).map(|_| item()).collect(),
            interrupt: Notify::new(),
            interrupts: AtomicUsize::new(0),
        })
    }

    /// Writes a completion or a wake: what it carries, then the word, then the flag.
    fn produce(&self, producer: usize, value: usize) {
        let item = &self.items[producer];
        // SAFETY: see `Sync`.
        item.payload.with_mut(|payload| unsafe { *payload = value });
        item.put.store(value, Ordering::Release);
        if self.flag.raise() {
            self.interrupts.fetch_add(1, Ordering::Relaxed);
            self.interrupt.notify();
        }
    }

    /// Runs the process until it has `last` of every producer, and returns how often it has opened
    /// the flag.
    ///
    /// It takes what is there, opens the flag, computes, and is interrupted.
    fn consume(&self, last: usize) -> usize {
        let mut taken = vec![0; self.items.len()];
        let mut openings = 0;
        loop {
            let seen = std::cell::RefCell::new(&mut taken);
            self.flag.open_when_quiet(
                || {
                    openings += 1;
                    for (item, taken) in self.items.iter().zip(seen.borrow_mut().iter_mut()) {
                        let put = item.put.load(Ordering::Acquire);
                        if put != *taken {
                            *taken = put;
                            // SAFETY: see `Sync`.
                            let carried = item.payload.with(|payload| unsafe { *payload });
                            assert_eq!(carried, put);
                        }
                    }
                },
                || {
                    let seen = seen.borrow();
                    let mut items = self.items.iter().zip(seen.iter());
                    items.any(|(item, taken)| item.put.load(Ordering::Acquire) != *taken)
                },
            );
            if taken.iter().all(|taken| *taken == last) {
                break;
            }
            self.interrupt.wait();
        }
        openings
    }
}

fn explore(producers: usize, times: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let process = Process::new(producers);
        let threads: Vec<_> = (0..producers)
            .map(|number| {
                let process = process.clone();
                thread::spawn(move || {
                    for value in 1..=times {
                        process.produce(number, value);
                    }
                })
            })
            .collect();
        let openings = process.consume(times);
        for thread in threads {
            thread.join().unwrap();
        }
        let interrupts = process.interrupts.load(Ordering::Relaxed);
        // It was open from the beginning.
        assert!(
            interrupts <= openings + 1,
            "{interrupts} for {openings} openings"
        );
    });
}

#[test]
fn one_producer_wakes_the_waiter() {
    explore(1, 1);
}

#[test]
fn two_producers_wake_the_waiter() {
    explore(2, 1);
}
