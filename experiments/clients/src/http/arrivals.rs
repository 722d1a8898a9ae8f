//! The order in which something arrives on connections.

use crate::server::{Connection, LIMIT};
use anyhow::{Result, ensure};
use rustix::event::epoll;
use std::os::fd::OwnedFd;

/// Connections, in the order in which they become ready.
///
/// The kernel puts a socket behind those that are ready already, so it makes no difference how late
/// this program polls.
#[derive(Debug)]
pub(crate) struct Arrivals(OwnedFd);

impl Arrivals {
    pub(crate) fn on(connections: &[Connection]) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (number, connection) in connections.iter().enumerate() {
            let number = epoll::EventData::new_u64(number as u64);
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
            epoll::add(&epoll, connection.stream(), number, flags)?;
        }
        Ok(Self(epoll))
    }

    /// Returns the next connection on which something comes, or the end; each is returned once.
    pub(crate) fn next(&self) -> Result<usize> {
        let mut next = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }];
        let limit = LIMIT.try_into()?;
        let came = epoll::wait(&self.0, &mut next, Some(&limit))?;
        ensure!(came == 1, "nothing comes");
        Ok(next[0].data.u64() as usize)
    }
}
