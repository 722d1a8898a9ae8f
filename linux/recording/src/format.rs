//! The format of recordings: `spec/recording.md` in code.

use std::fmt;

/// The version of the format that this crate writes and reads.
pub const VERSION: u32 = 1;

/// The first eight bytes of a recording.
pub(crate) const MAGIC: [u8; 8] = *b"corankrc";
/// The words of the header.
pub(crate) const HEADER: usize = 64;
/// The words of a ring's header.
pub(crate) const RING_HEADER: usize = 16;
/// The words of an event.
pub(crate) const EVENT: usize = 4;
/// The most names' bytes, and events of a ring, that a reader accepts.
pub(crate) const MOST_NAMES: u32 = 65_535 * 4;
pub(crate) const MOST_EVENTS: u32 = 1 << 26;
/// The most rings and slots that a reader accepts.
pub(crate) const MOST_RINGS: u32 = 4096;
pub(crate) const MOST_SLOTS: u32 = 1 << 24;
/// The flag of a recording whose scheduler demotes coroutines by their use.
pub(crate) const DEMOTES: u32 = 1;
/// The words for the program's name.
pub(crate) const PROGRAM: std::ops::Range<usize> = 40..56;

/// Words of the header, by their numbers.
pub(crate) mod word {
    pub(crate) const VERSION: usize = 2;
    pub(crate) const HEADER: usize = 3;
    pub(crate) const PORT: usize = 4;
    pub(crate) const PROCESS: usize = 5;
    pub(crate) const RINGS: usize = 6;
    pub(crate) const EVENTS: usize = 7;
    pub(crate) const SLOTS: usize = 8;
    pub(crate) const NAMES: usize = 9;
    /// Ticks per second, in two words as all numbers of 64 bits, the low one first.
    pub(crate) const FREQUENCY: usize = 10;
    pub(crate) const POLICY: usize = 12;
    pub(crate) const FLAGS: usize = 13;
    pub(crate) const WORKERS: usize = 14;
    /// Ticks and nanoseconds at the beginning, four words.
    pub(crate) const ANCHOR: usize = 16;
    /// How many later anchors were written, alternately into two places of four words.
    pub(crate) const ANCHORS: usize = 20;
    pub(crate) const LATER: usize = 21;
    /// The sequence number of the next event.
    pub(crate) const NEXT: usize = 29;
    pub(crate) const NAMES_USED: usize = 30;
    pub(crate) const NAMES_LOST: usize = 31;
    pub(crate) const EVENTS_LOST: usize = 32;
}

/// Words of a ring's header, by their numbers.
pub(crate) mod ring_word {
    pub(crate) const USED: usize = 0;
    pub(crate) const ROLE: usize = 1;
    pub(crate) const NUMBER: usize = 2;
    pub(crate) const THREAD: usize = 3;
    /// The events ever written, two words.
    pub(crate) const WRITTEN: usize = 4;
    /// The levels that the worker takes, two words.
    pub(crate) const TAKES: usize = 6;
    /// The upper word of the time of the last event.
    pub(crate) const UPPER: usize = 8;
}

