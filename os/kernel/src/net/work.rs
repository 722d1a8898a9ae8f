//! What is left to the service: sockets that have something to send, by level, and connections of
//! listeners that are gone.
use super::socket::Endpoint;
use super::tcp::Connection;
use crate::executor::priority;
use crate::lock::Mutex;
use crate::memory::account::Charge;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use corank::{Priority, Remote};
use core::task::Waker;

const LEVELS: usize = 64;
/// Places that the queue of a level keeps while it is empty.
const KEPT: usize = 16;
const LEAST_URGENT: u8 = LEVELS as u8 - 1;

/// Connections of a listener that is gone, which nothing has accepted.
///
/// They are to be reset.
#[derive(Debug)]
pub(super) struct Abandoned {
    /// The listener's level.
    pub(super) level: u8,
    pub(super) connections: VecDeque<Arc<Connection>>,
    /// What the listener cost.
    pub(super) _charge: Charge,
}

#[derive(Debug)]
pub(super) struct Work {
    /// By level, in the order in which they were marked.
    marked: [VecDeque<Arc<Endpoint>>; LEVELS],
    /// In the order in which their listeners were closed.
    abandoned: VecDeque<Abandoned>,
    /// The levels that have any, a bit each.
    levels: u64,
    /// Where the next reserved turn begins its search.
    cursor: u8,
    /// The service.
    pub(super) service: Option<Remote>,
    /// The level that the service has.
    level: u8,
    /// Wakes the service if it waits for something to do.
    idle: Option<Waker>,
}

pub(super) static WORK: Mutex<Work> = Mutex::new(Work {
    marked: [const { VecDeque::new() }; LEVELS],
    abandoned: VecDeque::new(),
    levels: 0,
    cursor: 0,
    service: None,
    level: 0,
    idle: None,
});

/// Tests whether the service has something to send, and waits for its turn.
pub(crate) fn has_something_to_send() -> bool {
    WORK.lock().is_waiting()
}

/// Wakes the service, because frames have come, or some have been sent.
pub(crate) fn interrupt() {
    let mut work = WORK.lock();
    work.rise_to(Priority::MOST_URGENT.level());
    work.wake();
}

impl Work {
    /// Puts a socket behind those of its level, and makes sure that the service runs.
    pub(super) fn push(&mut self, level: u8, socket: Arc<Endpoint>) {
        self.marked[usize::from(level)].push_back(socket);
        self.levels |= 1 << level;
        self.rise_to(level);
        self.wake();
    }

    /// Leaves the connections of a listener to the service.
    pub(super) fn abandon(&mut self, abandoned: Abandoned) {
        let level = abandoned.level;
        self.abandoned.push_back(abandoned);
        self.rise_to(level);
        self.wake();
    }

    /// Takes one of the connections whose listeners are gone.
    ///
    /// The caller drops it when nothing is locked, and that resets it.
    pub(super) fn pop_abandoned(&mut self) -> Option<Arc<Connection>> {
        let first = self.abandoned.front_mut()?;
        let connection = first.connections.pop_front();
        if first.connections.is_empty() {
            self.abandoned.pop_front();
            if self.abandoned.is_empty() {
                // What a listener is charged for its place is that of one.
                self.abandoned = VecDeque::new();
            }
        }
        connection
    }

    /// Takes the most urgent socket, if it is as urgent as the service is now.
    ///
    /// For others the service yields to whatever is more urgent than they are.
    pub(super) fn pop_urgent(&mut self) -> Option<Arc<Endpoint>> {
        let level = self.most_urgent().filter(|level| *level <= self.level)?;
        self.pop(level)
    }

    /// Takes a socket of the next level in turn that has one.
    ///
    /// So what was written is sent some time, whatever the more urgent ones do. Each turn of the
    /// service brings the first of a level forward that waits behind at most 63 others.
    pub(super) fn pop_reserved(&mut self) -> Option<Arc<Endpoint>> {
        let behind = self.levels & (u64::MAX << self.cursor);
        let levels = if behind == 0 { self.levels } else { behind };
        if levels == 0 {
            return None;
        }
        let level = levels.trailing_zeros() as u8;
        self.cursor = (level + 1) % LEVELS as u8;
        self.pop(level)
    }

    /// Tests whether a socket waits for its turn.
    pub(super) fn is_waiting(&self) -> bool {
        self.levels != 0
    }

    fn pop(&mut self, level: u8) -> Option<Arc<Endpoint>> {
        let queue = &mut self.marked[usize::from(level)];
        let socket = queue.pop_front();
        if queue.is_empty() {
            self.levels &= !(1 << level);
            if queue.capacity() > KEPT {
                // What a socket is charged for its place is that of one level.
                *queue = VecDeque::new();
            }
        }
        socket
    }

    fn most_urgent(&self) -> Option<u8> {
        let marked = (self.levels != 0).then(|| self.levels.trailing_zeros() as u8);
        let abandoned = self.abandoned.front().map(|first| first.level);
        marked.into_iter().chain(abandoned).min()
    }

    /// Makes the service as urgent as the most urgent socket in the queue, and returns whether
    /// there is one.
    ///
    /// The service is about to wait, or to yield.
    pub(super) fn prepare_to_wait(&mut self, waker: &Waker) -> bool {
        let level = self.most_urgent();
        self.set_level(level.unwrap_or(LEAST_URGENT));
        if level.is_none() {
            self.idle = Some(waker.clone());
        }
        level.is_some()
    }

    fn rise_to(&mut self, level: u8) {
        if level < self.level {
            self.set_level(level);
        }
    }

    fn set_level(&mut self, level: u8) {
        if let Some(service) = self.service.as_ref().filter(|_| level != self.level) {
            service.reprioritize(priority(level));
            self.level = level;
        }
    }

    fn wake(&mut self) {
        if let Some(service) = self.idle.take() {
            service.wake();
        }
    }
}
