//! What waits for what, what to wake, and priority inheritance (rules I1 to I8).
//!
//! A [`Waiter`] is part of a future that waits. It knows the task that waits (the *lender*), and
//! the one that it waits for, if any (the *borrower*): the lender donates its level to it. Each
//! task heads one list of the waiters that it is part of, on either side.
//!
//! Everything here requires masked interrupts, unless it says otherwise. So interrupts wait for the
//! longest operation: a change of level visits the waits of each task along the chain.
//!
//! A program that neither joins nor locks does not contain this code: [`HOOKS`] are set where a
//! wait begins.

use core::cell::Cell;
use core::marker::PhantomPinned;
use core::ptr;
use core::task::Waker;

use corank::Priority;

use crate::critical;
use crate::task::Header;

/// One wait. Pinned in its future, which ends the wait before it is dropped.
pub(crate) struct Waiter {
    pub(crate) state: Cell<WaitState>,
    waker: Cell<Option<Waker>>,
    lender: Cell<Option<&'static Header>>,
    borrower: Cell<Option<&'static Header>>,
    /// The next in the lender's list.
    next_of_lender: Cell<*const Waiter>,
    /// The next in the borrower's list.
    next_of_borrower: Cell<*const Waiter>,
    /// The next in the queue of a primitive.
    pub(crate) next: Cell<*const Waiter>,
    /// The next whose borrower's level is to be recomputed, or the waiter itself at the end; null
    /// if it is in no such list.
    changed: Cell<*const Waiter>,
    _pinned: PhantomPinned,
}

/// The state of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WaitState {
    /// Not waiting.
    Out,
    /// In a queue.
    Queued,
    /// It has been given what it waited for and has not been polled since.
    Granted,
}

/// What only a program with waits contains.
struct Hooks {
    refresh: Cell<Option<fn(&Header)>>,
    end_all: Cell<Option<EndAll>>,
}

/// Ends the waits of a task, and returns what [`Header::retire`] does.
type EndAll = fn(&Header) -> bool;

// SAFETY: touched with interrupts masked.
unsafe impl Sync for Hooks {}

static HOOKS: Hooks = Hooks {
    refresh: Cell::new(None),
    end_all: Cell::new(None),
};

/// Recomputes the level of a task, and of all to which it donates by that (rules I2, I3).
pub(crate) fn refresh_level(task: &Header) {
    match HOOKS.refresh.get() {
        Some(refresh) if !task.waiters.get().is_null() => refresh(task),
        _ => {
            set_level(task, task.base.get());
        }
    }
}

/// Ends all waits of a task that has exited (rules I4, X6), and retires it. Without masked
/// interrupts.
pub(crate) fn end_all(task: &Header) -> bool {
    match HOOKS.end_all.get() {
        Some(end_all) => end_all(task),
        None => critical(|| task.retire()),
    }
}

/// Sets the level of a task, if it is another one. Returns false if it is the same.
fn set_level(task: &Header, level: u8) -> bool {
    let changes = task.level.get() != level;
    if changes {
        task.scheduler().set_level(task, level);
    }
    changes
}

fn waiters(task: &Header) -> impl Iterator<Item = &Waiter> {
    let mut next = task.waiters.get();
    core::iter::from_fn(move || {
        // SAFETY: waiters in a list are pinned, and unlinked before they are dropped.
        let waiter = unsafe { next.as_ref() }?;
        next = waiter.link(task).get();
        Some(waiter)
    })
}

/// Recomputes levels along the chain, each wait once.
fn refresh_levels(task: &Header) {
    let (mut first, mut last): (*const Waiter, *const Waiter) = (ptr::null(), ptr::null());
    let mut task = task;
    loop {
        let lent = waiters(task)
            .filter(|waiter| !waiter.is_lender(task))
            .map(|waiter| waiter.level().level());
        let level = lent.fold(task.base.get(), u8::min);
        if set_level(task, level) {
            for waiter in waiters(task) {
                let listed = !waiter.changed.get().is_null();
                if listed || !waiter.is_lender(task) || waiter.borrower.get().is_none() {
                    continue;
                }
                waiter.changed.set(waiter);
                // SAFETY: as in `waiters`; no wait ends meanwhile.
                match unsafe { last.as_ref() } {
                    Some(last) => last.changed.set(waiter),
                    None => first = waiter,
                }
                last = waiter;
            }
        }
        // SAFETY: as above.
        let Some(waiter) = (unsafe { first.as_ref() }) else {
            return;
        };
        let next = waiter.changed.replace(ptr::null());
        first = if ptr::eq(next, waiter) {
            last = ptr::null();
            ptr::null()
        } else {
            next
        };
        if let Some(borrower) = waiter.borrower.get() {
            task = borrower;
        }
    }
}

