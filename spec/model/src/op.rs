//! The operations that a trace, the model and a platform have in common.

use crate::model::Outcome;

/// The *n*-th coroutine that the scene spawned, counted from 0; refused spawns count as well.
///
/// A number is never given out twice, so a stale one (C2) needs no generation here. A platform
/// keeps a list that leads from these numbers to its own identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub usize);

/// One thing that a scene does.
///
/// Mutexes, semaphores, events and channels are named by their place in the list of their kind in
/// [`Settings`](crate::Settings). Levels are plain numbers so that a scene can try a level that
/// does not exist (P1).
///
/// Who may do it: *anyone* means the running coroutine, or the world outside while nothing runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Anyone: create a coroutine at this level, or at the default one. It gets the next [`Id`],
    /// even if it is refused.
    Spawn(Option<u8>),
    /// Anyone: wake.
    Wake(Id),
    /// Anyone: set the base level.
    Reprioritize(Id, u8),
    /// Anyone: cancel.
    Cancel(Id),
    /// Anyone: drop the handle of this coroutine (X7).
    Detach(Id),
    /// Anyone: set this event.
    Set(usize),
    /// Anyone: reset this event.
    Reset(usize),
    /// Anyone: signal this key.
    SignalKey(u64),
    /// Anyone: give back a permit of this semaphore that the running coroutine holds, or else add
    /// one (N6).
    Release(usize),

    /// Outside: the time is now this, or stays what it is if that is later (T6).
    Advance(u64),
    /// Outside: the most urgent level elsewhere in the system.
    Elsewhere(Option<u8>),
    /// Outside: take the result of this coroutine from its handle, without waiting.
    TakeResult(Id),
    /// Outside: let the executor choose. A coroutine that is chosen runs until one of the
    /// operations that end a poll.
    Pick,

    /// The running coroutine: lock this mutex. May wait.
    Lock(usize),
    /// The running coroutine: unlock this mutex, which it holds.
    Unlock(usize),
    /// The running coroutine: acquire a permit of this semaphore. May wait.
    Acquire(usize),
    /// The running coroutine: wait for this event. May wait.
    WaitEvent(usize),
    /// The running coroutine: send this message into this channel. May wait.
    Send(usize, u64),
    /// The running coroutine: receive a message from this channel. May wait.
    Receive(usize),
    /// The running coroutine: wait for this key. May wait.
    WaitKey(u64),
    /// The running coroutine: sleep until this time. May wait.
    Sleep(u64),
    /// The running coroutine: await the handle of this coroutine. May wait.
    Join(Id),

    /// The running coroutine, first thing in its poll: poll what it waited for. May wait again.
    Resume,
    /// The running coroutine, first thing in its poll: drop the future that it waited in, without
    /// polling it.
    Abandon,

    /// Ends the poll: wake oneself, then pending.
    Yield,
    /// Ends the poll: pending.
    Block,
    /// Ends the poll: ready with the output.
    Finish,
    /// Ends the poll: unwind.
    Panic,
}

/// What came of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It is done; for one that may wait, without waiting or at the end of the wait.
    Done,
    /// It was refused, and nothing has changed.
    Refused,
    /// It must wait; the poll has ended pending.
    Waits,
    /// A message was received.
    Received(u64),
    /// A coroutine has exited, and this is its result.
    Joined(Outcome),
    /// `TakeResult`: the coroutine has not exited yet.
    NotYet,
    /// `Pick`: this coroutine runs now.
    Picked(Id),
    /// `Pick`: nothing is ready.
    Idle,
    /// `Pick`: something more urgent waits elsewhere.
    GivesWay,
    /// The operation makes no sense here (nobody runs, the mutex is not held, the handle is gone,
    /// …). Nothing has changed. A trace never expects this; makers of random scenes leave such
    /// operations out.
    Invalid,
}

impl Op {
    /// How many kinds [`from_numbers`](Op::from_numbers) tells apart; a prime.
    pub const KINDS: u8 = 53;

    /// Makes an operation of any three numbers, for property tests and fuzzers.
    ///
    /// `spawned` is the number of coroutines spawned so far, and `objects` how many there are of
    /// each kind of primitive. Every kind of operation comes up; polls end and picks come more
    /// often than the rest, so that scenes move.
    pub fn from_numbers(kind: u8, a: u8, b: u8, spawned: usize, objects: usize) -> Op {
        // One of the latest, which are more likely to be alive.
        let id = Id(spawned.saturating_sub(1 + usize::from(a) % spawned.clamp(1, 8)));
        let object = usize::from(a) % objects.max(1);
        let key = u64::from(a) % 3;
        // Few levels, so that equals meet; now and then one that does not exist.
        let level = |n: u8| match n {
            0..=249 => [3, 5, 5, 8, 32, 63][usize::from(n) % 6],
            _ => n,
        };
        match kind % Op::KINDS {
            0 | 1 => Op::Spawn(Some(level(b))),
            2 => Op::Spawn(None),
            3..=7 => Op::Wake(id),
            8..=10 => Op::Reprioritize(id, level(b)),
            11 => Op::Cancel(id),
            12 => Op::Detach(id),
            13 => Op::Set(object),
            14 => Op::Reset(object),
            15 => Op::SignalKey(key),
            16 => Op::Release(object),
            17 => Op::Advance(u64::from(b)),
            18 => Op::Elsewhere((b < 50).then(|| level(b)).filter(|&l| l < 64)),
            19 => Op::TakeResult(id),
            20..=29 => Op::Pick,
            30..=32 => Op::Lock(object),
            33 | 34 => Op::Unlock(object),
            35 => Op::Acquire(object),
            36 => Op::WaitEvent(object),
            37 => Op::Send(object, u64::from(b)),
            38 => Op::Receive(object),
            39 => Op::WaitKey(key),
            40 => Op::Sleep(u64::from(b)),
            41 | 42 => Op::Join(id),
            43..=45 => Op::Resume,
            46 => Op::Abandon,
            47..=49 => Op::Yield,
            50 => Op::Block,
            51 => Op::Finish,
            _ => Op::Panic,
        }
    }

    /// The coroutine that it names.
    pub fn coroutine(self) -> Option<Id> {
        match self {
            Op::Wake(id)
            | Op::Reprioritize(id, _)
            | Op::Cancel(id)
            | Op::Detach(id)
            | Op::TakeResult(id)
            | Op::Join(id) => Some(id),
            _ => None,
        }
    }

    /// Whether the operation may have to wait; such a one ends the poll if it does.
    pub fn may_wait(self) -> bool {
        use Op::*;
        matches!(
            self,
            Lock(_)
                | Acquire(_)
                | WaitEvent(_)
                | Send(..)
                | Receive(_)
                | WaitKey(_)
                | Sleep(_)
                | Join(_)
                | Resume
        )
    }

    /// Whether the operation always ends the poll.
    pub fn ends_poll(self) -> bool {
        matches!(self, Op::Yield | Op::Block | Op::Finish | Op::Panic)
    }

    /// Whether only the running coroutine can do it.
    pub fn is_inside(self) -> bool {
        self.may_wait() || self.ends_poll() || matches!(self, Op::Unlock(_) | Op::Abandon)
    }

    /// Whether only the world outside can do it, while nothing runs.
    pub fn is_outside(self) -> bool {
        matches!(
            self,
            Op::Advance(_) | Op::Elsewhere(_) | Op::TakeResult(_) | Op::Pick
        )
    }
}
