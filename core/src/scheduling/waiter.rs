//! What waits for what, what to wake, and priority inheritance (rules I1 to I6).
//!
//! A [`Waiter`] lives inside a future that waits: for a coroutine to exit, for a lock, for a
//! permit. It knows the coroutine that waits (the *lender*), so that it can be woken, and so that
//! its live level counts. Where it waits for another coroutine (the *borrower*: the one awaited,
//! the holder of the lock) the lender donates its level to that one for as long as it waits:
//!
//! - effective level of a coroutine = the most urgent of its own level and its lenders' effective
//!   levels;
//! - when that changes, the waiters in which it is the lender pass the change on: to the borrower,
//!   or to what works for the lender outside the executor (a [`PriorityListener`]).
//!
//! Each control block heads one list of all waiters that it takes part in, on either side.
//!
//! Cost: a change visits the loans of those coroutines whose level changes, each once, in the order
//! of the chain. Its stack has constant size, however long the chain is. So it is at most linear in
//! the number of coroutines that wait for each other; on a shared executor the other workers wait
//! meanwhile. Where the level becomes more urgent a loan costs O(1). Where it becomes less urgent,
//! it costs O(waiters of the borrower), and so does the beginning or the end of a wait. In a cycle
//! of coroutines that wait for each other (a deadlock) it ends when no level changes any more.
//!
//! Everything here belongs to the owner: the executor's thread or, if the executor is shared, the
//! thread that holds its scheduler lock. A `Waiter` is neither `Send` nor `Sync`; what it is part
//! of may be, and then touches it as the owner only.

use core::cell::Cell;
use core::marker::PhantomPinned;
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::Context;

use crate::callback::c_fn;
use crate::priority::Priority;
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::block::BlockRef;
use crate::scheduling::wake::stored_waker::{StoredWaker, WakerCell};
use crate::scheduling::wake::waker;

/// One wait of a future for a coroutine, or for something else. Pinned in its future; dropping it
/// ends the wait.
#[repr(C)]
pub(crate) struct Waiter {
    /// The coroutine that waits. `None` after it has exited, or when what waits is no coroutine.
    lender: Cell<Option<BlockRef>>,
    borrower: Cell<Option<BlockRef>>,
    /// The waker to wake where that is not simply the lender's: what polls may be a combinator with
    /// wakers of its own, or no coroutine at all.
    waker: WakerCell,
    as_lender: Links,
    as_borrower: Links,
    extra: Cell<Extra>,
    _pinned: PhantomPinned,
}

/// The part of a waiter that differs between a [`PriorityListener`](crate::PriorityListener)'s
/// waiter and one that lends to a coroutine. The first never has a borrower.
#[repr(C)]
#[derive(Clone, Copy)]
union Extra {
    /// Called when the lender's level changes. Never replaced.
    tell: Option<Tell>,
    /// The next in a list of [`Loans`], or the waiter itself if it is the last there; `None` while
    /// it is in no such list.
    next: Option<NonNull<Waiter>>,
}

/// Calls a listener, by the waiter that is part of it, with its lender's new level.
pub(crate) type Tell = c_fn!((NonNull<Waiter>, Priority));

/// What a waiter waits for.
pub(crate) enum Wants {
    /// The wait is over.
    Nothing,
    /// Something that no coroutine is known to hold.
    Something,
    /// Something that this coroutine has, or the coroutine itself; it is not the one that waits.
    Of(BlockRef),
}

/// What to wake.
pub(crate) enum Wakeup {
    None,
    Coroutine(BlockRef),
    Waker(StoredWaker),
}

impl Wakeup {
    /// Wakes it, by the owner of `scheduler`, if the waiter belongs to one.
    pub(crate) fn wake(self, scheduler: Option<&Scheduler>) {
        match self {
            Self::None => {}
            Self::Coroutine(block) => {
                let scheduler = Scheduler::of(block);
                scheduler.locked(|| scheduler.wake(block));
            }
            Self::Waker(waker) => unlocked(scheduler, || waker.wake()),
        }
    }
}