/// Ends the waits that a task is part of, and wakes what waits for its exit. Returns what
/// [`Header::retire`] does, which is called in the step that ends the last wait: whatever is woken
/// in between waits again.
fn end_waits(task: &Header) -> bool {
    loop {
        let (waker, end) = critical(|| {
            let mut waker = None;
            // SAFETY: as in `waiters`.
            if let Some(waiter) = unsafe { task.waiters.get().as_ref() } {
                if waiter.is_lender(task) {
                    // Its future outlives the task that polled it.
                    waiter.end_loan();
                } else {
                    waiter.take_borrower();
                    waker = waiter.waker.take();
                }
            }
            let is_last = task.waiters.get().is_null();
            (waker, is_last.then(|| task.retire()))
        });
        if let Some(waker) = waker {
            waker.wake();
        }
        if let Some(end) = end {
            return end;
        }
    }
}

impl Waiter {
    pub(crate) const fn new() -> Self {
        Self {
            state: Cell::new(WaitState::Out),
            waker: Cell::new(None),
            lender: Cell::new(None),
            borrower: Cell::new(None),
            next_of_lender: Cell::new(ptr::null()),
            next_of_borrower: Cell::new(ptr::null()),
            next: Cell::new(ptr::null()),
            changed: Cell::new(ptr::null()),
            _pinned: PhantomPinned,
        }
    }

    pub(crate) fn lender(&self) -> Option<&'static Header> {
        self.lender.get()
    }

    /// Tests whether a task's list has it. May be called by its future without masking: then only
    /// the end of a wait may come in between, after which [`end`](Self::end) does nothing.
    #[inline]
    pub(crate) fn takes_part(&self) -> bool {
        self.lender.get().is_some() || self.borrower.get().is_some()
    }

    fn is_lender(&self, task: &Header) -> bool {
        self.lender
            .get()
            .is_some_and(|lender| ptr::eq(lender, task))
    }

    /// Returns the level of what waits; the default level if that is no task.
    pub(crate) fn level(&self) -> Priority {
        self.lender
            .get()
            .map_or(Priority::DEFAULT, Header::priority)
    }

    fn link(&self, task: &Header) -> &Cell<*const Waiter> {
        if self.is_lender(task) {
            &self.next_of_lender
        } else {
            &self.next_of_borrower
        }
    }

    /// Lets the task `lender` wait from now on, and donate to `borrower`. The waiter is pinned.
    ///
    /// Returns the former waker, to be dropped without masking.
    #[must_use]
    pub(crate) fn wait(
        &self,
        waker: Waker,
        lender: Option<&'static Header>,
        borrower: Option<&'static Header>,
    ) -> Option<Waker> {
        let same =
            |a: Option<&Header>, b: Option<&Header>| a.map(ptr::from_ref) == b.map(ptr::from_ref);
        if !same(self.lender.get(), lender) {
            self.end_loan();
            self.set_lender(lender);
        }
        if !same(self.borrower.get(), borrower) {
            self.lend_to(borrower);
            if let Some(borrower) = borrower {
                refresh_level(borrower);
            }
        }
        self.waker.replace(Some(waker))
    }

    fn set_lender(&self, lender: Option<&'static Header>) {
        self.lender.set(lender);
        if let Some(lender) = lender {
            HOOKS.refresh.set(Some(refresh_levels));
            HOOKS.end_all.set(Some(end_waits));
            self.next_of_lender.set(lender.waiters.replace(self));
        }
    }

    /// Donates to `borrower` instead of the former one, which is returned. The caller refreshes the
    /// levels of both.
    pub(crate) fn lend_to(&self, borrower: Option<&'static Header>) -> Option<&'static Header> {
        let old = self.take_borrower();
        if let Some(borrower) = borrower.filter(|borrower| !self.is_lender(borrower)) {
            HOOKS.end_all.set(Some(end_waits));
            HOOKS.refresh.set(Some(refresh_levels));
            self.borrower.set(Some(borrower));
            self.next_of_borrower.set(borrower.waiters.replace(self));
        }
        old
    }

    fn take_borrower(&self) -> Option<&'static Header> {
        let borrower = self.borrower.get()?;
        self.unlink(borrower);
        self.borrower.set(None);
        Some(borrower)
    }

    fn unlink(&self, task: &Header) {
        let mut at = &task.waiters;
        while !ptr::eq(at.get(), self) {
            // SAFETY: as in `waiters`; the waiter is in the list.
            at = unsafe { &*at.get() }.link(task);
        }
        at.set(self.link(task).get());
    }

    /// Ends the donation and the lender's part.
    fn end_loan(&self) {
        let borrower = self.take_borrower();
        if let Some(lender) = self.lender.get() {
            self.unlink(lender);
            self.lender.set(None);
        }
        if let Some(borrower) = borrower {
            refresh_level(borrower);
        }
    }

    /// Ends the wait, after which nothing refers to the waiter. Its waker stays for
    /// [`take_waker`](Self::take_waker).
    pub(crate) fn end(&self) {
        self.state.set(WaitState::Out);
        self.end_loan();
    }

    /// Returns the waker, to be woken or dropped without masking.
    pub(crate) fn take_waker(&self) -> Option<Waker> {
        self.waker.take()
    }
}
