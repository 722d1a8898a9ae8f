//! What is left to the service: sockets that have something to send, by level.
use super::socket::Endpoint;
use crate::process::priority;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use corank::{Priority, Remote};
use core::task::Waker;
use spin::Mutex;

const LEAST_URGENT: u8 = 63;

#[derive(Debug)]
pub(super) struct Work {
    /// By level, then in the order in which they were marked.
    marked: BTreeMap<(u8, u64), Arc<Endpoint>>,
    last: u64,
    /// The service.
    pub(super) service: Option<Remote>,
    /// The level that the service has.
    level: u8,
    /// Wakes the service if it waits for something to do.
    idle: Option<Waker>,
}

pub(super) static WORK: Mutex<Work> = Mutex::new(Work {
    marked: BTreeMap::new(),
    last: 0,
    service: None,
    level: 0,
    idle: None,
});

/// Frames have come, or some have been sent.
pub(crate) fn interrupt() {
    let mut work = WORK.lock();
    work.rise_to(Priority::MOST_URGENT.level());
    work.wake();
}

impl Work {
    /// Puts a socket behind those of its level, and sees to it that the service comes.
    pub(super) fn push(&mut self, level: u8, socket: Arc<Endpoint>) {
        self.last += 1;
        self.marked.insert((level, self.last), socket);
        self.rise_to(level);
        self.wake();
    }

    /// The most urgent socket.
    pub(super) fn pop(&mut self) -> Option<Arc<Endpoint>> {
        Some(self.marked.pop_first()?.1)
    }

    /// The service is about to wait, or to give way: from now on it is as urgent as the most urgent socket in the queue. Whether there is
    /// one.
    pub(super) fn settle(&mut self, waker: &Waker) -> bool {
        let level = self.marked.keys().next().map(|(level, _)| *level);
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
