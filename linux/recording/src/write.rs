//! Writes a recording into memory, which a file may back.

use crate::format::{
    DEMOTES, EVENT, HEADER, Kind, Layout, MAGIC, PROGRAM, RING_HEADER, Role, Settings, VERSION,
    ring_word, word,
};
use std::sync::atomic::{AtomicU32, Ordering};

/// Words that a reader in another process may see at any time.
type Words = [AtomicU32];

/// A recording that is being written.
///
/// Every method only stores words, with relaxed atomics: no call waits, allocates or fails.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    words: &'static Words,
    layout: Layout,
    slots: u32,
    rings: u32,
}

impl Writer {
    /// Lays a recording out in `words`, which are all 0.
    ///
    /// `ticks` of its clock are `nanoseconds` of the clock by which recordings are merged.
    ///
    /// # Panics
    /// Panics if there are fewer words than [`Layout::words`] says, no ring, or if the number of
    /// events is not a power of two.
    #[must_use]
    pub fn new(
        words: &'static Words,
        settings: &Settings,
        (ticks, nanoseconds): (u64, u64),
    ) -> Self {
        let layout = Layout::new(settings);
        assert!(
            settings.events.is_power_of_two(),
            "a ring has a power of two of events"
        );
        assert!(settings.rings > 0, "a recording has at least one ring");
        let this = Self {
            words: &words[..layout.end],
            layout,
            slots: settings.slots,
            rings: settings.rings,
        };
        for (number, value) in [
            (word::VERSION, VERSION),
            (word::HEADER, HEADER as u32),
            (word::PORT, settings.port as u32),
            (word::PROCESS, settings.process),
            (word::RINGS, settings.rings),
            (word::EVENTS, settings.events),
            (word::SLOTS, settings.slots),
            (word::NAMES, settings.names),
            (word::POLICY, settings.bounded),
            (word::FLAGS, if settings.demotes { DEMOTES } else { 0 }),
            (word::WORKERS, settings.workers),
        ] {
            this.set(number, value);
        }
        this.set_wide(word::FREQUENCY, settings.frequency);
        this.set_wide(word::ANCHOR, ticks);
        this.set_wide(word::ANCHOR + 2, nanoseconds);
        let mut program = settings.program.as_str();
        while program.len() > 4 * PROGRAM.len() {
            let mut characters = program.chars();
            characters.next_back();
            program = characters.as_str();
        }
        this.set_bytes(PROGRAM.start, program.as_bytes());
        // Last, so that a reader finds the rest.
        this.set_bytes(0, &MAGIC);
        this
    }

    fn set(&self, number: usize, value: u32) {
        self.words[number].store(value, Ordering::Relaxed);
    }

    fn get(&self, number: usize) -> u32 {
        self.words[number].load(Ordering::Relaxed)
    }

    fn set_wide(&self, number: usize, value: u64) {
        self.set(number, value as u32);
        self.set(number + 1, (value >> 32) as u32);
    }

    fn set_bytes(&self, number: usize, bytes: &[u8]) {
        for (at, chunk) in bytes.chunks(4).enumerate() {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            self.set(number + at, u32::from_le_bytes(word));
        }
    }

    /// Returns the ring with this number.
    ///
    /// # Panics
    /// Panics beyond the number of rings.
    #[must_use]
    pub fn ring(&self, number: u32) -> Ring {
        assert!(number < self.rings, "there are {} rings", self.rings);
        let start = self.layout.rings + self.layout.ring * number as usize;
        let (header, events) = self.words[start..start + self.layout.ring].split_at(RING_HEADER);
        let (events, _) = events.as_chunks::<EVENT>();
        Ring { header, events }
    }

    /// Returns the number of rings.
    #[must_use]
    pub fn rings(&self) -> u32 {
        self.rings
    }

    /// Takes the next sequence number, by the holder of the scheduler's lock.
    #[inline]
    #[must_use]
    pub fn next(&self) -> u32 {
        let next = &self.words[word::NEXT];
        let number = next.load(Ordering::Relaxed);
        next.store(number.wrapping_add(1), Ordering::Relaxed);
        number
    }

