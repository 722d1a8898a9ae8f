//! Rules K, M, N, T, and the waiting half of X: everything that a coroutine can wait for.
//!
//! Each wait has the same steps. [`begin`](Model::begin) takes the wanted object if it is there, or
//! adds the coroutine to the waiters. The operation that provides the object later *grants* it: the
//! waiter leaves the list, owns the object, and is woken (N2). When the waiter runs again, it
//! *completes*. If it is dropped instead, the granted object goes on to the next waiter (N3).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use super::{Model, Outcome, State};
use crate::op::{Id, Op, Reply};
use crate::trace::Settings;

#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    /// The operation that has to wait.
    pub(super) op: Op,
    /// The operation has been granted, and the coroutine has not run since.
    pub(super) granted: bool,
}

/// An object that a coroutine gives back when it ends (X9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    Mutex(usize),
    Permit(usize),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Mutex {
    /// The holder from the hand-over on, even if it has not run since (N2).
    pub(super) holder: Option<Id>,
    waiters: Vec<Id>,
}

/// Permits, and the coroutines that wait for one.
///
/// Semaphores, keys, and both sides of a channel are made of these.
#[derive(Clone, Debug)]
struct Permits {
    free: u32,
    /// The largest number of free permits (K3).
    most: u32,
    waiters: Vec<Id>,
}