/// Loans by which a change of level is passed on: a list through the waiters themselves.
///
/// So it takes neither memory nor, as recursion would, a stack as deep as the chain of waiters. A
/// waiter is in one such list at most.
///
/// No code that could end a wait runs while there is one. If a callback for a level panics, the
/// list is emptied.
pub(crate) struct Loans(Option<NonNull<Waiter>>);

impl Loans {
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    /// Adds the loan of `waiter`, unless it is in the list; returns true if it was added.
    ///
    /// It is added behind `after`, which is in the list, or in front.
    pub(crate) fn add(&mut self, waiter: &Waiter, after: Option<&Waiter>) -> bool {
        // SAFETY: a waiter with a borrower has `next`.
        if waiter.borrower.get().is_none() || unsafe { waiter.extra.get().next }.is_some() {
            return false;
        }
        let this = NonNull::from(waiter);
        let next = match after {
            // SAFETY: as above.
            Some(after) => unsafe { after.extra.get().next }.filter(|&next| next != after.into()),
            None => self.0,
        };
        let next = next.unwrap_or(this);
        waiter.extra.set(Extra { next: Some(next) });
        match after {
            Some(after) => after.extra.set(Extra { next: Some(this) }),
            None => self.0 = Some(this),
        }
        true
    }

    /// Takes the first loan: the level of its lender, and the borrower.
    pub(crate) fn take(&mut self) -> Option<(Priority, BlockRef)> {
        let first = self.take_first()?;
        Some((first.level(), first.borrower.get()?))
    }

    fn take_first(&mut self) -> Option<&Waiter> {
        let this = self.0?;
        // SAFETY: waiters that lend are pinned, and nothing ends a wait meanwhile; they have
        // `next`.
        let (first, next) = unsafe { (this.as_ref(), this.as_ref().extra.get().next) };
        first.extra.set(Extra { next: None });
        self.0 = next.filter(|&next| next != this);
        Some(first)
    }
}

impl Drop for Loans {
    fn drop(&mut self) {
        while self.take_first().is_some() {}
    }
}

#[repr(C)]
struct Links {
    previous: Cell<Option<NonNull<Waiter>>>,
    next: Cell<Option<NonNull<Waiter>>>,
}

impl Links {
    const fn new() -> Self {
        Self {
            previous: Cell::new(None),
            next: Cell::new(None),
        }
    }
}

impl Waiter {
    pub(crate) const fn new() -> Self {
        Self::of_listener(None)
    }

    pub(crate) const fn of_listener(tell: Option<Tell>) -> Self {
        Self {
            lender: Cell::new(None),
            borrower: Cell::new(None),
            waker: WakerCell::new(),
            as_lender: Links::new(),
            as_borrower: Links::new(),
            extra: Cell::new(Extra { tell }),
            _pinned: PhantomPinned,
        }
    }

    /// Begins the wait of what polls; `wants` says for which coroutine, if for one.
    ///
    /// Returns false if `wants` says that there is nothing to wait for any more. It is asked last,
    /// because the clone of a foreign waker may have done anything, and other workers as well. To
    /// be called in each poll that ends pending: the waker may be another one each time.
    ///
    /// By the owner of `scheduler`, to which the waiter belongs; `None` if it belongs to one
    /// thread, whose coroutine `lender` is then.
    #[inline]
    pub(crate) fn wait(
        self: Pin<&Self>,
        cx: &Context<'_>,
        scheduler: Option<&Scheduler>,
        lender: Option<BlockRef>,
        wants: impl FnOnce() -> Wants,
    ) -> bool {
        let this = NonNull::from(self.get_ref());
        self.wait_at(this, cx, scheduler, lender, wants)
    }

    /// Begins the wait as [`wait`](Self::wait) does, where the waiter is part of a listener.
    ///
    /// `this` points to the waiter, and is made of a reference to the whole listener, because
    /// [`Tell`] reaches that by it.
    #[inline(always)]
    pub(crate) fn wait_at(
        self: Pin<&Self>,
        this: NonNull<Self>,
        cx: &Context<'_>,
        scheduler: Option<&Scheduler>,
        lender: Option<BlockRef>,
        wants: impl FnOnce() -> Wants,
    ) -> bool {
        self.remember_waker(this, cx, lender, scheduler);
        let borrower = match wants() {
            Wants::Nothing => return false,
            Wants::Something => None,
            Wants::Of(borrower) => Some(borrower),
        };
        self.wait_as(this, lender, borrower);
        true
    }