    /// Notes that `ticks` of the recording's clock are `nanoseconds`, by the holder of the
    /// scheduler's lock.
    pub fn anchor(&self, ticks: u64, nanoseconds: u64) {
        let count = self.get(word::ANCHORS);
        let place = word::LATER + 4 * (count as usize % 2);
        self.set_wide(place, ticks);
        self.set_wide(place + 2, nanoseconds);
        self.words[word::ANCHORS].store(count.wrapping_add(1), Ordering::Release);
    }

    /// Adds a name and returns its number; 0 if there is no room. One thread at a time calls it.
    #[must_use]
    pub fn add_name(&self, name: &str) -> u16 {
        let used = self.get(word::NAMES_USED) as usize;
        let room = (self.layout.slots - self.layout.names) * 4;
        let needs = 4 + name.len().next_multiple_of(4);
        let number = u16::try_from(used / 4 + 1);
        let (Ok(number), true) = (number, used + needs <= room) else {
            self.set(
                word::NAMES_LOST,
                self.get(word::NAMES_LOST).saturating_add(1),
            );
            return 0;
        };
        let at = self.layout.names + used / 4;
        self.set(at, name.len() as u32);
        self.set_bytes(at + 1, name.as_bytes());
        self.words[word::NAMES_USED].store((used + needs) as u32, Ordering::Release);
        number
    }

    /// Notes that the coroutine in this slot has this name.
    pub fn name_slot(&self, slot: u32, generation: u16, name: u16) {
        if slot < self.slots {
            let word = u32::from(name) | u32::from(generation) << 16;
            self.set(self.layout.slots + slot as usize, word);
        }
    }

    /// Counts an event that no ring has taken.
    pub fn lose(&self) {
        self.words[word::EVENTS_LOST].fetch_add(1, Ordering::Relaxed);
    }
}

/// A ring of events, which one thread at a time writes.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    header: &'static Words,
    events: &'static [[AtomicU32; EVENT]],
}

impl Ring {
    /// Puts the ring in use.
    ///
    /// `takes` has a bit for each level that the worker takes; all for what is no worker.
    pub fn begin(&self, role: Role, number: u32, thread: u32, takes: u64) {
        let set = |at: usize, value| self.header[at].store(value, Ordering::Relaxed);
        set(ring_word::ROLE, u32::from(role as u8));
        set(ring_word::NUMBER, number);
        set(ring_word::THREAD, thread);
        set(ring_word::TAKES, takes as u32);
        set(ring_word::TAKES + 1, (takes >> 32) as u32);
        self.header[ring_word::USED].store(1, Ordering::Release);
    }

    /// Writes one event, over the oldest one if the ring is full.
    ///
    /// `argument` is the sequence number, of an ordered event.
    #[inline]
    pub fn push(
        &self,
        kind: Kind,
        time: u64,
        argument: u32,
        (slot, generation): (u32, u16),
        level: u8,
    ) {
        let upper = (time >> 32) as u32;
        let former = self.header[ring_word::UPPER].load(Ordering::Relaxed);
        if upper != former {
            self.turn(time as u32, former, upper);
        }
        let what = u32::from(kind as u8) | u32::from(level) << 8 | u32::from(generation) << 16;
        self.write([time as u32, argument, slot, what]);
    }

    #[cold]
    #[inline(never)]
    fn turn(&self, time: u32, former: u32, upper: u32) {
        self.header[ring_word::UPPER].store(upper, Ordering::Relaxed);
        self.write([time, former, upper, u32::from(Kind::Time as u8)]);
    }

    #[inline]
    fn write(&self, words: [u32; EVENT]) {
        let written = self.header[ring_word::WRITTEN].load(Ordering::Relaxed);
        let event = &self.events[written as usize & (self.events.len() - 1)];
        for (at, value) in words.into_iter().enumerate() {
            event[at].store(value, Ordering::Relaxed);
        }
        let after = written.wrapping_add(1);
        if after == 0 {
            let high = &self.header[ring_word::WRITTEN + 1];
            high.store(
                high.load(Ordering::Relaxed).wrapping_add(1),
                Ordering::Relaxed,
            );
        }
        // Release: a reader that sees the count sees the event.
        self.header[ring_word::WRITTEN].store(after, Ordering::Release);
    }
}
