//! The timers of one scheduler: an intrusive pairing heap of the waiting ones (rules T1 to T8).
//!
//! A timer is part of the future that sleeps, so there is no allocation and no limit. Setting one
//! is O(1); firing or removing one is O(log n) amortised; the next deadline is O(1). No method
//! recurses.

use core::cell::Cell;
use core::marker::PhantomPinned;
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::Context;

use crate::priority::Priority;
use crate::scheduling::table::block::BlockRef;
use crate::scheduling::time::deadlines::Bounds;
use crate::scheduling::wake::stored_waker::{StoredWaker, WakerCell};

/// A function that reads a clock: nanoseconds that never go back.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Calls the function: only the side of the image that made the clock may, because the call is
    /// Rust's.
    #[cfg(feature = "image")]
    read: extern "C" fn(&Clock) -> u64,
    function: fn() -> u64,
}

impl Clock {
    pub(crate) const fn new(function: fn() -> u64) -> Self {
        #[cfg(feature = "image")]
        extern "C" fn read(clock: &Clock) -> u64 {
            (clock.function)()
        }
        Self {
            #[cfg(feature = "image")]
            read,
            function,
        }
    }

    #[inline]
    fn read(&self) -> u64 {
        #[cfg(feature = "image")]
        return (self.read)(self);
        #[cfg(not(feature = "image"))]
        (self.function)()
    }
}

/// A heap of the timers of one scheduler. For the scheduler's owner.
pub(crate) struct Timers {
    clock: Option<Clock>,
    /// The latest time that was passed to [`Timers::fire`].
    told: Cell<u64>,
    root: Cell<Option<NonNull<Timer>>>,
    /// How many timers were ever set: the number of the next one.
    set: Cell<u64>,
    bounds: Bounds,
}

/// One timer. It must be pinned while it waits, and taken out of the heap before it is dropped.
#[repr(C)]
pub(crate) struct Timer {
    deadline: Cell<u64>,
    /// Decides among equal deadlines.
    number: Cell<u64>,
    stage: Cell<Stage>,
    waker: WakerCell,
    /// The coroutine at whose level it counts (rule T9): the one that polled it last, while that
    /// one has not exited. No block goes before its scheduler.
    sleeper: Cell<Option<BlockRef>>,
    /// First of the heaps below this timer; they follow by `next`.
    child: Cell<Option<NonNull<Timer>>>,
    next: Cell<Option<NonNull<Timer>>>,
    /// The neighbour before this one, or the parent of a first child; none for the root.
    previous: Cell<Option<NonNull<Timer>>>,
    _pinned: PhantomPinned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    /// Not set, or its scheduler is gone.
    Idle,
    /// In the heap.
    Waiting,
    /// Its deadline was reached while it waited.
    Fired,
}

impl Timer {
    pub(crate) const fn new() -> Self {
        Self {
            deadline: Cell::new(0),
            number: Cell::new(0),
            stage: Cell::new(Stage::Idle),
            waker: WakerCell::new(),
            sleeper: Cell::new(None),
            child: Cell::new(None),
            next: Cell::new(None),
            previous: Cell::new(None),
            _pinned: PhantomPinned,
        }
    }

    pub(crate) fn stage(&self) -> Stage {
        self.stage.get()
    }

    /// Returns the coroutine that polled it last, if it was one.
    pub(crate) fn sleeper(&self) -> Option<BlockRef> {
        self.sleeper.get()
    }

    /// Returns the level at which it counts now.
    fn level(&self) -> Priority {
        (self.sleeper.get()).map_or(Priority::DEFAULT, |sleeper| sleeper.level())
    }

    /// Tests whether it wakes what polls now.
    pub(crate) fn remembers(&self, cx: &Context<'_>) -> bool {
        self.waker.will_wake(cx.waker())
    }

    /// Wakes this waker from now on; returns the one before.
    #[must_use]
    pub(crate) fn remember(&self, waker: StoredWaker) -> Option<StoredWaker> {
        self.waker.replace(Some(waker))
    }

