//! The ready tasks: a ring for each level, and one word of the levels that have any (rules P3, O1
//! to O4).
//!
//! Every method requires masked interrupts.

use core::cell::Cell;
use core::ptr;

use corank::{LEVELS, Levels, Step};

use crate::task::{Header, Phase};

/// What happened during a poll: one word, so that the common end of a poll is one comparison.
#[repr(C, align(4))]
pub(crate) struct Notes {
    /// The running task was woken (rule W3). The only one that is written without masking: by a
    /// store of this byte.
    pub(crate) woken: Cell<u8>,
    /// The most urgent level has changed, or the running task's own.
    pub(crate) changed: Cell<u8>,
    /// The running task is cancelled when its poll ends (rule X2).
    pub(crate) cancelled: Cell<u8>,
    /// How many ready tasks were cancelled from elsewhere.
    pub(crate) stopped: Cell<u8>,
}

impl Notes {
    /// The running task was woken, and nothing else has happened.
    pub(crate) const YIELDED: u32 = u32::from_ne_bytes([1, 0, 0, 0]);

    #[inline]
    pub(crate) fn word(&self) -> u32 {
        // SAFETY: the four bytes are aligned as a word is. Volatile, because another context may
        // have written them.
        unsafe { ptr::from_ref(self).cast::<u32>().read_volatile() }
    }

    pub(crate) fn begin_poll(&self) {
        self.woken.set(0);
        self.changed.set(0);
        self.cancelled.set(0);
    }
}

/// The rings. All zeros is none, so that an executor takes no flash.
#[repr(C)]
pub(crate) struct Rings {
    pub(crate) notes: Notes,
    /// The running task; null between two polls.
    ///
    /// It is here, near the beginning, because a Cortex-M0 reaches only 124 bytes at once.
    pub(crate) current: Cell<*const Header>,
    /// The most urgent level that has a ready task, plus 1; 0 if there is none.
    most_urgent: Cell<u8>,
    ready: [Cell<u32>; 2],
    /// The first task of each level. While the ring of the running task turns, its entry stays
    /// behind: see [`keep_head`](Self::keep_head).
    heads: [Cell<*const Header>; LEVELS],
}

impl Rings {
    pub(crate) const fn new() -> Self {
        Self {
            notes: Notes {
                woken: Cell::new(0),
                changed: Cell::new(0),
                cancelled: Cell::new(0),
                stopped: Cell::new(0),
            },
            current: Cell::new(ptr::null()),
            most_urgent: Cell::new(0),
            ready: [const { Cell::new(0) }; 2],
            heads: [const { Cell::new(ptr::null()) }; LEVELS],
        }
    }

    /// Returns the levels with a linked task, the running one included.
    pub(crate) fn linked(&self) -> Levels {
        let [low, high] = &self.ready;
        Levels::from_bits(u64::from(low.get()) | u64::from(high.get()) << 32)
    }

    /// Returns the most urgent level of [`linked`](Self::linked).
    #[inline]
    pub(crate) fn most_urgent(&self) -> Result<u8, Step> {
        self.most_urgent.get().checked_sub(1).ok_or(Step::Idle)
    }

    fn word(&self, level: u8) -> (&Cell<u32>, u32) {
        (&self.ready[usize::from(level >> 5) & 1], 1 << (level & 31))
    }

    /// Returns where the first task of a level stands.
    #[inline]
    pub(crate) fn head(&self, level: u8) -> &Cell<*const Header> {
        // The mask spares a check: levels are below 64.
        &self.heads[usize::from(level) % LEVELS]
    }

    /// Makes the running task the head of its ring, where it is unless the ring was changed since
    /// the pick. A turn of the ring alone spares that store.
    fn keep_head(&self) {
        // SAFETY: tasks are static.
        if let Some(current) = unsafe { self.current.get().as_ref() }
            && self.notes.changed.get() == 0
        {
            self.head(current.level.get()).set(current);
        }
    }

    /// Links a task at the tail of its level.
    #[inline(never)]
    pub(crate) fn push(&self, task: &Header) {
        self.keep_head();
        task.go(Phase::QUEUED);
        let level = task.level.get();
        let head = self.head(level);
        // SAFETY: linked tasks are static.
        let Some(first) = (unsafe { head.get().as_ref() }) else {
            task.next.set(task);
            task.previous.set(task);
            head.set(task);
            let (word, bit) = self.word(level);
            word.set(word.get() | bit);
            let most_urgent = self.most_urgent.get();
            // 0, no level, becomes the largest number.
            if level < most_urgent.wrapping_sub(1) {
                self.most_urgent.set(level + 1);
                self.notes.changed.set(1);
            }
            return;
        };
        let last = first.previous.replace(task);
        task.previous.set(last);
        task.next.set(first);
        // SAFETY: as above.
        unsafe { &*last }.next.set(task);
    }

    /// Takes a linked task out of its ring.
    #[inline(never)]
    pub(crate) fn remove(&self, task: &Header) {
        self.keep_head();
        let level = task.level.get();
        let head = self.head(level);
        let next = task.next.get();
        if ptr::eq(next, task) {
            head.set(ptr::null());
            let (word, bit) = self.word(level);
            word.set(word.get() & !bit);
            let most_urgent = self.linked().most_urgent();
            self.most_urgent
                .set(most_urgent.map_or(0, |level| level.level() + 1));
            self.notes.changed.set(1);
            return;
        }
        let previous = task.previous.get();
        // SAFETY: linked tasks are static.
        unsafe {
            (*previous).next.set(next);
            (*next).previous.set(previous);
        }
        if ptr::eq(head.get(), task) {
            head.set(next);
        }
    }

    /// Tests whether a linked task is alone at its level.
    pub(crate) fn is_alone(&self, task: &Header) -> bool {
        ptr::eq(task.next.get(), task)
    }
}
