//! Urgency on loan, and the end of a wait: the scheduler's part of [`crate::waiter`] (rules I1 to I9).

use core::ptr::NonNull;

use super::Scheduler;
use crate::block::{BlockRef, Flags};
use crate::priority::Priority;
use crate::task::{Panic, isolate, resume};
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

    /// `block` has exited: those who wait for it are woken, and it waits for nothing. A waker may drop the handle; the slot is not given to
    /// another coroutine before.
    #[inline]
    pub(super) fn exit_awaited(&self, block: BlockRef) {
        block.insert(Flags::ENDING);
        let panicked = self.end_waiters(block);
        block.remove(Flags::ENDING);
        if !block.has(Flags::HANDLE) {
            self.discard(block);
        }
        if let Some(panic) = panicked {
            resume(panic);
        }
    }

    /// Ends all waits that `block` is part of. Its slot is not given back meanwhile.
    ///
    /// If a waker panics, the others are woken all the same, and what the first panic carried is for the caller to let go on.
    #[must_use]
    #[inline]
    pub(super) fn end_waiters(&self, block: BlockRef) -> Option<Panic> {
        // From now on nobody lends to it.
        block.set_level(block.base());
        let mut panicked = None;
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
                other => self.wake_contained(other, &mut panicked),
            }
        }
        panicked
    }

    #[inline(never)]
    fn wake_contained(&self, wakeup: Wakeup, panicked: &mut Option<Panic>) {
        if let Err(panic) = isolate(|| wakeup.wake(Some(self))) {
            panicked.get_or_insert(panic);
        }
    }
}