    /// Does the owner's part of [`wait_at`](Self::wait_at), for a `lender` that need not be what
    /// polls.
    #[inline(always)]
    pub(crate) fn wait_as(
        self: Pin<&Self>,
        this: NonNull<Self>,
        lender: Option<BlockRef>,
        borrower: Option<BlockRef>,
    ) {
        if self.lender.get() == lender && self.borrower.get() == borrower {
            return;
        }
        self.end_loan();
        self.lender.set(lender);
        self.borrower.set(borrower);
        if let Some(lender) = lender {
            link(lender, this);
        }
        if let Some(borrower) = borrower {
            link(borrower, this);
            if let Some(lender) = lender {
                Scheduler::of(borrower).record_donation(lender, borrower);
            }
            // One that was demoted is passed over by its equals, unless it inherits from them.
            if lender.is_some_and(|lender| {
                lender.level().is_more_urgent_than(borrower.level())
                    || !borrower.base_state.get().is_plain()
            }) {
                Scheduler::of(borrower).refresh_level(borrower);
            }
        }
    }

    #[inline(always)]
    fn remember_waker(
        self: Pin<&Self>,
        this: NonNull<Self>,
        cx: &Context<'_>,
        lender: Option<BlockRef>,
        scheduler: Option<&Scheduler>,
    ) {
        let is_lender = lender.is_some_and(|lender| waker::is_of(cx.waker(), lender));
        if !is_lender || !self.waker.is_empty() {
            self.change_waker(this, cx, lender, scheduler, is_lender);
        }
    }

    /// Changes the waker where it is not simply the lender that is woken, or was not before.
    #[cold]
    #[inline(never)]
    fn change_waker(
        self: Pin<&Self>,
        this: NonNull<Self>,
        cx: &Context<'_>,
        lender: Option<BlockRef>,
        scheduler: Option<&Scheduler>,
        is_lender: bool,
    ) {
        if is_lender {
            let old = self.waker.replace(None);
            unlocked(scheduler, || drop(old));
        } else if !self.waker.will_wake(cx.waker()) {
            // Its level counts already, if others choose among the waiters meanwhile.
            self.wait_as(this, lender, self.borrower.get());
            let new = unlocked(scheduler, || StoredWaker::new(cx.waker().clone()));
            let old = self.waker.replace(Some(new));
            unlocked(scheduler, || drop(old));
        }
    }

    /// Takes what to wake so that the wait goes on.
    ///
    /// Call this first and wake last, when nothing refers to the waiter any more. A waker may run
    /// any code, which may drop the future that the waiter is part of.
    pub(crate) fn take_wakeup(&self) -> Wakeup {
        match (self.waker.replace(None), self.lender.get()) {
            (Some(waker), _) => Wakeup::Waker(waker),
            (None, Some(lender)) => Wakeup::Coroutine(lender),
            (None, None) => Wakeup::None,
        }
    }

    /// Returns the coroutine that waits, if it is one.
    pub(crate) fn lender(&self) -> Option<BlockRef> {
        self.lender.get()
    }

    /// Returns the coroutine that it waits for, if it is one.
    pub(crate) fn borrower(&self) -> Option<BlockRef> {
        self.borrower.get()
    }

    /// Returns the callback of the listener that it is part of, if it is.
    pub(crate) fn tell(&self) -> Option<Tell> {
        if self.borrower.get().is_some() {
            return None;
        }
        // SAFETY: without a borrower it is in no list of loans; `tell` is written when it is made,
        // and `next` goes back to `None`, which is that of `tell` as well.
        unsafe { self.extra.get().tell }
    }

    /// Returns the next waiter in the list that `block` heads.
    pub(crate) fn after(&self, block: BlockRef) -> Option<NonNull<Waiter>> {
        self.links(block).next.get()
    }

    /// Returns the live level of what waits; the default for what is no coroutine.
    pub(crate) fn level(&self) -> Priority {
        self.lender
            .get()
            .map_or(Priority::DEFAULT, |lender| lender.level())
    }

