//! Urgency on loan, and the end of a wait: the scheduler's part of [`crate::waiter`] (rules I1 to I9).

use core::ptr::NonNull;

use super::Scheduler;
use crate::block::BlockRef;
use crate::waiter::{Tell, Waiter, Wakeup};

/// The part that `block` plays in one of its waiters, and the coroutine on the other side.
enum Part {
    Lends(Option<BlockRef>),
    /// To what is outside: see [`Follower`](crate::Follower).
    LendsOutside(Tell, NonNull<Waiter>),
    Borrows(Option<BlockRef>),
}

/// The waiters of `block`. The list must not change meanwhile.
fn parts(block: BlockRef) -> impl Iterator<Item = Part> {
    let mut next = block.waiters.get();
    core::iter::from_fn(move || {
        let this = next?;
        // SAFETY: waiters in a list are pinned, and unlinked before they are dropped.
        let waiter = unsafe { this.as_ref() };
        next = waiter.after(block);
        Some(match waiter.lender() == Some(block) {
            false => Part::Borrows(waiter.lender()),
            true => match waiter.follower() {
                Some(tell) => Part::LendsOutside(tell, this),
                None => Part::Lends(waiter.borrower()),
            },
        })
    })
}

impl Scheduler {
    /// Recomputes the effective level of `block` and of all to whom it lends.
    pub(crate) fn refresh_level(&self, block: BlockRef) {
        let mut next = Some(block);
        while let Some(block) = next.take() {
            let mut level = block.base();
            for part in parts(block) {
                if let Part::Borrows(Some(lender)) = part {
                    level = level.min(lender.level());
                }
            }
            if level == block.level() {
                return;
            }
            self.move_to_level(block, level);
            // The last borrower is visited by this loop, any others by recursion: most coroutines wait for one thing
            // at a time, so the stack's depth is that of nested `join!`s rather than the length of the chain.
            for part in parts(block) {
                match part {
                    Part::Lends(Some(borrower)) => {
                        if let Some(other) = next.replace(borrower) {
                            self.refresh_level(other);
                        }
                    }
                    // SAFETY: it has a follower.
                    Part::LendsOutside(tell, waiter) => unsafe { tell(waiter, level) },
                    Part::Lends(None) | Part::Borrows(_) => {}
                }
            }
        }
    }

    /// `block` has exited: those who wait for it are woken, and it waits for nothing.
    pub(crate) fn end_waiters(&self, block: BlockRef) {
        // From now on nobody lends to it.
        block.set_level(block.base());
        let generation = block.generation.get();
        while let Some(waiter) = block.waiters.get() {
            // SAFETY: as in `parts`.
            let waiter = unsafe { waiter.as_ref() };
            if waiter.lender() == Some(block) {
                let old = waiter.end_held();
                self.aside(|| drop(old));
                continue;
            }
            // The lender's part stays: who waits for a lock goes on waiting if the guard has outlived `block`.
            waiter.take_borrower();
            match waiter.take_wakeup() {
                Wakeup::Coroutine(lender) => self.wake(lender),
                other => other.wake(Some(self)),
            }
            // That may have dropped the handle, and another coroutine may live in the slot now.
            if block.generation.get() != generation {
                return;
            }
        }
    }
}
