//! Asynchronous system calls: the kernel's side of [`corank_abi::ring`].
//!
//! A submission that can be served at once is served in place. One that has to wait becomes a
//! kernel coroutine, at the live level of the coroutine that asked (rule I9). A read from a pipe
//! becomes one only if it is less urgent than what its bytes come from, and a read from a
//! connection does not. The memory is shared with the program, which may write anything into it at
//! any time. So the kernel keeps its own counters, copies an entry before it inspects it, and
//! checks whatever it finds.
//!
//! - `memory`: what is shared with the program;
//! - `calls`: what is under way, and how a call is cancelled;
//! - `serve`: serving a call, at once or by a coroutine;
//! - `chain`: taking what is linked behind a call;
//! - `parked`: reads from pipes and connections, which wait without a coroutine.
mod calls;
mod chain;
mod memory;
mod parked;
mod serve;

pub(crate) use parked::{Parked, Slot, Source, Unparked};

use crate::hart::MAX_HARTS;
use crate::lock::Mutex;
use crate::memory::OutOfMemory;
use crate::memory::account::{self, Account, Charge};
use crate::memory::user::BadAddress;
use crate::net;
use crate::pace::{self, apart, checkpoint};
use crate::process::{Process, priority};
use crate::thread::Thread;
use crate::wait::{WaitMode, WaitQueue, until};
use crate::{clock, hart, stretch};
use alloc::sync::Arc;
use calls::{Calls, Found, Levelled, Place, Search, Tag};
use corank_abi::call::{FAILED, RING_CANCELLED, RING_REPRIORITIZE};
use corank_abi::ring::{Completion, LINK, Outbox, Submission};
use core::future::poll_fn;
use core::pin::pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::Poll;
use memory::Memory;

/// The most entries that a ring can have.
pub(crate) const MAX_ENTRIES: usize = MAX_ENTRIES_U32 as usize;
const MAX_ENTRIES_U32: u32 = 4096;

/// How many calls may be under way and completions be kept for one worker.
///
/// Further submissions stay in their ring.
const MAX_PENDING: usize = 1 << 16;

/// For how many more completions room is made in one step.
const MOST_ADDED: usize = 1 << 13;

/// Threads that may have taken a submission each that is not counted yet.
///
/// They serve it at once, and each needs a hart for that.
const UNCOUNTED: usize = MAX_HARTS;

/// The least urgent level.
const LAST_LEVEL: u8 = 63;

/// A worker's rings.
#[derive(Debug)]
pub(crate) struct Ring {
    /// The worker's number.
    worker: usize,
    memory: Memory,
    state: Mutex<State>,
    /// Woken when as many completions are there as a waiter wants.
    completed: WaitQueue,
    /// How many calls are to be cancelled.
    ///
    /// While there are none, no coroutine checks whether its call is one of them.
    cancels: AtomicUsize,
    _charge: Charge,
}

#[derive(Debug, Default)]
struct State {
    submission_head: u32,
    completions: Outbox,
    /// What the room for completions that are kept costs.
    completions_charge: Charge,
    calls: Calls,
    /// Submissions that are linked behind one that waits, while they are taken out of the ring.
    chain: Option<Chain>,
    /// A thread serves a submission to which others are linked, and has not separated them yet.
    ///
    /// Until they can be told from what is to be served now, other threads take none.
    is_taken_apart: bool,
    /// The smallest number of completions that a waiter wants.
    wanted: u32,
    /// The process has ended or runs another program.
    closed: bool,
}

/// What is linked behind a call, while no coroutine serves it yet.
///
/// It is taken up in pieces, by whichever thread is in the kernel with the ring. Nothing behind it
/// is taken out of the ring before.
#[derive(Debug)]
struct Chain {
    /// The call.
    place: Place,
    first: Submission,
    state: ChainState,
}

#[derive(Debug)]
enum ChainState {
    /// So many submissions are still in the ring.
    Taking(usize),
    /// There was no memory for a coroutine.
    ///
    /// The call has failed, and each of the others is served alone, in their order.
    Failed,
}

/// What is next in a ring.
enum Next {
    /// Nothing.
    Nothing,
    /// This submission.
    Submission(Submission),
    /// A piece of work has been done. There may be more.
    Piece,
}

impl Ring {
    /// Makes rings for this worker, with so many entries each.
    ///
    /// The number is a power of two up to [`MAX_ENTRIES`].
    /// # Errors
    /// When there is no memory for them.
    pub(crate) fn new(
        worker: usize,
        entries: usize,
        account: &Arc<Account>,
    ) -> Result<Arc<Ring>, OutOfMemory> {
        let charge = account::charge(account, account::of::<Ring>())?;
        let memory = Memory::new(entries as u32, account)?;
        let mut state = State {
            wanted: u32::MAX,
            ..State::default()
        };
        state.make_room(account, entries + UNCOUNTED)?;
        Ok(Arc::new(Ring {
            worker,
            memory,
            state: Mutex::new(state),
            completed: WaitQueue::new(),
            cancels: AtomicUsize::new(0),
            _charge: charge,
        }))
    }