    fn is_before(&self, other: &Self) -> bool {
        (self.deadline.get(), self.number.get()) < (other.deadline.get(), other.number.get())
    }
}

/// Borrows a timer in the heap.
fn at<'a>(timer: NonNull<Timer>) -> &'a Timer {
    // SAFETY: `set` admits pinned timers only, and its caller takes them out before they are
    // dropped, so every pointer in the heap is good. The reference is not kept longer than a method
    // of this module.
    unsafe { timer.as_ref() }
}

impl Timers {
    pub(crate) const fn new(clock: Option<Clock>, bounds: Bounds) -> Self {
        Self {
            clock,
            told: Cell::new(0),
            root: Cell::new(None),
            set: Cell::new(0),
            bounds,
        }
    }

    /// Returns the time now: that of the clock, or the latest that the platform has passed if that
    /// is later.
    pub(crate) fn now(&self) -> u64 {
        self.clock
            .map_or(0, |clock| clock.read())
            .max(self.told.get())
    }

    #[inline]
    pub(crate) fn has_clock(&self) -> bool {
        self.clock.is_some()
    }

    /// Reads the clock, if there is one.
    #[cfg(all(feature = "heap", not(feature = "image")))]
    #[inline]
    pub(crate) fn read_clock(&self) -> Option<u64> {
        self.clock.map(|clock| clock.read())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.root.get().is_none()
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.root.get().map(|root| at(root).deadline.get())
    }

    /// Reads the clock, if there are a clock and timers.
    #[inline]
    pub(crate) fn check_clock(&self) -> Option<u64> {
        self.clock
            .filter(|_| !self.is_empty())
            .map(|clock| clock.read())
    }

    /// Fires every timer that is due at `now`, in order, and gives each waker to `wake`; returns
    /// how many fired.
    pub(crate) fn fire(&self, now: u64, wake: impl Fn(StoredWaker)) -> usize {
        let now = now.max(self.told.get());
        self.told.set(now);
        let mut fired = 0;
        while let Some(root) = self.root.get().map(at)
            && root.deadline.get() <= now
        {
            self.remove(root, Stage::Fired);
            fired += 1;
            // Last: a waker may run any code, which may drop the timer.
            if let Some(waker) = root.waker.replace(None) {
                wake(waker);
            }
        }
        self.tighten();
        fired
    }

    /// Starts a timer of `sleeper`'s, or of no coroutine's.
    ///
    /// # Safety
    /// Before the timer is dropped, the caller calls [`cancel`](Self::cancel) if it still waits.
    /// `sleeper`'s block stays as long as this.
    pub(crate) unsafe fn set(&self, timer: Pin<&Timer>, deadline: u64, sleeper: Option<BlockRef>) {
        debug_assert_ne!(timer.stage(), Stage::Waiting);
        timer.sleeper.set(sleeper);
        // Before it is in the heap: see `crate::scheduling::time::deadlines`.
        self.bounds.started(sleeper, timer.level(), deadline);
        timer.deadline.set(deadline);
        timer.number.set(self.set.get());
        self.set.set(self.set.get() + 1);
        timer.stage.set(Stage::Waiting);
        self.insert(NonNull::from(timer.get_ref()));
    }

    /// Gives a timer that waits to `sleeper` from now on, and to no other coroutine.
    pub(crate) fn hand_over(&self, timer: &Timer, sleeper: Option<BlockRef>) {
        let level = sleeper.map_or(Priority::DEFAULT, |sleeper| sleeper.level());
        self.bounds
            .handed_over(sleeper, level, timer.deadline.get());
        timer.sleeper.set(sleeper);
    }

    /// Moves a coroutine's timers to another level, together with the coroutine.
    #[inline]
    pub(crate) fn sleeper_moves(&self, sleeper: BlockRef, to: Priority) {
        self.bounds.sleeper_moves(sleeper, to);
    }

    /// Raises the published bounds, so that none is before the first deadline.
    #[inline]
    fn tighten(&self) {
        let Some(root) = self.root.get() else {
            self.bounds.emptied();
            return;
        };
        let first = at(root).deadline.get();
        if self.bounds.are_stale(first) {
            self.bounds.raise(first, at(root).level(), |found| {
                each(root, |timer| found(timer.level(), timer.deadline.get()));
            });
        }
    }

