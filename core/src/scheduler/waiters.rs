//! Urgency on loan, and the end of a wait: the scheduler's part of [`crate::waiter`] (rules I1 to I9).

use core::ptr::NonNull;

use super::Scheduler;
use crate::block::BlockRef;
use crate::priority::Priority;
use crate::task::{Panic, isolate};
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
    pub(crate) fn refresh_level(&self, block: BlockRef) {
        let mut loans = Loans::new();
        self.change_level(block, effective_level(block), &mut loans);
        while let Some(loan) = loans.take() {
            let (Some(lender), Some(borrower)) = (loan.lender(), loan.borrower()) else {
                continue;
            };
            if lender.level().is_more_urgent_than(borrower.level()) {
                self.change_level(borrower, lender.level(), &mut loans);
            } else if borrower.level() != borrower.base() {
                self.change_level(borrower, effective_level(borrower), &mut loans);
            }
        }
    }

    /// Moves `block` to `level`, tells those who work for it outside, and adds the loans by which the change goes on.
    fn change_level(&self, block: BlockRef, level: Priority, loans: &mut Loans) {
        if level == block.level() {
            return;
        }
        self.move_to_level(block, level);
        // In the order of the list, and before the loans that are there: so the coroutines change in the order of the chain.
        let mut last = None;
        for (this, waiter) in waiters(block) {
            if waiter.lender() != Some(block) {
                continue;
            }
            if let Some(tell) = waiter.tell() {
                // SAFETY: it is that of the follower that the waiter is part of, and the pointer reaches all of it.
                unsafe { tell(this, level) }
            } else if loans.add(waiter, last) {
                last = Some(waiter);
            }
        }
    }

    /// `block` has exited, or its scheduler goes: those who wait for it are woken, and it waits for nothing. Its slot is not given back meanwhile.
    /// If a waker panics, the others are woken all the same, and what the first panic carried is for the caller to let go on.
    #[must_use]
    pub(crate) fn end_waiters(&self, block: BlockRef) -> Option<Panic> {
        // From now on nobody lends to it.
        block.set_level(block.base());
        // Before any code of the user's runs, which may change the list. The waker stays where it is: a future that
        // waits may outlive the coroutine that has polled it.
        for (_, waiter) in waiters(block) {
            if waiter.lender() == Some(block) {
                waiter.end_loan();
            }
        }
        let mut panicked = None;
        while let Some(waiter) = block.waiters.get() {
            // SAFETY: as in `waiters`.
            let waiter = unsafe { waiter.as_ref() };
            // The lender's part stays: who waits for a lock goes on waiting if the guard has outlived `block`.
            waiter.take_borrower();
            match waiter.take_wakeup() {
                Wakeup::Coroutine(lender) => self.wake(lender),
                other => {
                    if let Err(panic) = isolate(|| other.wake(Some(self))) {
                        panicked.get_or_insert(panic);
                    }
                }
            }
        }
        panicked
    }
}
