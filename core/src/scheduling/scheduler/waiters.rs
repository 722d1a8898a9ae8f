//! Priority inheritance, and the end of a wait: the scheduler's part of
//! [`crate::scheduling::waiter`] (rules I1 to I9).

use core::ptr::NonNull;

use super::Scheduler;
use crate::priority::Priority;
use crate::scheduling::table::block::{BlockRef, Flags};
use crate::scheduling::table::task::{Panic, contain, isolate, resume};
use crate::scheduling::waiter::{Loans, Waiter, Wakeup};

/// Returns the waiters that `block` is part of, on either side.
///
/// Each comes also as the pointer with which its wait began. The list must not change meanwhile,
/// except that the waiter given last may be ended.
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

/// What the waiters of a coroutine say about it.
struct Loaned {
    /// The level that it has by itself and by what is donated to it.
    level: Priority,
    /// The coroutine that it lends to, by the first of its waiters that has one.
    borrower: Option<BlockRef>,
    /// Whether more follows its level: further donations, or listeners that are notified of it.
    more: bool,
    /// Whether it belongs in the second queue of the level (rule B10).
    second: bool,
}

impl Loaned {
    /// `own` is the level that the coroutine has by itself.
    #[inline(always)]
    fn of(block: BlockRef, own: Priority) -> Self {
        let (mut level, mut borrower, mut more) = (own, None, false);
        for (_, waiter) in waiters(block) {
            match waiter.lender() {
                Some(lender) if lender == block => match waiter.borrower() {
                    Some(first) if borrower.is_none() => borrower = Some(first),
                    Some(_) => more = true,
                    None => more |= waiter.tell().is_some(),
                },
                Some(lender) => level = level.min(lender.level()),
                None => {}
            }
        }
        Self {
            level,
            borrower,
            more,
            second: false,
        }
    }
}

/// Tests whether what waits for `block` donates this level or a more urgent one.
pub(super) fn inherits(block: BlockRef, level: Priority) -> bool {
    waiters(block).any(|(_, waiter)| {
        (waiter.lender())
            .is_some_and(|lender| lender != block && !level.is_more_urgent_than(lender.level()))
    })
}

/// Passes on that the level of `block` is `level` now, except by the first of its donations.
#[cold]
fn tell_others(block: BlockRef, level: Priority, loans: &mut Loans) {
    let mut first = true;
    let mut last = None;
    for (this, waiter) in waiters(block) {
        if waiter.lender() != Some(block) {
            continue;
        }
        if waiter.borrower().is_some() {
            if !core::mem::take(&mut first) && loans.add(waiter, last) {
                last = Some(waiter);
            }
        } else if let Some(tell) = waiter.tell() {
            // SAFETY: it is that of the listener that the waiter is part of, and the pointer
            // reaches all of it.
            unsafe { tell(this, level) }
        }
    }
}

impl Scheduler {
    /// Recomputes the effective level of `block`, and of all coroutines to which it donates by that
    /// (rules I2, I3).
    ///
    /// In whichever direction the level goes, each coroutine changes its own once at most: all that
    /// follow are at the level that changes first.
    #[inline]
    pub(crate) fn refresh_level(&self, block: BlockRef) {
        let base_state = block.base_state.get();
        if base_state.is_plain() {
            self.refresh_plain_level(block, base_state.base());
        } else if block.waiters.get().is_some() {
            self.refresh_levels(block);
        } else {
            self.refresh_demoted(block);
        }
    }

    /// Does the same for a coroutine of this base level that is not demoted.
    #[inline]
    pub(super) fn refresh_plain_level(&self, block: BlockRef, base: Priority) {
        if block.waiters.get().is_some() {
            self.refresh_levels(block);
        } else {
            self.refresh_alone(block, base);
        }
    }

    /// Sets the effective level of a coroutine without waiters.
    #[inline(never)]
    fn refresh_alone(&self, block: BlockRef, level: Priority) {
        let from = block.level();
        if from != level {
            self.move_to_level(block, from, level, false);
        }
    }

    /// Recomputes the effective level of a coroutine without waiters that may be demoted.
    #[cold]
    fn refresh_demoted(&self, block: BlockRef) {
        let own = self.own_level(block);
        let from = block.level();
        if from != own {
            self.move_to_level(block, from, own, self.is_demoted(block));
        }
    }

    /// Returns what the waiters of a coroutine say about it.
    #[inline(always)]
    fn loaned(&self, block: BlockRef) -> Loaned {
        let base_state = block.base_state.get();
        if base_state.is_plain() {
            Loaned::of(block, base_state.base())
        } else {
            self.loaned_to_demoted(block)
        }
    }

    /// Returns what the waiters say about a coroutine that may be demoted.
    ///
    /// Moves it to the first queue if it has begun to inherit its own level (rule B10).
    #[cold]
    fn loaned_to_demoted(&self, block: BlockRef) -> Loaned {
        let own = self.own_level(block);
        let mut loaned = Loaned::of(block, own);
        loaned.second = self.is_demoted(block) && !inherits(block, own);
        if !loaned.second && loaned.level == block.level() {
            self.leave_second(block);
        }
        loaned
    }

    #[inline(never)]
    fn refresh_levels(&self, mut block: BlockRef) {
        let mut loans = Loans::new();
        let mut loaned = self.loaned(block);
        loop {
            let level = loaned.level;
            let mut next = None;
            let from = block.level();
            if level != from {
                self.move_to_level(block, from, level, loaned.second);
                // The first donation goes on here. The others are queued before those that are
                // queued already, so the coroutines change in the order of the chain.
                next = loaned.borrower.map(|borrower| (level, borrower));
                if loaned.more {
                    tell_others(block, level, &mut loans);
                }
            }
            let Some((lent, borrower)) = next.or_else(|| loans.take()) else {
                return;
            };
            block = borrower;
            loaned = self.loaned(block);
            if lent.is_more_urgent_than(block.level()) {
                loaned.level = lent;
                loaned.second = false;
            }
        }
    }

    /// Ends all waits that `block` is part of.
    ///
    /// Its slot is not given back meanwhile.
    ///
    /// If a waker panics, the others are still woken, and the first panic goes on after that.
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
                self.unlocked(|| {
                    contain(move || {
                        let _dropped = panic;
                    })
                });
            }
        });
        if block.has(Flags::DISCARDABLE) && !block.has(Flags::HANDLE) {
            self.discard(block);
        }
        resume(first)
    }

    /// Ends all waits that `block` is part of.
    ///
    /// `wake` is called for each wakeup that is not simply that of a coroutine.
    #[inline(always)]
    fn end_waiters_by(&self, block: BlockRef, wake: impl Fn(Wakeup)) {
        // From now on nothing is donated to it.
        block.set_level(block.base());
        while let Some(waiter) = block.waiters.get() {
            // SAFETY: as in `waiters`.
            let waiter = unsafe { waiter.as_ref() };
            if waiter.lender() == Some(block) {
                // The waker stays: what waits may be a future that outlives the coroutine that has
                // polled it.
                waiter.end_loan();
                continue;
            }
            // The lender's part stays: a waiter for a lock goes on waiting if the guard has
            // outlived `block`.
            waiter.take_borrower();
            match waiter.take_wakeup() {
                Wakeup::Coroutine(lender) => self.wake(lender),
                other => wake(other),
            }
        }
    }

    /// Calls a waker, which may do anything, such as drop the handle of `block`.
    ///
    /// The slot stays.
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