macro_rules! numbered {
    ($(#[$of:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $number:literal,)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum $name { $($(#[$doc])* $variant = $number,)* }

        impl $name {
            /// Returns the value with this number.
            #[must_use]
            pub const fn of(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

numbered! {
    /// What an event reports.
    ///
    /// Kinds below 64 are *ordered*: they happen under the scheduler's lock, and their sequence
    /// numbers say in which order.
    Kind {
        /// A new coroutine is ready (S2).
        Spawn = 1,
        /// A wake takes effect, whatever the state (W1 to W3). A blocked coroutine is `Ready` next.
        Wake = 2,
        /// A blocked coroutine becomes ready (S6).
        Ready = 3,
        /// A worker picks the coroutine and polls it (S3).
        Pick = 4,
        /// The poll ends pending, after a wake (S4).
        Yield = 5,
        /// The poll ends pending, without a wake (S5).
        Block = 6,
        /// The coroutine exits with its output (S7).
        Finish = 7,
        /// The coroutine exits by a panic (F1).
        Panic = 8,
        /// The coroutine exits by a cancellation (X1, X2).
        Cancel = 9,
        /// The effective level is this one now (R2, I2).
        Level = 10,
        /// The base level is this one now (R1).
        Base = 11,
        /// Names the borrower of the `Lend` or `Unlend` that follows in the ring.
        Borrower = 12,
        /// The coroutine donates its level to the borrower from now on (I1).
        Lend = 13,
        /// One donation to the borrower is over (I4).
        Unlend = 14,
        /// The poll is interrupted, and could go on (S8).
        Preempt = 15,
        /// The poll is interrupted, and waits (S8).
        Stall = 16,
        /// The interrupted poll goes on (S9).
        Resume = 17,
        /// The time of the events that follow has another upper word.
        Time = 64,
        /// The worker found nothing ready, and sleeps (O7).
        Idle = 65,
        /// The worker goes on after `Idle` or `Aside`.
        Awake = 66,
        /// The worker steps aside, because something elsewhere is more urgent (G3).
        Aside = 67,
        /// The coroutine has this name.
        Name = 68,
        /// A worker is called, because something is ready (H8).
        Call = 69,
        /// An interrupt handler begins.
        Interrupt = 70,
    }
}

numbered! {
    /// The environment in which a scheduler runs.
    Port {
        /// The runtime for Linux.
        Linux = 1,
        /// A process of the operating system.
        Process = 2,
        /// The kernel of the operating system.
        Kernel = 3,
        /// The Rust core on a microcontroller.
        Microcontroller = 4,
        /// The C++ library.
        Cpp = 5,
    }
}

numbered! {
    /// What writes a ring.
    Role {
        /// A worker.
        Worker = 0,
        /// A spare worker (H11).
        Spare = 1,
        /// A worker for bulk work (H14).
        Bulk = 2,
        /// Another thread.
        Thread = 3,
        /// All threads that got no ring of their own, one at a time.
        Others = 4,
        /// A hart or core.
        Hart = 5,
        /// Interrupt handlers.
        Interrupts = 6,
    }
}

impl Kind {
    /// Tests whether a sequence number says when it happened.
    #[must_use]
    pub const fn is_ordered(self) -> bool {
        (self as u8) < 64
    }
}

/// Identifies a coroutine of a recording: a slot and the last 16 bits of its generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    /// The slot in the scheduler's table.
    pub slot: u32,
    /// The generation of the slot, modulo 65,536.
    pub generation: u16,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.generation)
    }
}

/// What a recording says about its program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The port of the scheduler.
    pub port: Port,
    /// The process, or 0 where there are none.
    pub process: u32,
    /// Rings.
    pub rings: u32,
    /// Events of each ring, a power of two.
    pub events: u32,
    /// Slots of the coroutine table whose names are kept.
    pub slots: u32,
    /// Bytes for names, a multiple of 4 and at most 262,140.
    pub names: u32,
    /// Ticks of the clock in a second.
    pub frequency: u64,
    /// `k` of the policy *bounded(k)*, or 0 for the strict one (B1).
    pub bounded: u32,
    /// Whether coroutines are demoted by their use (B7).
    pub demotes: bool,
    /// The number of workers.
    pub workers: u32,
    /// The program's name, of which 64 bytes are kept.
    pub program: String,
}

/// Where the parts of a recording are, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub(crate) names: usize,
    pub(crate) slots: usize,
    pub(crate) rings: usize,
    pub(crate) ring: usize,
    pub(crate) end: usize,
}

impl Layout {
    /// Returns the layout for these numbers of rings, events, slots and bytes of names.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let count = |number: u32| number as usize;
        let names = HEADER;
        let slots = names + count(settings.names) / 4;
        let rings = slots + count(settings.slots);
        let ring = RING_HEADER + EVENT * count(settings.events);
        Self {
            names,
            slots,
            rings,
            ring,
            end: rings + ring * count(settings.rings),
        }
    }

    /// Returns the number of words of the whole recording.
    #[must_use]
    pub fn words(&self) -> usize {
        self.end
    }
}
