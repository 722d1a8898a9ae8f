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
//! - `calls`: what is under way, and how a call is cancelled.
//!
//! The system calls have the other half: how the submissions are served (`syscall::ring`).
mod calls;
mod memory;

pub(crate) use calls::{Calls, Finished, Found, Levelled, Search, Tag};

use crate::executor::executor;
use crate::lock::Mutex;
use crate::machine::MAX_HARTS;
use crate::memory::OutOfMemory;
use crate::memory::account::{self, Account, Charge};
use crate::memory::user::UserMemory;
use crate::pace::{self, checkpoint};
use crate::pending_read::CallId;
use crate::wait::WaitQueue;
use alloc::sync::Arc;
use corank_abi::ring::{Completion, Outbox, Submission};
use core::sync::atomic::AtomicUsize;
use memory::Memory;

/// The most entries that a ring can have.
pub(crate) const MAX_ENTRIES: usize = MAX_ENTRIES_U32 as usize;
pub(crate) const MAX_ENTRIES_U32: u32 = 4096;

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
pub(crate) const LAST_LEVEL: u8 = 63;

/// A worker's rings.
#[derive(Debug)]
pub(crate) struct Ring {
    /// The worker's number.
    pub worker: usize,
    pub memory: Memory,
    pub state: Mutex<State>,
    /// Woken when as many completions are there as a waiter wants.
    pub completed: WaitQueue,
    /// How many calls are to be cancelled.
    ///
    /// While there are none, no coroutine checks whether its call is one of them.
    pub cancels: AtomicUsize,
    _charge: Charge,
}

/// What a ring's lock guards.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub submission_head: u32,
    completions: Outbox,
    /// What the room for completions that are kept costs.
    completions_charge: Charge,
    pub calls: Calls,
    /// Submissions that are linked behind one that waits, while they are taken out of the ring.
    pub chain: Option<Chain>,
    /// A thread serves a submission to which others are linked, and has not separated them yet.
    ///
    /// Until they are separated from what is to be served now, other threads take none.
    pub is_taken_apart: bool,
    /// The smallest number of completions that a waiter wants.
    pub wanted: u32,
    /// The process has ended or runs another program.
    pub closed: bool,
}

/// What is linked behind a call, while no coroutine serves it yet.
///
/// It is taken up in pieces, by whichever thread is in the kernel with the ring. Nothing behind it
/// is taken out of the ring before.
#[derive(Debug)]
pub(crate) struct Chain {
    /// The call.
    pub id: CallId,
    pub first: Submission,
    pub state: ChainState,
}

/// How far the work for a chain has come.
#[derive(Debug)]
pub(crate) enum ChainState {
    /// So many submissions are still in the ring.
    Taking(usize),
    /// There was no memory for a coroutine.
    ///
    /// The call has failed, and each of the others is served alone, in their order.
    Failed,
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

    /// Makes threads that wait for completions check whether a user-level interrupt is due.
    ///
    /// The interrupt was raised before.
    pub(crate) fn check_again(&self) {
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
    pub(crate) async fn cancel_all(&self, memory: &UserMemory) {
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
                    ended.cancel(memory);
                    cancelled += 1;
                    if cancelled.is_multiple_of(pace::OBJECTS) {
                        // The executor does what this has left to it, and not all of it at once
                        // when it picks next.
                        let _ = executor().ready();
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
    pub(crate) fn has_room_for(&self, calls: usize) -> bool {
        let owed = self.calls.owed() + self.completions.kept();
        owed + calls + (UNCOUNTED - 1) <= self.completions.room()
    }

    /// Makes room for more completions that are kept.
    ///
    /// Returns false if there are as many as may be, or there is no memory.
    #[cold]
    pub(crate) fn grow(&mut self, account: &Arc<Account>) -> bool {
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
    pub(crate) fn ready(&mut self, memory: &Memory) -> u32 {
        let write = |number, completion| memory.write_completion(number, completion);
        self.completions
            .ready(memory.header(), memory.entries, write)
    }

    /// Adds a completion, which is kept if the ring has no room for it.
    pub(crate) fn add(&mut self, memory: &Memory, completion: Completion) {
        let write = |number, completion| memory.write_completion(number, completion);
        self.completions
            .add(memory.header(), memory.entries, write, completion);
    }
}
