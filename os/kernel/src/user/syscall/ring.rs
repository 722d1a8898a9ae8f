//! Serving the submissions in a ring.
//!
//! - `serve`: serving a call, at once or by a coroutine;
//! - `chain`: taking what is linked behind a call;
//! - `pending_read`: reads from pipes and connections, which wait without a coroutine.
mod chain;
mod pending_read;
mod serve;

use crate::executor::{has_more_urgent_work, priority};
use crate::memory::user::BadAddress;
use crate::net;
use crate::pace::{apart, checkpoint};
use crate::process::Process;
use crate::ring::{Found, LAST_LEVEL, Levelled, MAX_ENTRIES_U32, Ring, Search, Tag};
use crate::user::thread::Thread;
use crate::wait::{WaitMode, until};
use crate::{clock, stretch};
use alloc::sync::Arc;
use corank_abi::call::{FAILED, RING_CANCELLED, RING_REPRIORITIZE};
use corank_abi::ring::{LINK, Submission};
use core::future::poll_fn;
use core::pin::pin;
use core::sync::atomic::Ordering;
use core::task::Poll;

/// What is next in a ring.
enum Next {
    /// Nothing.
    Nothing,
    /// This submission.
    Submission(Submission),
    /// A piece of work has been done. There may be more.
    Piece,
}

/// How far the submissions in a ring have been served.
enum Served {
    /// None is left.
    All,
    /// Something more urgent goes first.
    Some,
    /// All up to this one. It re-prioritises a call, which may have to yield.
    Reprioritize(Submission),
}

impl Ring {
    /// Serves the submissions that are there now, then waits for completions.
    ///
    /// Returns how many are there.
    ///
    /// # Errors
    /// When a submission passes a bad pointer.
    pub(crate) async fn enter(
        self: Arc<Ring>,
        thread: &Thread,
        wait_for: usize,
    ) -> Result<isize, BadAddress> {
        let process = &thread.process;
        let head = self.state.lock().submission_head;
        let queued = self.memory.header().submissions().available(head);
        if queued > self.memory.entries {
            return Ok(FAILED);
        }
        let end = head.wrapping_add(queued);
        loop {
            match self.serve_some(process, end)? {
                Served::All => break,
                Served::Some => {}
                Served::Reprioritize(submission) => {
                    let [key, level, _] = submission.arguments;
                    // It may yield meanwhile, and as many threads as there are may do so. It counts
                    // as long as it has no completion.
                    {
                        let mut state = self.state.lock();
                        state.calls.add_linked(1);
                        state.is_taken_apart = false;
                    }
                    let result = apart(self.reprioritize(process, key, level as usize)).await;
                    self.complete(process, Tag::of(&submission), result);
                    self.state.lock().calls.remove_linked(1);
                    stretch::check();
                    if !has_more_urgent_work() {
                        continue;
                    }
                }
            }
            // The process counts by what it says now.
            thread.come_to_rest();
            checkpoint().await;
        }
        thread.come_to_rest();
        // What was just served may have woken other calls of this process. They go first, so that
        // their completions come with the same kernel entry. And what was written to a connection
        // is sent before this process goes on computing at the same level.
        if !self.state.lock().calls.all_pending_reads() || net::has_something_to_send() {
            corank::yield_now().await;
        }
        let wanted = u32::try_from(wait_for)
            .unwrap_or(u32::MAX)
            .min(self.memory.entries);
        let ready = self.state.lock().ready(&self.memory);
        if ready >= wanted || thread.worker().upcalls.take(thread.tid) {
            return Ok(ready as isize);
        }
        let deadline = self.memory.header().deadline.load(Ordering::Relaxed);
        let mut completions = pin!(until(&self.completed, WaitMode::Block, |turn| {
            let mut state = self.state.lock();
            let ready = state.ready(&self.memory);
            if ready >= wanted || process.is_ending() || thread.worker().upcalls.take(thread.tid) {
                return Poll::Ready(ready);
            }
            state.wanted = state.wanted.min(wanted);
            turn.wait(&state);
            Poll::Pending
        }));
        if deadline == u64::MAX {
            return Ok(completions.await as isize);
        }
        let mut sleep = pin!(clock::sleep_until(deadline));
        let ready = poll_fn(|context| match completions.as_mut().poll(context) {
            Poll::Pending => sleep
                .as_mut()
                .poll(context)
                .map(|()| self.state.lock().ready(&self.memory)),
            ready => ready,
        });
        Ok(ready.await as isize)
    }

