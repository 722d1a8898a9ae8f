//! Those who wait in a primitive, in order of arrival (rules N1 to N4).

use core::cell::Cell;
use core::marker::PhantomData;
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::Context;

use crate::block::BlockRef;
use crate::place::Place;
#[cfg(feature = "alloc")]
use crate::place::Shared;
use crate::waiter::{Waiter, Wakeup, Wants};

/// One who waits; part of a future, and pinned with it. It belongs to the primitive's place.
pub(crate) struct Entry<P> {
    pub(crate) waiter: Waiter,
    standing: Cell<Standing>,
    previous: Cell<Option<NonNull<Entry<P>>>>,
    next: Cell<Option<NonNull<Entry<P>>>>,
    /// Whether it was in a queue and has not [settled](Self::settle): others may know of it.
    /// Touched by its future alone.
    is_known: Cell<bool>,
    _place: PhantomData<P>,
}

// SAFETY: while it is known to others, all but `is_known` is touched by whoever has the place's
// turn; before and after, by its future alone.
#[cfg(feature = "alloc")]
unsafe impl Send for Entry<Shared> {}

/// ```text
///        push            take_most_urgent, take_first
///   Out ──────► Queued ──────────────────────────────► Granted or Refused
///    ▲            │ remove: the future is dropped              │
///    └────────────┴────────────────────────────────────────────┘ the future has seen it
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Not waiting.
    Out,
    /// In a queue.
    Queued,
    /// It has been given what it waited for and has not been polled since.
    Granted,
    /// There will be nothing, and it has not been polled since.
    Refused,
}

impl<P: Place> Entry<P> {
    pub(crate) const fn new() -> Self {
        Self {
            waiter: Waiter::new(),
            standing: Cell::new(Standing::Out),
            previous: Cell::new(None),
            next: Cell::new(None),
            is_known: Cell::new(false),
            _place: PhantomData,
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing.get()
    }

    /// Whether its future has anything to do when it is dropped. Anyone may ask without the place's
    /// turn.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known.get()
    }

    /// Whoever polls waits from now on, and lends to the coroutine that `borrower` names, if any.
    /// False if the wait has ended: a waker of anyone's was cloned, and meanwhile others have had
    /// their turn.
    #[inline(never)]
    pub(crate) fn wait(
        self: Pin<&Self>,
        place: &P,
        cx: &Context<'_>,
        borrower: impl FnOnce() -> Option<BlockRef>,
    ) -> bool {
        place.assert_held();
        let lender = place.current();
        let wants = || match self.standing() {
            Standing::Queued => match borrower().filter(|&borrower| Some(borrower) != lender) {
                Some(borrower) => Wants::Of(borrower),
                // Of nobody; also where a coroutine waits for itself, in another branch of a
                // `join!`.
                None => Wants::Something,
            },
            _ => Wants::Nothing,
        };
        // SAFETY: the entry is pinned, and the waiter is part of it.
        let waiter = unsafe { self.map_unchecked(|entry| &entry.waiter) };
        waiter.wait(cx, place.scheduler(), lender, wants)
    }

    /// The future has seen how its wait ended, or is dropped: nobody knows of the entry any more.
    pub(crate) fn settle(&self, place: &P) {
        place.assert_held();
        self.standing.set(Standing::Out);
        if let Some(waker) = self.waiter.end_held() {
            place.aside(|| drop(waker));
        }
        self.is_known.set(false);
    }

    /// Tells one that was taken from its queue how its wait ended. The caller wakes it, last.
    #[must_use]
    pub(crate) fn finish(&self, standing: Standing) -> Wakeup {
        self.standing.set(standing);
        self.waiter.take_wakeup()
    }
}

/// What the waiter would do when it is dropped was done by `settle`, in the place's turn.
#[cfg(any(loom, debug_assertions))]
impl<P> Drop for Entry<P> {
    fn drop(&mut self) {
        assert!(
            self.waiter.lender().is_none() && self.waiter.borrower().is_none(),
            "an entry was dropped before it settled"
        );
    }
}

/// A list through the entries. It may be moved: no entry points to it.
pub(crate) struct Queue<P> {
    first: Cell<Option<NonNull<Entry<P>>>>,
    last: Cell<Option<NonNull<Entry<P>>>>,
}

impl<P: Place> Queue<P> {
    pub(crate) const fn new() -> Self {
        Self {
            first: Cell::new(None),
            last: Cell::new(None),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.get().is_none()
    }

    /// Adds an entry that is in no queue.
    ///
    /// # Safety
    /// The caller removes the entry before it is dropped, unless it was taken.
    pub(crate) unsafe fn push(&self, entry: Pin<&Entry<P>>) {
        debug_assert_eq!(entry.standing(), Standing::Out);
        let this = NonNull::from(entry.get_ref());
        let last = self.last.replace(Some(this));
        entry.standing.set(Standing::Queued);
        entry.is_known.set(true);
        entry.previous.set(last);
        entry.next.set(None);
        match last {
            // SAFETY: see `entries`.
            Some(last) => unsafe { last.as_ref() }.next.set(Some(this)),
            None => self.first.set(Some(this)),
        }
    }

    /// Takes an entry out of this queue, wherever in it it stands.
    pub(crate) fn remove(&self, entry: &Entry<P>) {
        debug_assert_eq!(entry.standing(), Standing::Queued);
        let (previous, next) = (entry.previous.take(), entry.next.take());
        match previous {
            // SAFETY: see `entries`.
            Some(previous) => unsafe { previous.as_ref() }.next.set(next),
            None => self.first.set(next),
        }
        match next {
            // SAFETY: see `entries`.
            Some(next) => unsafe { next.as_ref() }.previous.set(previous),
            None => self.last.set(previous),
        }
        entry.standing.set(Standing::Out);
    }

    /// All entries, in order of arrival. The queue must not change meanwhile.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry<P>> {
        let mut next = self.first.get();
        core::iter::from_fn(move || {
            // SAFETY: entries are pinned, and whoever pushed one removes it before it is dropped;
            // so every pointer in the list is good. One that was leaked stays where it is for ever.
            let entry = unsafe { next?.as_ref() };
            next = entry.next.get();
            Some(entry)
        })
    }

    /// Takes the most urgent by its level now, the first among equals. O(number of entries).
    pub(crate) fn take_most_urgent(&self) -> Option<&Entry<P>> {
        let entry = self.entries().min_by_key(|entry| entry.waiter.level())?;
        self.remove(entry);
        Some(entry)
    }

    /// Takes the one that has waited longest.
    pub(crate) fn take_first(&self) -> Option<&Entry<P>> {
        let entry = self.entries().next()?;
        self.remove(entry);
        Some(entry)
    }
}
