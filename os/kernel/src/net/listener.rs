//! Listeners: ports at which connections are taken.
use super::socket::{BUFFER, within};
use super::table::{TABLE, find_port};
use super::tcp::{Connection, HANDSHAKE_LIMIT, limit};
use super::work::{Abandoned, WORK};
use crate::executor::current_level;
use crate::failure::Failure;
use crate::lock::Mutex;
use crate::memory::OutOfMemory;
use crate::memory::account::{self, Account, Charge};
use crate::wait::{WaitMode, WaitQueue, until};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use corank_abi::error::{NO_SOCKETS, TIMED_OUT};
use corank_abi::net::{
    BUFFER as BUFFER_OPTION, BUFFER_LEAST, BUFFER_MOST, HANDSHAKE_LIMIT as HANDSHAKE, LISTENER,
    SocketStatus, WAIT_LIMIT,
};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use core::task::Poll;

/// The file of a listener.
///
/// When it is dropped, connections that were not accepted are reset.
#[derive(Debug)]
pub(crate) struct Listener {
    port: u16,
    /// How many connections may wait to be accepted.
    backlog: usize,
    /// The level of the coroutine that waited on it last.
    ///
    /// Connections that are not accepted yet have this level.
    level: AtomicU8,
    wait_limit: AtomicU64,
    /// Bytes of each buffer of connections that come.
    buffer: AtomicUsize,
    /// Milliseconds that the handshake of a connection may take.
    handshake_limit: AtomicU32,
    queue: Mutex<Queue>,
    acceptors: WaitQueue,
    /// Pays for the connections that come, until they are closed.
    account: Arc<Account>,
    charge: Charge,
}

#[derive(Debug, Default)]
struct Queue {
    /// Connections that wait to be accepted, oldest first.
    ready: VecDeque<Arc<Connection>>,
    /// How many handshakes are under way.
    pending: usize,
}

/// Takes connections to a port, 0 for any that is free.
///
/// This account pays for the listener and the connections.
///
/// # Errors
/// When another listener has the port, or there is no memory.
pub(crate) async fn listen(
    account: &Arc<Account>,
    port: u16,
    backlog: usize,
) -> Result<Arc<Listener>, Failure> {
    find_port(|| listen_at_once(account, port, backlog)).await
}

/// Does what [`listen`] does if a free port need not be searched for long.
///
/// Returns `None` if it must.
pub(crate) fn listen_at_once(
    account: &Arc<Account>,
    port: u16,
    backlog: usize,
) -> Result<Option<Arc<Listener>>, Failure> {
    let level = current_level();
    // With the listener's place in the table.
    let charge = account::charge(account, account::of::<Listener>() + 128);
    let charge = charge.map_err(|OutOfMemory| Failure(NO_SOCKETS))?;
    TABLE.lock().listen(port, |port| Listener {
        port,
        backlog: backlog.clamp(1, super::table::MOST),
        level: AtomicU8::new(level),
        wait_limit: AtomicU64::new(0),
        buffer: AtomicUsize::new(BUFFER),
        handshake_limit: AtomicU32::new(HANDSHAKE_LIMIT),
        queue: Mutex::default(),
        acceptors: WaitQueue::new(),
        account: account.clone(),
        charge,
    })
}

impl Listener {
    pub(super) fn level(&self) -> u8 {
        self.level.load(Ordering::Relaxed)
    }

    /// Returns the account that pays for a connection that comes now.
    pub(super) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Returns the bytes of each buffer of a connection that comes now.
    pub(super) fn buffer(&self) -> usize {
        self.buffer.load(Ordering::Relaxed)
    }

    /// Returns the milliseconds that a handshake may take that begins now.
    pub(super) fn handshake_limit(&self) -> u32 {
        self.handshake_limit.load(Ordering::Relaxed)
    }

    /// Counts a handshake that begins.
    ///
    /// Returns false if too many connections wait already, or there is no memory for one more in
    /// the queue. What that costs is part of the connection's charge.
    pub(super) fn begin(&self) -> bool {
        let mut queue = self.queue.lock();
        let places = queue.pending + 1;
        let has_room = queue.ready.len() + queue.pending < self.backlog
            && queue.ready.try_reserve(places).is_ok();
        queue.pending += usize::from(has_room);
        has_room
    }

    /// Counts a handshake that was broken off.
    pub(super) fn lose(&self) {
        self.queue.lock().pending -= 1;
    }

    /// Adds a connection whose handshake is done.
    pub(super) fn offer(&self, connection: Arc<Connection>) {
        let mut queue = self.queue.lock();
        queue.pending -= 1;
        queue.ready.push_back(connection);
        self.acceptors.wake_all();
    }

    /// Takes the oldest connection, for which `open` finds a place.
    ///
    /// Waits until there is one. Dropped early, it has taken none.
    ///
    /// # Errors
    /// What `open` says; the connection stays. When it has waited as long as it may.
    pub(crate) async fn accept(
        &self,
        mode: WaitMode,
        mut open: impl FnMut(Arc<Connection>) -> Result<usize, Failure>,
    ) -> Result<usize, Failure> {
        self.level.store(current_level(), Ordering::Relaxed);
        let accept = until(&self.acceptors, mode, |turn| {
            let mut queue = self.queue.lock();
            match Self::take(&mut queue, &mut open) {
                Some(accepted) => Poll::Ready(accepted),
                None => {
                    turn.wait(&queue);
                    Poll::Pending
                }
            }
        });
        within(self.wait_limit.load(Ordering::Relaxed), accept)
            .await
            .unwrap_or(Err(Failure(TIMED_OUT)))
    }

    /// Does what [`Listener::accept`] does if that need not wait.
    pub(crate) fn accept_now(
        &self,
        mut open: impl FnMut(Arc<Connection>) -> Result<usize, Failure>,
    ) -> Option<Result<usize, Failure>> {
        Self::take(&mut self.queue.lock(), &mut open)
    }

    fn take(
        queue: &mut Queue,
        open: &mut impl FnMut(Arc<Connection>) -> Result<usize, Failure>,
    ) -> Option<Result<usize, Failure>> {
        let opened = open(queue.ready.front()?.clone());
        if opened.is_ok() {
            queue.ready.pop_front();
        }
        Some(opened)
    }

    pub(super) fn set(&self, option: usize, value: usize) -> bool {
        match option {
            WAIT_LIMIT => self.wait_limit.store(value as u64, Ordering::Relaxed),
            BUFFER_OPTION if (BUFFER_LEAST..=BUFFER_MOST).contains(&value) => {
                self.buffer.store(value, Ordering::Relaxed);
            }
            HANDSHAKE if value > 0 => self.handshake_limit.store(limit(value), Ordering::Relaxed),
            _ => return false,
        }
        true
    }

    pub(super) fn status(&self) -> SocketStatus {
        let queue = self.queue.lock();
        SocketStatus {
            kind: LISTENER,
            local_port: self.port.into(),
            level: self.level().into(),
            waiting: (queue.ready.len() + queue.pending) as u64,
            ..SocketStatus::default()
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        TABLE.lock().remove_listener(self.port);
        let ready = core::mem::take(&mut self.queue.get_mut().ready);
        if !ready.is_empty() {
            // There may be thousands, so the service resets them, a few in each of its turns.
            let charge = core::mem::replace(&mut self.charge, Charge::none());
            WORK.lock().abandon(Abandoned {
                level: self.level(),
                connections: ready,
                _charge: charge,
            });
        }
    }
}
