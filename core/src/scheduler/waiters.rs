//! Urgency on loan, and the end of a wait: the scheduler's part of [`crate::waiter`] (rules I1 to I9).

use core::ptr::NonNull;

use super::Scheduler;
use crate::block::{BlockRef, Flags};
use crate::priority::Priority;
use crate::task::{Panic, contain, isolate, resume};
use crate::waiter::{Loans, Waiter, Wakeup};

/// The waiters that `block` is part of, on either side, each also by the pointer with which its wait began. The list must not change
/// meanwhile, but that the one given last may be ended.
fn waiters<'a>(block: BlockRef) -> impl Iterator<Item = (NonNull<Waiter>, &'a Waiter)> {
    let mut next = block.waiters.get();
    core::iter::from_fn(move || {
        let this = next?;
        // SAFETY: waiters in a list are pinned, and unlinked before they are dropped.
        let waiter = unsafe { this.as_ref() };
        next = waiter.after(block);
        Some((this, waiter))
    })
}

/// The level that `block` has by itself and by what is lent to it.
fn effective_level(block: BlockRef) -> Priority {
    waiters(block)
        .filter_map(|(_, waiter)| waiter.lender())
        .filter(|&lender| lender != block)
        .fold(block.base(), |level, lender| level.min(lender.level()))
}

impl Scheduler {
    /// Recomputes the effective level of `block`, and of all to whom it lends by that (rules I2, I3).
    ///
    /// In whichever direction the level goes, each coroutine changes its own once at most: all that follow are at the level that
    /// changes first.
    #[inline]
    pub(crate) fn refresh_level(&self, block: BlockRef) {
        if block.waiters.get().is_some() {
            self.refresh_levels(block);
        } else if block.level() != block.base() {
            self.move_to_level(block, block.base());
        }
    }

    #[inline(never)]
    fn refresh_levels(&self, mut block: BlockRef) {
        let mut level = effective_level(block);
        let mut loans = Loans::new();
        loop {
            // The first loan goes on here, and the others wait, before those that wait already: so the coroutines change in the order of
            // the chain.
            let mut first = None;
            if level != block.level() {
                self.move_to_level(block, level);
                let mut last = None;
                for (this, waiter) in waiters(block) {
                    if waiter.lender() != Some(block) {
                        continue;
                    }
                    match waiter.borrower() {
                        Some(borrower) if first.is_none() => first = Some((level, borrower)),
                        Some(_) => {
                            if loans.add(waiter, last) {
                                last = Some(waiter);
                            }
                        }
                        None => {
                            if let Some(tell) = waiter.tell() {
                                // SAFETY: it is that of the follower that the waiter is part of, and the pointer reaches all of it.
                                unsafe { tell(this, level) }
                            }
                        }
                    }
                }
            }
            let Some((lent, borrower)) = first.or_else(|| loans.take()) else {
                return;
            };
            block = borrower;
            level = if lent.is_more_urgent_than(block.level()) {
                lent
            } else {
                effective_level(block)
            };
        }
    }

    /// Ends all waits that `block` is part of. Its slot is not given back meanwhile.
    ///
    /// If a waker panics, the others are woken all the same, and the first panic goes on after that.
    #[inline(never)]
    pub(super) fn end_waiters(&self, block: BlockRef) {
        self.end_waiters_by(block, |wakeup| {
            if let Err(panic) = self.wake_foreign(block, wakeup) {
                self.end_waiters_after(block, panic);
            }
        });
    }

    /// Ends the waits that are left after a waker has panicked.
    #[cold]
    fn end_waiters_after(&self, block: BlockRef, first: Panic) -> ! {
        self.end_waiters_by(block, |wakeup| {
            if let Err(panic) = self.wake_foreign(block, wakeup) {
                self.aside(|| contain(move || drop(panic)));
            }
        });
        if block.has(Flags::DISCARDABLE) && !block.has(Flags::HANDLE) {
            self.discard(block);
        }
        resume(first)
    }

    /// Ends all waits that `block` is part of. `wake` is called for each wakeup that is not simply that of a coroutine.
    #[inline(always)]
    fn end_waiters_by(&self, block: BlockRef, wake: impl Fn(Wakeup)) {
        // From now on nothing is lent to it.
        block.set_level(block.base());
        while let Some(waiter) = block.waiters.get() {
            // SAFETY: as in `waiters`.
            let waiter = unsafe { waiter.as_ref() };
            if waiter.lender() == Some(block) {
                // The waker stays: what waits may be a future that outlives the coroutine that has polled it.
                waiter.end_loan();
                continue;
            }
            // The lender's part stays: who waits for a lock goes on waiting if the guard has outlived `block`.
            waiter.take_borrower();
            match waiter.take_wakeup() {
                Wakeup::Coroutine(lender) => self.wake(lender),
                other => wake(other),
            }
        }
    }

    /// Calls a waker that may do anything, and among that drop the handle of `block`: the slot stays.
    #[inline(never)]
    fn wake_foreign(&self, block: BlockRef, wakeup: Wakeup) -> Result<(), Panic> {
        let discardable = block.has(Flags::DISCARDABLE);
        block.remove(Flags::DISCARDABLE);
        let result = isolate(|| wakeup.wake(Some(self)));
        if discardable {
            block.insert(Flags::DISCARDABLE);
        }
        result
    }
}
