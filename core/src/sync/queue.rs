//! The waiters of a primitive, in order of arrival (rules N1 to N4).

use core::cell::Cell;
use core::marker::PhantomData;
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::Context;

use crate::ownership::Ownership;
#[cfg(feature = "alloc")]
use crate::ownership::Shared;
use crate::scheduling::table::block::BlockRef;
use crate::scheduling::waiter::{Waiter, Wakeup, Wants};

/// The entry of one waiter in a queue.
///
/// It is part of a future, and pinned with it. It belongs to the primitive's owner.
pub(crate) struct Entry<O> {
    pub(crate) waiter: Waiter,
    state: Cell<EntryState>,
    previous: Cell<Option<NonNull<Entry<O>>>>,
    next: Cell<Option<NonNull<Entry<O>>>>,
    /// Whether it was in a queue and has not [ended its wait](Self::end_wait), so that others may
    /// refer to it.
    ///
    /// Touched by its future alone.
    is_known: Cell<bool>,
    _owner: PhantomData<O>,
}

// SAFETY: while others may refer to it, all but `is_known` is touched in the owner's turns only.
// Before and after, its future alone touches it.
#[cfg(feature = "alloc")]
unsafe impl Send for Entry<Shared> {}

/// The state of an entry's wait.
///
/// ```text
///        push            take_most_urgent, take_first
///   Out ──────► Queued ──────────────────────────────► Granted or Refused
///    ▲            │ remove: the future is dropped              │
///    └────────────┴────────────────────────────────────────────┘ the future has seen it
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryState {
    /// Not waiting.
    Out,
    /// In a queue.
    Queued,
    /// It has been given what it waited for and has not been polled since.
    Granted,
    /// It has been refused what it waited for and has not been polled since.
    Refused,
}

impl<O: Ownership> Entry<O> {
    pub(crate) const fn new() -> Self {
        Self {
            waiter: Waiter::new(),
            state: Cell::new(EntryState::Out),
            previous: Cell::new(None),
            next: Cell::new(None),
            is_known: Cell::new(false),
            _owner: PhantomData,
        }
    }

    pub(crate) fn state(&self) -> EntryState {
        self.state.get()
    }

    /// Tests whether its future has anything to do when it is dropped.
    ///
    /// May be called without the owner's turn.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known.get()
    }

    /// Makes the polling code wait from now on, and donate to the coroutine that `borrower` names,
    /// if any.
    ///
    /// Returns false if the wait has ended. Cloning a waker may run any code, and others may have
    /// had their turn meanwhile.
    #[inline(never)]
    pub(crate) fn wait(
        self: Pin<&Self>,
        owner: &O,
        cx: &Context<'_>,
        borrower: impl FnOnce() -> Option<BlockRef>,
    ) -> bool {
        owner.assert_held();
        let lender = owner.current();
        let wants = || match self.state() {
            EntryState::Queued => match borrower().filter(|&borrower| Some(borrower) != lender) {
                Some(borrower) => Wants::Of(borrower),
                // Of no coroutine; also where a coroutine waits for itself, in another branch of a
                // `join!`.
                None => Wants::Something,
            },
            _ => Wants::Nothing,
        };
        // SAFETY: the entry is pinned, and the waiter is part of it.
        let waiter = unsafe { self.map_unchecked(|entry| &entry.waiter) };
        waiter.wait(cx, owner.scheduler(), lender, wants)
    }

    /// Ends the entry's wait, after which nothing else refers to the entry.
    ///
    /// Called when the future has seen how its wait ended, or is dropped.
    pub(crate) fn end_wait(&self, owner: &O) {
        owner.assert_held();
        self.state.set(EntryState::Out);
        if let Some(waker) = self.waiter.end_held() {
            owner.unlocked(|| drop(waker));
        }
        self.is_known.set(false);
    }

    /// Records in an entry that was taken from its queue how its wait ended.
    ///
    /// The caller wakes it, last.
    #[must_use]
    pub(crate) fn finish(&self, state: EntryState) -> Wakeup {
        self.state.set(state);
        self.waiter.take_wakeup()
    }
}

/// What the waiter would do when it is dropped was done by `end_wait`, in the owner's turn.
#[cfg(any(loom, debug_assertions))]
impl<O> Drop for Entry<O> {
    fn drop(&mut self) {
        assert!(
            self.waiter.lender().is_none() && self.waiter.borrower().is_none(),
            "an entry was dropped before its wait ended"
        );
    }
}

/// A list through the entries.
///
/// It may be moved: no entry points to it.
pub(crate) struct Queue<O> {
    first: Cell<Option<NonNull<Entry<O>>>>,
    last: Cell<Option<NonNull<Entry<O>>>>,
}

impl<O: Ownership> Queue<O> {
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
    pub(crate) unsafe fn push(&self, entry: Pin<&Entry<O>>) {
        debug_assert_eq!(entry.state(), EntryState::Out);
        let this = NonNull::from(entry.get_ref());
        let last = self.last.replace(Some(this));
        entry.state.set(EntryState::Queued);
        entry.is_known.set(true);
        entry.previous.set(last);
        entry.next.set(None);
        match last {
            // SAFETY: see `entries`.
            Some(last) => unsafe { last.as_ref() }.next.set(Some(this)),
            None => self.first.set(Some(this)),
        }
    }

    /// Takes an entry out of this queue, at whatever position.
    pub(crate) fn remove(&self, entry: &Entry<O>) {
        debug_assert_eq!(entry.state(), EntryState::Queued);
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
        entry.state.set(EntryState::Out);
    }

    /// Returns all entries, in order of arrival.
    ///
    /// The queue must not change meanwhile.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry<O>> {
        let mut next = self.first.get();
        core::iter::from_fn(move || {
            // SAFETY: entries are pinned, and the code that pushed one removes it before it is
            // dropped. So every pointer in the list is good. An entry that was leaked stays where
            // it is for ever.
            let entry = unsafe { next?.as_ref() };
            next = entry.next.get();
            Some(entry)
        })
    }

    /// Takes the entry with the most urgent level now, the first among equals.
    ///
    /// O(number of entries).
    pub(crate) fn take_most_urgent(&self) -> Option<&Entry<O>> {
        let entry = self.entries().min_by_key(|entry| entry.waiter.level())?;
        self.remove(entry);
        Some(entry)
    }

    /// Takes the entry that has waited longest.
    pub(crate) fn take_first(&self) -> Option<&Entry<O>> {
        let entry = self.entries().next()?;
        self.remove(entry);
        Some(entry)
    }
}