    /// Takes a timer that waits out of the heap.
    pub(crate) fn cancel(&self, timer: &Timer) {
        self.remove(timer, Stage::Idle);
        if self.is_empty() {
            self.bounds.emptied();
        }
    }

    /// Empties the heap when the scheduler goes away: no timer refers to it or to another timer any
    /// more.
    ///
    /// Each waker goes to `forget`.
    pub(crate) fn abandon(&self, forget: impl Fn(Option<StoredWaker>)) {
        while let Some(root) = self.root.get().map(at) {
            self.remove(root, Stage::Idle);
            forget(root.waker.replace(None));
        }
        self.bounds.emptied();
    }

    fn insert(&self, timer: NonNull<Timer>) {
        let root = match self.root.get() {
            Some(root) => meld(root, timer),
            None => timer,
        };
        self.root.set(Some(root));
    }

    fn remove(&self, timer: &Timer, stage: Stage) {
        debug_assert_eq!(timer.stage(), Stage::Waiting);
        let below = meld_all(timer.child.take());
        let (previous, next) = (timer.previous.take(), timer.next.take());
        match previous.map(at) {
            None => self.root.set(below),
            Some(neighbour) => {
                if neighbour.child.get() == Some(NonNull::from(timer)) {
                    neighbour.child.set(next);
                } else {
                    neighbour.next.set(next);
                }
                if let Some(next) = next {
                    at(next).previous.set(previous);
                }
                if let Some(below) = below {
                    self.insert(below);
                }
            }
        }
        timer.stage.set(stage);
        self.bounds.ended();
    }
}

/// Visits every timer of the heap with this root, each before those below it.
fn each(root: NonNull<Timer>, mut visit: impl FnMut(&Timer)) {
    let mut here = root;
    loop {
        visit(at(here));
        let below = at(here).child.get();
        here = match below.or_else(|| behind(here)) {
            Some(next) => next,
            None => return,
        };
    }
}

/// Returns the next neighbour, or that of the nearest timer above that has one.
fn behind(timer: NonNull<Timer>) -> Option<NonNull<Timer>> {
    let mut here = timer;
    loop {
        let next = at(here).next.get();
        if next.is_some() {
            return next;
        }
        // Back past the neighbours before it, to their parent. Each is passed once by the whole
        // visit.
        loop {
            let before = here;
            here = at(here).previous.get()?;
            if at(here).child.get() == Some(before) {
                break;
            }
        }
    }
}

/// Melds two heaps, given by their roots: the later root becomes the first child of the earlier
/// one.
fn meld(one: NonNull<Timer>, other: NonNull<Timer>) -> NonNull<Timer> {
    let (first, second) = if at(one).is_before(at(other)) {
        (one, other)
    } else {
        (other, one)
    };
    let child = at(first).child.replace(Some(second));
    at(second).previous.set(Some(first));
    at(second).next.set(child);
    if let Some(child) = child {
        at(child).previous.set(Some(second));
    }
    first
}

/// Melds all siblings from `first` on: neighbours in pairs, then the pairs from the last to the
/// first.
fn meld_all(first: Option<NonNull<Timer>>) -> Option<NonNull<Timer>> {
    let mut rest = first;
    // Roots of the melded pairs, the last one first, by `next`.
    let mut pairs: Option<NonNull<Timer>> = None;
    while let Some(one) = rest {
        let other = detach(one);
        rest = other.and_then(detach);
        let pair = other.map_or(one, |other| meld(one, other));
        at(pair).next.set(pairs);
        pairs = Some(pair);
    }
    let mut whole = pairs?;
    let mut rest = detach(whole);
    while let Some(pair) = rest {
        rest = detach(pair);
        whole = meld(whole, pair);
    }
    Some(whole)
}

/// Cuts a timer off from its parent and neighbours; returns the next one.
fn detach(timer: NonNull<Timer>) -> Option<NonNull<Timer>> {
    at(timer).previous.set(None);
    at(timer).next.take()
}
