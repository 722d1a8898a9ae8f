//! Recordings that tests write event by event.

#![allow(dead_code, reason = "not every test uses all of it")]

use corank_recording::{Id, Kind, Layout, Port, Recording, Ring, Role, Settings, Writer};
use std::sync::atomic::{AtomicU32, Ordering};

/// A recording that is being written.
pub(crate) struct Script {
    words: &'static [AtomicU32],
    pub(crate) writer: Writer,
    time: u64,
}

pub(crate) fn settings(rings: u32, events: u32) -> Settings {
    Settings {
        port: Port::Linux,
        process: 42,
        rings,
        events,
        slots: 8,
        names: 64,
        frequency: 1_000_000_000,
        bounded: 0,
        demotes: false,
        workers: rings,
        program: "scene".to_string(),
    }
}

/// Returns the coroutine of a slot's first generation.
pub(crate) fn id(slot: u32) -> Id {
    Id {
        slot,
        generation: 0,
    }
}

impl Script {
    pub(crate) fn new(workers: u32) -> Self {
        Self::with(&settings(workers, 64))
    }

    pub(crate) fn with(settings: &Settings) -> Self {
        let words = Layout::new(settings).words();
        let words: Vec<AtomicU32> = (0..words).map(|_| AtomicU32::new(0)).collect();
        let words: &'static [AtomicU32] = words.leak();
        let writer = Writer::new(words, settings, (0, 0));
        for number in 0..settings.rings {
            let ring = writer.ring(number);
            ring.begin(Role::Worker, number, 100 + number, u64::MAX);
        }
        Self {
            words,
            writer,
            time: 0,
        }
    }

    pub(crate) fn ring(&self, number: u32) -> Ring {
        self.writer.ring(number)
    }

    /// Adds an event of the worker 0, 1 µs after the one before.
    pub(crate) fn add(&mut self, kind: Kind, slot: u32, level: u8) -> &mut Self {
        self.on(0, kind, id(slot), level)
    }

    pub(crate) fn on(&mut self, ring: u32, kind: Kind, id: Id, level: u8) -> &mut Self {
        self.time += 1000;
        let number = self.writer.next();
        let target = (id.slot, id.generation);
        let ring = self.writer.ring(ring);
        ring.push(kind, self.time, number, target, level);
        self
    }

    /// Adds a donation, or the end of one.
    pub(crate) fn lend(&mut self, kind: Kind, lender: u32, borrower: u32) -> &mut Self {
        self.add(Kind::Borrower, borrower, 0).add(kind, lender, 0)
    }

    pub(crate) fn at(&mut self, time: u64) -> &mut Self {
        self.time = time;
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let words = self.words.iter();
        let words = words.flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        words.collect()
    }

    pub(crate) fn read(&self) -> Recording {
        Recording::read(&self.bytes()).expect("it is a recording")
    }
}
