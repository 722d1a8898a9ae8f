//! The operations that a trace, the model and a platform have in common.

use crate::model::Outcome;

/// The *n*-th coroutine that the scene spawned, counted from 0, including refused spawns.
///
/// A number is never reused, so a stale one (C2) needs no generation here. A platform keeps a list
/// that maps these numbers to its own identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub usize);

/// One operation of a scene.
///
/// Mutexes, semaphores, events and channels are named by their index in the list of their kind in
/// [`Settings`](crate::Settings). Levels are plain numbers, so that a scene can try a level that
/// does not exist (P1).
///
/// Each operation names its place. *Anywhere* means the running coroutine, or the world outside
/// while no coroutine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Anywhere: creates a coroutine at this level, or at the default one.
    ///
    /// It gets the next [`Id`], even if it is refused.
    Spawn(Option<u8>),
    /// Anywhere: wakes the coroutine.
    Wake(Id),
    /// Anywhere: sets the base level.
    Reprioritize(Id, u8),
    /// Anywhere: cancels the coroutine.
    Cancel(Id),
    /// Anywhere: drops the handle of this coroutine (X7).
    Detach(Id),
    /// Anywhere: sets this event.
    Set(usize),
    /// Anywhere: resets this event.
    Reset(usize),
    /// Anywhere: signals this key.
    SignalKey(u64),
    /// Anywhere: gives back a permit of this semaphore that the running coroutine holds, or else
    /// adds one (N6).
    Release(usize),

    /// Outside: sets the time to this, unless it is later already (T6).
    Advance(u64),
    /// Outside: sets the most urgent level elsewhere in the system.
    Elsewhere(Option<u8>),
    /// Outside: takes the result of this coroutine from its handle, without waiting.
    TakeResult(Id),
    /// Outside: lets the executor choose.
    ///
    /// The chosen coroutine runs until one of the operations that end a poll.
    Pick,

    /// The running coroutine: locks this mutex. May wait.
    Lock(usize),
    /// The running coroutine: unlocks this mutex, which it holds.
    Unlock(usize),
    /// The running coroutine: acquires a permit of this semaphore. May wait.
    Acquire(usize),
    /// The running coroutine: waits for this event. May wait.
    WaitEvent(usize),
    /// The running coroutine: sends this message into this channel. May wait.
    Send(usize, u64),
    /// The running coroutine: receives a message from this channel. May wait.
    Receive(usize),
    /// The running coroutine: waits for this key. May wait.
    WaitKey(u64),
    /// The running coroutine: sleeps until this time. May wait.
    Sleep(u64),
    /// The running coroutine: awaits the handle of this coroutine. May wait.
    Join(Id),

    /// The running coroutine, first in its poll: polls the future in which it waits. May wait
    /// again.
    Resume,
    /// The running coroutine, first in its poll: drops the future in which it waits, without
    /// polling it.
    Abandon,

    /// Ends the poll: the coroutine wakes itself, and is pending.
    Yield,
    /// Ends the poll: the coroutine is pending.
    Block,
    /// Ends the poll: the coroutine is ready with the output.
    Finish,
    /// Ends the poll: the coroutine unwinds.
    Panic,
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It is done. An operation that may wait is done without waiting, or at the end of the wait.
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
    /// `Pick`: no coroutine is ready.
    Idle,
    /// `Pick`: more urgent work waits elsewhere.
    GivesWay,
    /// The operation makes no sense here.
    ///
    /// For example, no coroutine runs, the mutex is not held, or the handle is gone. Nothing has
    /// changed. A trace never expects this, and generators of random scenes omit such operations.
    Invalid,
}

impl Op {
    /// The number of kinds that [`from_numbers`](Op::from_numbers) distinguishes; a prime.
    pub const KINDS: u8 = 53;

    /// Makes an operation from any three numbers, for property tests and fuzzers.
    ///
    /// `spawned` is the number of coroutines that were spawned, and `objects` the number of
    /// primitives of each kind. Every kind of operation occurs. Ends of polls and picks occur more
    /// often than the rest, so that scenes make progress.
    pub fn from_numbers(kind: u8, a: u8, b: u8, spawned: usize, objects: usize) -> Op {
        // One of the latest coroutines, which are more likely to be alive.
        let id = Id(spawned.saturating_sub(1 + usize::from(a) % spawned.clamp(1, 8)));
        let object = usize::from(a) % objects.max(1);
        let key = u64::from(a) % 3;
        // Few levels, so that equal levels occur, and sometimes a level that does not exist.
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

    /// Returns the coroutine that it names.
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

    /// Tests whether the operation may have to wait. If it waits, it ends the poll.
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

    /// Tests whether the operation always ends the poll.
    pub fn ends_poll(self) -> bool {
        matches!(self, Op::Yield | Op::Block | Op::Finish | Op::Panic)
    }

    /// Tests whether only the running coroutine can do it.
    pub fn is_inside(self) -> bool {
        self.may_wait() || self.ends_poll() || matches!(self, Op::Unlock(_) | Op::Abandon)
    }

    /// Tests whether only the world outside can do it, while no coroutine runs.
    pub fn is_outside(self) -> bool {
        matches!(
            self,
            Op::Advance(_) | Op::Elsewhere(_) | Op::TakeResult(_) | Op::Pick
        )
    }
}