impl Permits {
    fn new(free: u32, most: u32) -> Permits {
        Permits {
            free,
            most,
            waiters: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Event {
    set: bool,
    waiters: Vec<Id>,
}

/// A queue between two semaphores, which is a channel (N10).
#[derive(Clone, Debug)]
struct Channel {
    queue: VecDeque<u64>,
    room: Permits,
    messages: Permits,
}

/// Names one set of permits.
#[derive(Clone, Copy, Debug)]
enum Pool {
    Semaphore(usize),
    Key(u64),
    Room(usize),
    Messages(usize),
}

#[derive(Clone, Debug)]
pub(super) struct Primitives {
    pub(super) mutexes: Vec<Mutex>,
    semaphores: Vec<Permits>,
    events: Vec<Event>,
    channels: Vec<Channel>,
    keys: BTreeMap<u64, Permits>,
    now: u64,
    /// Deadlines and sleepers, in the order in which the timers were made (T3).
    timers: Vec<(u64, Id)>,
}

impl Primitives {
    pub(super) fn new(settings: &Settings) -> Primitives {
        let channel = |&capacity: &u32| Channel {
            queue: VecDeque::new(),
            room: Permits::new(capacity, u32::MAX),
            messages: Permits::new(0, u32::MAX),
        };
        let semaphore = |&permits: &u32| Permits::new(permits, u32::MAX);
        Primitives {
            mutexes: vec![Mutex::default(); settings.mutexes],
            semaphores: settings.semaphores.iter().map(semaphore).collect(),
            events: vec![Event::default(); settings.events],
            channels: settings.channels.iter().map(channel).collect(),
            keys: BTreeMap::new(),
            now: 0,
            timers: Vec::new(),
        }
    }

    fn permits(&mut self, pool: Pool) -> Option<&mut Permits> {
        match pool {
            Pool::Semaphore(s) => self.semaphores.get_mut(s),
            Pool::Key(key) => Some(self.keys.entry(key).or_insert(Permits::new(0, 1))), // K3, K4
            Pool::Room(c) => self.channels.get_mut(c).map(|c| &mut c.room),
            Pool::Messages(c) => self.channels.get_mut(c).map(|c| &mut c.messages),
        }
    }

    /// Tests whether the primitive that the operation names exists.
    fn exists(&self, op: Op) -> bool {
        match op {
            Op::Lock(m) | Op::Unlock(m) => m < self.mutexes.len(),
            Op::Acquire(s) | Op::Release(s) => s < self.semaphores.len(),
            Op::WaitEvent(e) | Op::Set(e) | Op::Reset(e) => e < self.events.len(),
            Op::Send(c, _) | Op::Receive(c) => c < self.channels.len(),
            _ => true,
        }
    }

    /// Returns the list in which the operation waits, if it has one.
    fn waiters(&mut self, op: Op) -> Option<&mut Vec<Id>> {
        match op {
            Op::Lock(m) => self.mutexes.get_mut(m).map(|m| &mut m.waiters),
            Op::WaitEvent(e) => self.events.get_mut(e).map(|e| &mut e.waiters),
            _ => self.permits(pool_of(op)?).map(|p| &mut p.waiters),
        }
    }
}

/// Returns the permits of which an operation takes one.
fn pool_of(op: Op) -> Option<Pool> {
    Some(match op {
        Op::Acquire(s) => Pool::Semaphore(s),
        Op::WaitKey(key) => Pool::Key(key),
        Op::Send(c, _) => Pool::Room(c),
        Op::Receive(c) => Pool::Messages(c),
        _ => return None,
    })
}

impl Model {
    pub(super) fn apply_waiting(&mut self, op: Op) -> Reply {
        if !self.primitives.exists(op) {
            return Reply::Invalid;
        }
        match op {
            Op::Set(event) => self.set_event(event),
            Op::Reset(event) => self.primitives.events[event].set = false,
            Op::SignalKey(key) => self.release(Pool::Key(key)),
            Op::Release(semaphore) => self.release_semaphore(semaphore),
            Op::Advance(now) => self.advance(now),
            Op::Detach(id) => return self.detach(id),
            Op::TakeResult(id) => return self.take_result(id),
            _ => {
                return match self.running {
                    Some(id) => self.apply_inside(id, op),
                    None => Reply::Invalid,
                };
            }
        }
        Reply::Done
    }

    fn apply_inside(&mut self, id: Id, op: Op) -> Reply {
        match op {
            Op::Unlock(mutex) => self.unlock(id, mutex),
            Op::Resume => match self.coroutines[id].waiting {
                Some(Waiting { op, granted: true }) => {
                    self.coroutines[id].waiting = None;
                    self.complete(id, op)
                }
                _ => {
                    self.end_pending(); // W7, N4, T4
                    Reply::Waits
                }
            },
            Op::Abandon => {
                self.drop_wait(id);
                Reply::Done
            }
            _ => self.begin(id, op),
        }
    }

    /// Takes the object that `op` wants, or waits for it.
    fn begin(&mut self, id: Id, op: Op) -> Reply {
        if let Op::Join(other) = op
            && (!self.has_handle(other) || self.joiner(other).is_some())
        {
            return Reply::Invalid;
        }
        if self.take(id, op) {
            return self.complete(id, op);
        }
        self.coroutines[id].waiting = Some(Waiting { op, granted: false });
        if let Op::Sleep(deadline) = op {
            self.primitives.timers.push((deadline, id));
        }
        if let Some(waiters) = self.primitives.waiters(op) {
            waiters.push(id);
        }
        self.update_levels(id); // I1
        self.end_pending();
        Reply::Waits
    }

    /// Takes the object that `op` wants, if it is there.
    fn take(&mut self, id: Id, op: Op) -> bool {
        match op {
            Op::Lock(m) => {
                let mutex = &mut self.primitives.mutexes[m];
                let free = mutex.holder.is_none(); // M1, M2
                if free {
                    mutex.holder = Some(id);
                }
                free
            }
            Op::WaitEvent(e) => self.primitives.events[e].set, // N7
            Op::Sleep(deadline) => deadline <= self.primitives.now, // T1
            Op::Join(other) => self.state(other) == State::Exited, // X5
            _ => {
                let permits = pool_of(op).and_then(|pool| self.primitives.permits(pool));
                permits.is_some_and(|permits| {
                    let there = permits.free > 0; // K1, N5, N10
                    permits.free -= u32::from(there);
                    there
                })
            }
        }
    }

    /// Completes `op`: the coroutine runs and owns the object.
    fn complete(&mut self, id: Id, op: Op) -> Reply {
        match op {
            Op::Lock(mutex) => self.coroutines[id].held.push(Held::Mutex(mutex)),
            Op::Acquire(semaphore) => self.coroutines[id].held.push(Held::Permit(semaphore)),
            Op::Send(c, message) => {
                self.primitives.channels[c].queue.push_back(message);
                self.release(Pool::Messages(c));
            }
            Op::Receive(c) => {
                let message = self.primitives.channels[c].queue.pop_front(); // N9
                self.release(Pool::Room(c));
                return message.map_or(Reply::Invalid, Reply::Received);
            }
            Op::Join(other) => return self.take_result(other),
            _ => {}
        }
        Reply::Done
    }

    /// Grants the waiter what it waits for, and wakes it.
    pub(super) fn grant(&mut self, id: Id) {
        if let Some(waiting) = &mut self.coroutines[id].waiting {
            waiting.granted = true;
        }
        self.wake(id);
    }

    /// Drops the future in which the coroutine waits (X9, N3, M7, T5, I4).
    pub(super) fn drop_wait(&mut self, id: Id) {
        let lent_to = self.donates_to(id);
        let Some(Waiting { op, granted }) = self.coroutines[id].waiting.take() else {
            return;
        };
        if let Some(waiters) = self.primitives.waiters(op) {
            waiters.retain(|&other| other != id);
        }
        self.primitives.timers.retain(|&(_, other)| other != id);
        if let Op::Join(other) = op {
            self.coroutines[other].handle = false; // X7
        }
        if let Some(lent_to) = lent_to {
            self.update_levels(lent_to);
        }
        match (granted, op) {
            (true, Op::Lock(mutex)) => self.hand_over(mutex),
            (true, _) => {
                if let Some(pool) = pool_of(op) {
                    self.release(pool);
                }
            }
            (false, _) => {}
        }
    }

    /// Returns the most urgent waiter by its present level, the first among equals (N1, M3).
    fn most_urgent(&self, waiters: &[Id]) -> Option<Id> {
        waiters.iter().copied().min_by_key(|&id| self.effective(id))
    }

    // M3 to M5
    fn hand_over(&mut self, m: usize) {
        let next = self.most_urgent(&self.primitives.mutexes[m].waiters);
        let mutex = &mut self.primitives.mutexes[m];
        let old = core::mem::replace(&mut mutex.holder, next);
        mutex.waiters.retain(|&id| Some(id) != next);
        if let Some(next) = next {
            if let Some(waiting) = &mut self.coroutines[next].waiting {
                waiting.granted = true; // it donates no more before levels are computed again
            }
            self.update_levels(next);
            self.wake(next);
        }
        if let Some(old) = old {
            self.update_levels(old);
        }
    }

    fn unlock(&mut self, id: Id, mutex: usize) -> Reply {
        match self.take_held(id, Held::Mutex(mutex)) {
            true => {
                self.hand_over(mutex);
                Reply::Done
            }
            false => Reply::Invalid,
        }
    }

    // N6
    fn release_semaphore(&mut self, semaphore: usize) {
        if let Some(id) = self.running {
            self.take_held(id, Held::Permit(semaphore));
        }
        self.release(Pool::Semaphore(semaphore));
    }

    /// Removes the latest such object that the coroutine holds. Returns false if there is none.
    fn take_held(&mut self, id: Id, what: Held) -> bool {
        let held = &mut self.coroutines[id].held;
        let at = held.iter().rposition(|&other| other == what);
        at.map(|at| held.remove(at)).is_some()
    }

    pub(super) fn give_back(&mut self, held: Held) {
        match held {
            Held::Mutex(mutex) => self.hand_over(mutex), // M6
            Held::Permit(semaphore) => self.release(Pool::Semaphore(semaphore)),
        }
    }

    /// Gives back one permit: to a waiter, or to the pool (N6, K2, K3, K5).
    fn release(&mut self, pool: Pool) {
        let Some(permits) = self.primitives.permits(pool) else {
            return;
        };
        let waiters = permits.waiters.clone();
        let next = self.most_urgent(&waiters);
        let Some(permits) = self.primitives.permits(pool) else {
            return;
        };
        match next {
            Some(next) => {
                permits.waiters.retain(|&id| id != next);
                self.grant(next);
            }
            None => permits.free = permits.free.saturating_add(1).min(permits.most),
        }
    }

    // N7, N8. In the order of arrival; a waiter's level decides through the queue that it goes to.
    fn set_event(&mut self, e: usize) {
        let event = &mut self.primitives.events[e];
        event.set = true;
        for id in core::mem::take(&mut event.waiters) {
            self.grant(id);
        }
    }

    // T2, T3, T6, T8
    fn advance(&mut self, now: u64) {
        let now = now.max(self.primitives.now);
        self.primitives.now = now;
        let mut due = self.primitives.timers.clone();
        due.retain(|&(deadline, _)| deadline <= now);
        due.sort_by_key(|&(deadline, _)| deadline); // stable: creation decides among equals
        self.primitives
            .timers
            .retain(|&(deadline, _)| deadline > now);
        for (_, id) in due {
            self.grant(id);
        }
    }

    fn has_handle(&self, id: Id) -> bool {
        self.coroutines.0.get(id.0).is_some_and(|c| c.handle)
    }

    /// Returns the coroutine that awaits the handle of `id`.
    pub(super) fn joiner(&self, id: Id) -> Option<Id> {
        self.ids().find(|&w| {
            self.coroutines[w]
                .waiting
                .is_some_and(|waiting| waiting.op == Op::Join(id))
        })
    }

    // X7
    fn detach(&mut self, id: Id) -> Reply {
        if !self.has_handle(id) || self.joiner(id).is_some() {
            return Reply::Invalid;
        }
        self.coroutines[id].handle = false;
        Reply::Done
    }

    // X5, X8
    fn take_result(&mut self, id: Id) -> Reply {
        if !self.has_handle(id) || self.joiner(id).is_some() {
            return Reply::Invalid;
        }
        match self.coroutines[id].outcome {
            None => Reply::NotYet,
            Some(outcome) => {
                self.coroutines[id].handle = false;
                Reply::Joined(outcome)
            }
        }
    }
}

impl Outcome {
    /// Returns its word in a trace.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Finished => "ok",
            Outcome::Cancelled => "cancelled",
            Outcome::Panicked => "panicked",
        }
    }
}
