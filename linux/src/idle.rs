//! Where workers are while they have nothing to do, and how they are called.
//!
//! Of those who are idle one *watches*: it sleeps in the kernel until there is an event, or until the next timer is due. The others
//! sleep on their threads. Whoever stops watching hands that on to one who sleeps, so that there is nobody idle and nobody watching
//! at once.
//!
//! ```text
//!           prepare                    wake                take
//!   awake ───────────▶ sleeps|watches ───────▶ notified ────────▶ awake
//!     │                     wake                  ▲
//!     └───────────────────────────────────────────┘
//! ```

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU8, Ordering};
#[cfg(loom)]
use loom::thread::{self, Thread};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
#[cfg(not(loom))]
use std::thread::{self, Thread};

const AWAKE: u8 = 0;
/// On its thread.
const SLEEPS: u8 = 1;
/// In the kernel.
const WATCHES: u8 = 2;
/// Called, and not looked since.
const NOTIFIED: u8 = 3;

/// One worker's place.
pub(crate) struct Place {
    state: AtomicU8,
    thread: Thread,
}

/// What to do to end somebody's sleep.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Nothing: it is awake, or has been called, or was unparked.
    Done,
    /// It sleeps in the kernel.
    Interrupt,
}

impl Place {
    /// For the worker of this thread.
    pub(crate) fn here() -> Self {
        Self {
            state: AtomicU8::new(AWAKE),
            thread: thread::current(),
        }
    }

    /// Ends the worker's sleep or, if it is awake, its next one.
    pub(crate) fn wake(&self) -> Call {
        // Release: what is to be done is seen by the worker that takes this.
        match self.state.swap(NOTIFIED, Ordering::AcqRel) {
            SLEEPS => {
                self.thread.unpark();
                Call::Done
            }
            WATCHES => Call::Interrupt,
            _ => Call::Done,
        }
    }

    /// Wakes the worker if it sleeps on its thread; false if not.
    pub(crate) fn wake_sleeper(&self) -> bool {
        let woken = self.change(SLEEPS, NOTIFIED);
        if woken {
            self.thread.unpark();
        }
        woken
    }

    /// False if it was called meanwhile.
    fn change(&self, from: u8, to: u8) -> bool {
        self.state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Sleeps until it is called.
    fn sleep(&self) {
        while self.state.load(Ordering::Acquire) == SLEEPS {
            thread::park();
        }
    }

    /// Awake again: it is going to look for whatever it was called for.
    fn take(&self) {
        self.state.swap(AWAKE, Ordering::AcqRel);
    }
}

/// Whether somebody watches.
///
/// Both who stops watching and who goes to sleep change this word, and then look at the other's: whoever comes second sees what the
/// first one did.
pub(crate) struct Watch(AtomicBool);

impl Watch {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Whether somebody sleeps in the kernel, or is about to. It may be otherwise when this returns.
    pub(crate) fn is_taken(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// True if nobody watched: now the caller does.
    fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// The worker at `place` has nothing to do: calls `watch`, which sleeps in the kernel, if nobody else does, and then `hand_on`, which
    /// [wakes one who sleeps](Place::wake_sleeper); else sleeps until it is called. Returns at once if it was called before.
    pub(crate) fn rest(&self, place: &Place, watch: impl FnOnce(), hand_on: impl FnOnce()) {
        let watches = if self.take() {
            true
        } else if place.change(AWAKE, SLEEPS) {
            // Whoever stopped watching just now has perhaps not seen that this one sleeps.
            self.take() || {
                place.sleep();
                false
            }
        } else {
            false
        };
        if watches {
            if place.change(AWAKE, WATCHES) || place.change(SLEEPS, WATCHES) {
                watch();
            }
            self.0.swap(false, Ordering::AcqRel);
            hand_on();
        }
        place.take();
    }
}