    /// Ends the wait: what was lent is given back. Does nothing the second time.
    ///
    /// The coroutine that the waiter belongs to is read before its scheduler is locked. What may be
    /// dropped while another worker ends its wait (a handle, an
    /// [`Entry`](crate::sync::queue::Entry)) uses [`end_held`](Self::end_held) before.
    pub(crate) fn end(&self) {
        let old = match self.lender.get().or(self.borrower.get()) {
            Some(owned) => Scheduler::of(owned).locked(|| self.end_held()),
            None => self.end_held(),
        };
        drop(old);
    }

    /// Ends the wait, by the owner; returns the waker that remains, for the caller to drop.
    #[must_use]
    pub(crate) fn end_held(&self) -> Option<StoredWaker> {
        self.end_loan();
        self.waker.replace(None)
    }

    /// Ends both parts, and keeps the waker: what waits may be a future that outlives the coroutine
    /// that polled it.
    pub(crate) fn end_loan(&self) {
        let borrower = self.take_borrower();
        if let Some(lender) = self.lender.get() {
            unlink(lender, NonNull::from(self));
            self.lender.set(None);
        }
        if let Some(borrower) = borrower {
            Scheduler::of(borrower).refresh_level(borrower);
        }
    }

    /// Ends the borrower's part alone, without recomputing its level.
    pub(crate) fn take_borrower(&self) -> Option<BlockRef> {
        let borrower = self.borrower.get()?;
        unlink(borrower, NonNull::from(self));
        self.borrower.set(None);
        if let Some(lender) = self.lender.get() {
            Scheduler::of(borrower).record_donation_end(lender, borrower);
        }
        Some(borrower)
    }

    /// Lends to `borrower` instead of the former one, which is returned.
    ///
    /// The caller refreshes the levels of both, once for however many waiters it moves.
    pub(crate) fn lend_to(&self, borrower: Option<BlockRef>) -> Option<BlockRef> {
        match self.lender.get() {
            Some(lender) => Scheduler::of(lender).locked(|| self.lend_to_held(borrower)),
            None => self.lend_to_held(borrower),
        }
    }

    fn lend_to_held(&self, borrower: Option<BlockRef>) -> Option<BlockRef> {
        let old = self.take_borrower();
        if let (Some(lender), Some(borrower)) = (self.lender.get(), borrower)
            && lender != borrower
            && lender.scheduler() == borrower.scheduler()
        {
            self.borrower.set(Some(borrower));
            link(borrower, NonNull::from(self));
            Scheduler::of(borrower).record_donation(lender, borrower);
        }
        old
    }

    /// Returns the links of the list that `block` heads.
    fn links(&self, block: BlockRef) -> &Links {
        if self.lender.get() == Some(block) {
            &self.as_lender
        } else {
            &self.as_borrower
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs code of the user's without the scheduler lock, for a waiter of `scheduler`.
#[inline]
fn unlocked<R>(scheduler: Option<&Scheduler>, act: impl FnOnce() -> R) -> R {
    match scheduler {
        Some(scheduler) => scheduler.unlocked(act),
        None => act(),
    }
}

fn link(block: BlockRef, waiter: NonNull<Waiter>) {
    // SAFETY: waiters in a list are pinned, and unlinked before they are dropped, so every pointer
    // in it is good.
    unsafe {
        let links = waiter.as_ref().links(block);
        let first = block.waiters.get();
        links.previous.set(None);
        links.next.set(first);
        if let Some(first) = first {
            first.as_ref().links(block).previous.set(Some(waiter));
        }
    }
    block.waiters.set(Some(waiter));
}

fn unlink(block: BlockRef, waiter: NonNull<Waiter>) {
    // SAFETY: as in `link`.
    unsafe {
        let links = waiter.as_ref().links(block);
        let (previous, next) = (links.previous.take(), links.next.take());
        match previous {
            Some(previous) => previous.as_ref().links(block).next.set(next),
            None => block.waiters.set(next),
        }
        if let Some(next) = next {
            next.as_ref().links(block).previous.set(previous);
        }
    }
}