    /// Returns the physical addresses of its pages, in order.
    pub(crate) fn frames(&self) -> impl Iterator<Item = usize> {
        self.memory.frames()
    }

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
            match self.next(process, end) {
                Next::Nothing => break,
                Next::Submission(submission) if submission.call as usize == RING_REPRIORITIZE => {
                    let [key, level, _] = submission.arguments;
                    // It may give way meanwhile, and as many threads as there are may do so. It
                    // counts as long as it has no completion.
                    {
                        let mut state = self.state.lock();
                        state.calls.add_linked(1);
                        state.is_taken_apart = false;
                    }
                    let result = apart(self.reprioritize(process, key, level as usize)).await;
                    self.complete(process, Tag::of(&submission), result);
                    self.state.lock().calls.remove_linked(1);
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
            if hart::has_more_urgent_work() {
                // The process counts by what it says now.
                thread.come_to_rest();
                checkpoint().await;
            }
        }
        thread.come_to_rest();
        // What was just served may have woken other calls of this process. They go first, so that
        // their completions come with the same kernel entry. And what was written to a connection
        // is sent before this process goes on computing at the same level.
        if !self.state.lock().calls.all_parked() || net::has_something_to_send() {
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

    /// Takes the next submission, up to the one with number `end`.
    ///
    /// It stays where it is until there is room to keep its completion.
    fn next(self: &Arc<Ring>, process: &Arc<Process>, end: u32) -> Next {
        let mut state = self.state.lock();
        while state.is_taken_apart {
            // Another hart does that right now, and gives way to nothing before it is done.
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
        if is_there && (state.has_room_for(1) || state.grow(&process.account)) {
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
                let found = state.calls.cancel(process, key, &mut search);
                if matches!(found, Found::Served(..)) {
                    self.cancels.store(state.calls.cancels(), Ordering::Relaxed);
                }
                found
            };
            match found {
                Found::Nothing => return FAILED,
                Found::Nowhere => checkpoint().await,
                Found::Removed => return RING_CANCELLED,
                Found::Ended(parked, finished) => {
                    drop((parked, finished));
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
                    // It may have been settled before this waiter stood in the queue.
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
                state.calls.set_level(process, key, level, &mut search)
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

    /// Makes threads that wait for completions check whether a user-level interrupt is due.
    ///
    /// The interrupt was raised before.
    pub(crate) fn look_again(&self) {
        // Under the lock, so that no thread checks before and waits after.
        let mut state = self.state.lock();
        state.wanted = u32::MAX;
        self.completed.wake_all();
    }

    /// Returns how many calls have been accepted and not completed.
    pub(crate) fn under_way(&self) -> usize {
        self.state.lock().calls.len()
    }

    /// Cancels the calls under way, because the process or its worker ends, or runs another
    /// program.
    ///
    /// Nothing is written to the rings any more. If this is dropped before its end, another run
    /// cancels what is left.
    pub(crate) async fn cancel_all(&self, process: &Process) {
        {
            let mut state = self.state.lock();
            state.closed = true;
            state.chain = None;
        }
        let mut cancelled = 0_usize;
        loop {
            let ended = self.state.lock().calls.remove_any();
            match ended {
                Some(Some(ended)) => {
                    ended.cancel(process);
                    cancelled += 1;
                    if cancelled.is_multiple_of(pace::OBJECTS) {
                        // The executor does what this has left to it, and not all of it at once
                        // when it picks next.
                        let _ = hart::executor().ready();
                        checkpoint().await;
                    }
                }
                Some(None) => checkpoint().await,
                None => break,
            }
        }
    }
}

impl State {
    /// Tests whether the completions of so many more calls could be kept.
    ///
    /// They come beside those of all calls under way, if none found a place in the ring.
    #[inline]
    fn has_room_for(&self, calls: usize) -> bool {
        let owed = self.calls.owed() + self.completions.kept();
        owed + calls + (UNCOUNTED - 1) <= self.completions.room()
    }

    /// Makes room for more completions that are kept.
    ///
    /// Returns false if there are as many as may be, or there is no memory.
    #[cold]
    fn grow(&mut self, account: &Arc<Account>) -> bool {
        let room = self.completions.room();
        let more = (2 * room)
            .min(room + MOST_ADDED)
            .min(MAX_PENDING + UNCOUNTED - 1);
        more > room && self.make_room(account, more).is_ok()
    }

    fn make_room(&mut self, account: &Arc<Account>, room: usize) -> Result<(), OutOfMemory> {
        let charge = account::charge(account, Outbox::bytes(room))?;
        let made = self.completions.make_room(room);
        made.map_err(|_| OutOfMemory)?;
        // What the smaller one cost is given back.
        self.completions_charge = charge;
        Ok(())
    }

    /// Returns how many completions there are for the process, kept ones included.
    fn ready(&mut self, memory: &Memory) -> u32 {
        let write = |number, completion| memory.write_completion(number, completion);
        self.completions
            .ready(memory.header(), memory.entries, write)
    }

    fn add(&mut self, memory: &Memory, completion: Completion) {
        let write = |number, completion| memory.write_completion(number, completion);
        self.completions
            .add(memory.header(), memory.entries, write, completion);
    }
}
