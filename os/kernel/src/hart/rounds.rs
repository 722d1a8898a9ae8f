//! Rounds of the main loops: when all harts have made one, nothing is left of what they did before.

use super::call::{call_all, set_interruptible};
use super::page::{LIMIT, all, count, index, this};
use crate::executor::executor;
use crate::machine::MAX_HARTS;
use core::sync::atomic::{AtomicUsize, Ordering, fence};

/// Waits until everything is over that was being polled, cancelled or dropped on any hart at the
/// time of the call.
///
/// Nothing is kept of it then.
pub(crate) async fn quiesce() {
    // What ends on one hart may cancel what another hart polls, and that ends only in the round
    // behind. So it is over when two rounds in a row have ended nothing.
    let mut live = executor().live();
    let mut quiet = 0;
    while count() > 1 && quiet < 2 {
        wait_for_rounds().await;
        let before = core::mem::replace(&mut live, executor().live());
        quiet = if live == before { quiet + 1 } else { 0 };
    }
    executor().trim();
}

/// The harts that sleep until another one begins a round of its main loop, one bit for each index.
///
/// A hart that begins a round takes them out and wakes them.
static AWAITING_ROUND: AtomicUsize = AtomicUsize::new(0);

/// Waits until every hart has come back to its main loop.
async fn wait_for_rounds() {
    // Requests from outside, such as the end of a call, are handled before the next poll, by this
    // hart or another one.
    corank::yield_now().await;
    let rounds = || all().map(|page| page.rounds.load(Ordering::Acquire));
    let before: heapless::Vec<u64, MAX_HARTS> = rounds().collect();
    // Whatever a hart does, it comes back for a call. Polls end early, user mode and sleep end at
    // once.
    call_all(usize::MAX);
    let is_waiting = || rounds().zip(&before).any(|(now, before)| now == *before);
    while is_waiting() {
        // It stays ready, so that nothing less urgent comes first. But unless this hart is itself
        // to come back it sleeps rather than spins: the host may need the processor for the other
        // harts. The bit is set before the check. So a hart that begins a round after the check
        // wakes this one. Any interrupt wakes it, too, such as a call for something more urgent.
        set_interruptible(true);
        AWAITING_ROUND.fetch_or(1 << index(), Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let own = this().rounds.load(Ordering::Relaxed);
        if before.get(index()) != Some(&own) && is_waiting() {
            riscv::asm::wfi();
        }
        corank::yield_now().await;
    }
}

/// Begins a round of the main loop.
///
/// Returns whether this hart is to serve the executor in it.
pub(crate) fn begin_round() -> bool {
    let page = this();
    let rounds = page.rounds.load(Ordering::Relaxed) + 1;
    // Release: what was done in the round before is over for a hart that sees this one begin.
    page.rounds.store(rounds, Ordering::Release);
    // Between the store and the load: a hart that is about to sleep sees the new round, or this
    // hart sees its bit.
    fence(Ordering::SeqCst);
    if AWAITING_ROUND.load(Ordering::Relaxed) != 0 {
        call_all(AWAITING_ROUND.swap(0, Ordering::SeqCst) & !(1 << page.index));
    }
    page.index < LIMIT.load(Ordering::Acquire)
}