    /// Serves submissions, up to the one with number `end`, until one of them has to yield.
    ///
    /// It is apart from [`enter`](Self::enter), so that submissions do not go through that one's
    /// frame.
    ///
    /// # Errors
    /// When a submission passes a bad pointer.
    #[inline(never)]
    fn serve_some(
        self: &Arc<Ring>,
        process: &Arc<Process>,
        end: u32,
    ) -> Result<Served, BadAddress> {
        loop {
            match &self.next(process, end) {
                Next::Nothing => return Ok(Served::All),
                Next::Submission(submission) if submission.call as usize == RING_REPRIORITIZE => {
                    return Ok(Served::Reprioritize(*submission));
                }
                Next::Submission(submission) => {
                    let served = self.serve(process, submission, end);
                    if submission.flags & LINK != 0 {
                        self.state.lock().is_taken_apart = false;
                    }
                    served?;
                }
                Next::Piece => process.step(),
            }
            stretch::check();
            if has_more_urgent_work() {
                return Ok(Served::Some);
            }
        }
    }

    /// Takes the next submission, up to the one with number `end`.
    ///
    /// It stays where it is until there is room to keep its completion.
    fn next(self: &Arc<Ring>, process: &Arc<Process>, end: u32) -> Next {
        let mut state = self.state.lock();
        while state.is_taken_apart {
            // Another hart does that right now, and does not yield before it is done.
            drop(state);
            core::hint::spin_loop();
            state = self.state.lock();
        }
        if state.chain.is_some() {
            return self.go_on_with_chain(process, state);
        }
        let number = state.submission_head;
        // Another thread may have taken submissions meanwhile, up to a later end.
        let is_there = matches!(end.wrapping_sub(number), 1..=MAX_ENTRIES_U32);
        if is_there && (state.has_room_for(1) || state.grow(&process.memory.account)) {
            let submission = self.memory.submission(number);
            state.submission_head = self.memory.header().submissions().take(number);
            state.is_taken_apart = submission.flags & LINK != 0;
            return Next::Submission(submission);
        }
        Next::Nothing
    }

    /// Ends the call with this key, and waits until the kernel does not touch its memory any more.
    ///
    /// Returns what [`RING_CANCEL`](corank_abi::call::RING_CANCEL) does.
    pub(crate) async fn cancel(self: Arc<Ring>, process: &Process, key: u64) -> isize {
        let mut search = Search::default();
        let (cancel, coroutine) = loop {
            let found = {
                let mut state = self.state.lock();
                if state.closed {
                    return FAILED;
                }
                let found = state.calls.cancel(&process.memory, key, &mut search);
                if matches!(found, Found::Served(..)) {
                    self.cancels.store(state.calls.cancels(), Ordering::Relaxed);
                }
                found
            };
            match found {
                Found::Nothing => return FAILED,
                Found::Nowhere => checkpoint().await,
                Found::Removed => return RING_CANCELLED,
                Found::Ended(pending, finished) => {
                    drop((pending, finished));
                    return RING_CANCELLED;
                }
                Found::Served(cancel, coroutine) => break (cancel, coroutine),
            }
        };
        if let Some(coroutine) = coroutine {
            // The canceller waits for it, so it must not wait for anything less urgent.
            coroutine.reprioritize(priority(process.worker(self.worker).level()));
            coroutine.wake();
        }
        until(&cancel.queue, WaitMode::Block, |turn| {
            match cancel.outcome() {
                None if process.is_ending() => Poll::Ready(FAILED),
                Some(outcome) => Poll::Ready(outcome),
                None => {
                    turn.wait(&cancel);
                    // It may have been resolved before this waiter stood in the queue.
                    cancel.outcome().map_or(Poll::Pending, Poll::Ready)
                }
            }
        })
        .await
    }

    /// Sets the level at which the call with this key is served.
    ///
    /// Returns what [`RING_REPRIORITIZE`] does.
    pub(crate) async fn reprioritize(&self, process: &Process, key: u64, level: usize) -> isize {
        let level = level.min(LAST_LEVEL.into()) as u8;
        let mut search = Search::default();
        loop {
            let found = {
                let mut state = self.state.lock();
                if state.closed {
                    return FAILED;
                }
                state
                    .calls
                    .set_level(&process.memory, key, level, &mut search)
            };
            match found {
                Levelled::Nothing => return FAILED,
                Levelled::Nowhere => checkpoint().await,
                Levelled::Found(coroutine) => {
                    if let Some(coroutine) = coroutine {
                        coroutine.reprioritize(priority(process.allowed(level)));
                    }
                    return 0;
                }
            }
        }
    }
}
