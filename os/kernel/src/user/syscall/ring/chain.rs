//! Calls that wait, and what is linked behind them: taken out of the ring in pieces.
//!
//! ```text
//!   a submission waits ──▶ room for all that is linked behind it ──▶ taking, some at a time ──▶ one coroutine for all
//!                              │ no memory                                                      │ no memory
//!                              ▼                                                                ▼
//!                      it fails, and those behind it stay in the ring        it fails, and each of the others is served alone
//! ```
//! Between two pieces what has been taken is in the table of calls. So it can be cancelled there,
//! or by the end of the process.
use super::Next;
use super::serve::{UnderWay, run};
use crate::executor::priority;
use crate::lock::MutexGuard;
use crate::memory::OutOfMemory;
use crate::memory::account;
use crate::memory::user::BadAddress;
use crate::pending_read::CallId;
use crate::process::Process;
use crate::ring::{Chain, ChainState, MAX_ENTRIES_U32, Ring, State, Tag};
use alloc::sync::Arc;
use corank_abi::call::FAILED;
use corank_abi::ring::{LINK, Submission};

/// How many linked submissions one piece of work takes.
const AT_ONCE: usize = 256;

impl Ring {
    /// Makes a coroutine for a submission that waits, and for all that is linked to it.
    ///
    /// The chain goes up to the submission with number `end`.
    #[inline(never)]
    pub(super) fn serve_later(
        self: &Arc<Ring>,
        process: &Arc<Process>,
        first: &Submission,
        end: u32,
    ) -> Result<(), BadAddress> {
        let mut state = self.state.lock();
        if state.closed {
            return Ok(());
        }
        let linked = self.count_linked(&state, first.flags, end);
        let Ok(id) = state.begin(process, first, linked) else {
            drop(state);
            // Without memory the call fails, and what is linked behind it goes on as after any
            // failure.
            return self.refuse(process, first, end);
        };
        let chain = Chain {
            id,
            first: *first,
            state: ChainState::Taking(linked),
        };
        match self.take_some(&mut state, chain) {
            Some(chain) => {
                state.chain = Some(chain);
                Ok(())
            }
            None => self.spawn(process, state, id, first, end),
        }
    }

    /// Returns how many submissions are linked behind one with these flags.
    ///
    /// The one with these flags was the last to be taken. Submissions up to the one with number
    /// `end` count.
    fn count_linked(&self, state: &State, flags: u8, end: u32) -> usize {
        if flags & LINK == 0 || state.chain.is_some() {
            return 0;
        }
        let first = state.submission_head;
        let left = match end.wrapping_sub(first) {
            left @ 1..=MAX_ENTRIES_U32 => left,
            _ => return 0,
        };
        let is_last = |behind: &u32| self.memory.flags(first.wrapping_add(*behind)) & LINK == 0;
        (0..left).find(is_last).map_or(left, |last| last + 1) as usize
    }

    /// Takes some of what is linked behind a call.
    ///
    /// The chain comes back if there is more.
    fn take_some(&self, state: &mut State, chain: Chain) -> Option<Chain> {
        let ChainState::Taking(left) = chain.state else {
            return None;
        };
        let count = left.min(AT_ONCE);
        for _ in 0..count {
            let number = state.submission_head;
            // The program may have written to it meanwhile. Then it is another one, but no more
            // than were counted.
            let next = self.memory.submission(number);
            state.submission_head = self.memory.header().submissions().take(number);
            state.calls.link(chain.id, next);
        }
        (count < left).then_some(Chain {
            state: ChainState::Taking(left - count),
            ..chain
        })
    }

    /// Does a piece of the work for a chain.
    #[cold]
    pub(super) fn go_on_with_chain(
        self: &Arc<Ring>,
        process: &Arc<Process>,
        mut state: MutexGuard<'_, State>,
    ) -> Next {
        let Some(chain) = state.chain.take() else {
            return Next::Piece;
        };
        let (id, first) = (chain.id, chain.first);
        match chain.state {
            ChainState::Taking(_) => match self.take_some(&mut state, chain) {
                Some(chain) => state.chain = Some(chain),
                None => {
                    let end = state.submission_head;
                    // A coroutine that is not made is no bad pointer.
                    let _ = self.spawn(process, state, id, &first, end);
                }
            },
            ChainState::Failed => {
                if let Some(next) = state.calls.take_linked(id) {
                    state.chain = Some(chain);
                    return Next::Submission(Submission {
                        flags: next.flags & !LINK,
                        ..next
                    });
                }
            }
        }
        Next::Piece
    }

    /// Makes the coroutine that serves a call and what is linked behind it.
    ///
    /// Without memory for it the call fails, and its file is closed if the call takes that along.
    fn spawn(
        self: &Arc<Ring>,
        process: &Arc<Process>,
        mut state: MutexGuard<'_, State>,
        id: CallId,
        first: &Submission,
        end: u32,
    ) -> Result<(), BadAddress> {
        let Some(level) = state.calls.level_of(id) else {
            // All calls were cancelled meanwhile.
            return Ok(());
        };
        let under_way = UnderWay::new(self.clone(), id);
        // Under the lock, so that a cancellation of the call, or a change of its level, finds its
        // coroutine, even if it waits on another hart already.
        let (owner, first_call) = (process.clone(), *first);
        let level = priority(process.allowed(level));
        let spawned = account::spawn(&process.memory.account, level, 0, |charge| {
            run(owner, under_way, first_call, charge)
        });
        if let Ok(handle) = spawned {
            state.calls.made(id, handle.remote());
            return Ok(());
        }
        let (cancel, has_rest) = state.calls.fail(id);
        if has_rest {
            state.chain = Some(Chain {
                id,
                first: *first,
                state: ChainState::Failed,
            });
        }
        drop(state);
        let refused = self.refuse(process, first, end);
        if let Some(cancel) = cancel {
            cancel.resolve(true);
        }
        refused
    }

    /// Completes a submission that there is no memory for, and closes the file that it takes along.
    #[cold]
    fn refuse(
        self: &Arc<Ring>,
        process: &Arc<Process>,
        first: &Submission,
        end: u32,
    ) -> Result<(), BadAddress> {
        let served = Tag::of(first);
        self.complete(process, served, FAILED);
        match served.close() {
            Some(close) => self.serve(process, &close, end),
            None => Ok(()),
        }
    }
}

impl State {
    /// Begins a call, with room for so many that are linked behind it, and for their completions.
    ///
    /// # Errors
    /// Without memory for it all.
    fn begin(
        &mut self,
        process: &Process,
        first: &Submission,
        linked: usize,
    ) -> Result<CallId, OutOfMemory> {
        // The one in front of them is not counted yet.
        while linked > 0 && !self.has_room_for(1 + linked) {
            if !self.grow(&process.memory.account) {
                return Err(OutOfMemory);
            }
        }
        self.calls.begin(&process.memory.account, first, linked)
    }
}
