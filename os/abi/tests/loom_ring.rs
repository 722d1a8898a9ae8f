//! Every interleaving of a full completion ring, explored by loom: see `corank_abi::ring`.
//!
//! Run it with
//! `RUSTFLAGS="--cfg loom" cargo test --release --manifest-path os/Cargo.toml --package corank-abi --test loom_ring`.
//!
//! The ring has two entries, and more completions come than that. A completion that is lost shows
//! as a deadlock: the process waits, and nothing interrupts it. One that is written over another
//! shows as an access that is not ordered. It finds these defects:
//!
//! - `Outbox` drops what there is no room for, or writes it nevertheless;
//! - the process does not check `kept` when it has emptied the ring, or only then (the first form
//!   of this protocol, found so);
//! - `kept` is not written, or only after the flag was raised;
//! - `publish` or `take` stores with relaxed order, or before the entry is written or read.
#![cfg(loom)]

use corank_abi::ring::{Completion, Outbox, RingHeader};
use corank_abi::upcall::Flag;
use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering;
use loom::sync::{Arc, Mutex, Notify};
use loom::thread;
use std::cell::RefCell;

const ENTRIES: u32 = 2;

struct Shared {
    header: RingHeader,
    places: [UnsafeCell<Completion>; ENTRIES as usize],
    flag: Flag,
    /// What the kernel's lock guards.
    outbox: Mutex<Outbox>,
    interrupt: Notify,
}

// SAFETY: loom fails the test when two accesses to a place are not ordered.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        let mut outbox = Outbox::default();
        outbox.make_room(4).expect("memory");
        Arc::new(Self {
            header: RingHeader::default(),
            places: Default::default(),
            flag: Flag::default(),
            outbox: Mutex::new(outbox),
            interrupt: Notify::new(),
        })
    }

    fn write(&self, number: u32, completion: Completion) {
        // SAFETY: see `Sync`.
        self.places[(number % ENTRIES) as usize].with_mut(|place| unsafe { *place = completion });
    }

    /// Completes a call, as the kernel does on one of its harts.
    fn complete(&self, key: u64) {
        let completion = Completion { key, result: 0 };
        let write = |number, completion| self.write(number, completion);
        self.outbox
            .lock()
            .unwrap()
            .add(&self.header, ENTRIES, write, completion);
        if self.flag.raise() {
            self.interrupt.notify();
        }
    }

    /// Performs the part of `ring_enter` that concerns completions.
    fn enter(&self) {
        let write = |number, completion| self.write(number, completion);
        self.outbox
            .lock()
            .unwrap()
            .ready(&self.header, ENTRIES, write);
    }

    /// Runs the process until it has `count` completions, and returns their keys.
    ///
    /// It computes, is interrupted, and takes what is there.
    fn consume(&self, count: usize) -> Vec<u64> {
        let taken = RefCell::new(Vec::new());
        let head = RefCell::new(0);
        loop {
            self.flag.open_when_quiet(
                || self.take_completions(&mut head.borrow_mut(), &mut taken.borrow_mut()),
                || self.header.has_completions(*head.borrow()),
            );
            if taken.borrow().len() >= count {
                return taken.take();
            }
            self.interrupt.wait();
        }
    }

    fn take_completions(&self, head: &mut u32, taken: &mut Vec<u64>) {
        let ring = self.header.completions();
        loop {
            while ring.available(*head) != 0 {
                assert!(ring.available(*head) <= ENTRIES);
                let place = &self.places[(*head % ENTRIES) as usize];
                // SAFETY: see `Sync`.
                taken.push(place.with(|place| unsafe { (*place).key }));
                *head = ring.take(*head);
            }
            if self.header.kept.load(Ordering::Acquire) == 0 {
                return;
            }
            self.enter();
        }
    }
}

/// Each of `harts` completes so many calls; the process must have them all, those of one hart in
/// their order.
fn explore(harts: u64, calls: u64, preemptions: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let shared = Shared::new();
        let threads: Vec<_> = (0..harts)
            .map(|hart| {
                let shared = shared.clone();
                thread::spawn(move || (0..calls).for_each(|call| shared.complete(10 * hart + call)))
            })
            .collect();
        let taken = shared.consume((harts * calls) as usize);
        for thread in threads {
            thread.join().unwrap();
        }
        for hart in 0..harts {
            let of_hart: Vec<_> = taken.iter().filter(|key| **key / 10 == hart).collect();
            let expected: Vec<_> = (0..calls).map(|call| 10 * hart + call).collect();
            assert!(of_hart.into_iter().eq(&expected), "{taken:?}");
        }
    });
}

#[test]
fn more_completions_than_entries_arrive_in_order() {
    explore(1, 3, 3);
}

#[test]
fn completions_from_two_harts_all_arrive() {
    explore(2, 2, 1);
}
