//! A socket as the service and its file share it.
use super::listener::Listener;
use super::table::{Key, TABLE};
use super::work::WORK;
use crate::clock;
use crate::executor::current_level;
use crate::failure::Failure;
use crate::failure::Transferred;
use crate::lock::Mutex;
use crate::memory::OutOfMemory;
use crate::memory::account::{self, Account, Charge};
use crate::pending_read::Slot;
use crate::wait::{WaitMode, WaitQueue, until};
use alloc::sync::{Arc, Weak};
use corank_abi::error::TIMED_OUT;
use core::fmt;
use core::future::poll_fn;
use core::net::Ipv4Addr;
use core::pin::pin;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use core::task::Poll;
use smoltcp::iface::{SocketHandle, SocketSet, SocketStorage};
use smoltcp::socket::{AnySocket, tcp, udp};

/// Bytes that a socket keeps of what has come, and as many of what is to be sent.
///
/// Another size may be asked for.
pub(super) const BUFFER: usize = 8 << 10;

/// The interface that a socket's frames go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Out of the machine.
    Card = 0,
    /// Back to it.
    Loopback = 1,
}

impl Way {
    /// Returns the way to an address.
    pub(super) fn to(address: Ipv4Addr) -> Way {
        if address.is_loopback() {
            Way::Loopback
        } else {
            Way::Card
        }
    }
}

/// What kind of socket it is, and what its frames are known by.
#[derive(Debug)]
pub(super) enum Kind {
    /// One end of a connection.
    ///
    /// The listener is the one that it was made for, if this side did not begin it.
    Tcp {
        key: Key,
        listener: Option<Weak<Listener>>,
    },
    /// A UDP socket.
    Udp,
}

/// A socket.
pub(super) struct Endpoint {
    /// The number that tells it from all others.
    pub id: u64,
    pub way: Way,
    pub kind: Kind,
    /// The level of the coroutine that waited on it last.
    level: AtomicU8,
    pub state: Mutex<State>,
    /// Woken when there is something to read, or never will be.
    pub readers: WaitQueue,
    /// Woken when there is room to write, or never will be.
    pub writers: WaitQueue,
    _charge: Charge,
}

/// What a socket costs beside its buffers, with its places in the table, among the timers and in
/// queues.
const COST: usize = account::of::<Endpoint>() + account::of::<SocketStorage<'_>>() + 1024;

/// Charges this account for a socket with so many bytes of buffers.
///
/// # Errors
/// When there is no memory for them.
pub(super) fn charge(account: &Arc<Account>, buffers: usize) -> Result<Charge, OutOfMemory> {
    account::charge(account, COST + buffers)
}

/// What its lock guards.
///
/// The thread that holds the lock may take those of a listener, the table and the work, in this
/// order.
pub(super) struct State {
    /// The socket of the stack, alone.
    pub sockets: SocketSet<'static>,
    handle: SocketHandle,
    /// It stands in the service's queue.
    pub marked: bool,
    /// A read that waits without a coroutine.
    pub pending_read: Slot,
    /// When the service is to check it again, in microseconds.
    pub due: Option<u64>,
    /// When the service's timer for it goes off, which is then or before.
    pub timer: Option<u64>,
    /// Why nothing comes and goes any more: a number of [`corank_abi::error`].
    pub failure: Option<isize>,
    /// The connection is to be begun.
    pub opening: bool,
    /// Its handshake is not finished, and its listener counts it.
    pub pending: bool,
    /// No program has it open.
    pub orphan: bool,
    /// Its number among the connections that only wait for old frames, while it is one of them.
    pub fading: Option<u64>,
    /// When it is given up, in microseconds.
    pub deadline: Option<u64>,
    /// [`corank_abi::net::WAIT_LIMIT`]
    pub wait_limit: u64,
    /// [`corank_abi::net::ANSWER_LIMIT`]
    pub answer_limit: u32,
    /// [`corank_abi::net::ORPHAN_LIMIT`]
    pub orphan_limit: u32,
    /// [`corank_abi::net::CLOSE_BY_RESET`]
    pub closes_by_reset: bool,
    /// [`corank_abi::net::LOW_WATER`]
    pub low_water: usize,
    /// How many bytes the waiting readers ask for at least.
    ///
    /// What is too little for all of them wakes none.
    pub awaited: usize,
}

impl Endpoint {
    pub(super) fn new(
        way: Way,
        kind: Kind,
        level: u8,
        socket: impl AnySocket<'static>,
        charge: Charge,
    ) -> Arc<Endpoint> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let mut sockets = SocketSet::new(alloc::vec![SocketStorage::EMPTY]);
        let handle = sockets.add(socket);
        Arc::new(Endpoint {
            id: LAST.fetch_add(1, Ordering::Relaxed),
            way,
            kind,
            level: AtomicU8::new(level),
            state: Mutex::new(State {
                sockets,
                handle,
                marked: false,
                pending_read: Slot::new(),
                due: None,
                timer: None,
                failure: None,
                opening: false,
                pending: false,
                orphan: false,
                fading: None,
                deadline: None,
                wait_limit: 0,
                answer_limit: super::tcp::ANSWER_LIMIT,
                orphan_limit: super::tcp::ORPHAN_LIMIT,
                closes_by_reset: false,
                low_water: 1,
                awaited: usize::MAX,
            }),
            readers: WaitQueue::new(),
            writers: WaitQueue::new(),
            _charge: charge,
        })
    }

    /// Returns the level at which the service sends for it.
    pub(super) fn level(&self) -> u8 {
        self.level.load(Ordering::Relaxed)
    }

    /// Takes on the level of the calling coroutine, which is about to wait on it.
    pub(super) fn follow(&self) {
        self.set_level(current_level());
    }

    /// Takes on the level of a coroutine that waits on it.
    pub(super) fn set_level(&self, level: u8) {
        self.level.store(level, Ordering::Relaxed);
    }

    /// Removes its connection from the table, so that frames of that are not its own any more.
    ///
    /// The caller has not locked the table.
    pub(super) fn forget(self: &Arc<Endpoint>) {
        let Kind::Tcp { key, .. } = &self.kind else {
            return;
        };
        let mut table = TABLE.lock();
        // Its place may belong to another socket by now.
        let is_own = |known: &Arc<Endpoint>| Arc::ptr_eq(known, self);
        if table.connection(key).as_ref().is_some_and(is_own) {
            table.remove_connection(key);
        }
    }

    /// Reads as soon as `attempt` finds something, or until the socket's time limit for calls.
    ///
    /// Dropped early, it has read nothing.
    pub(super) async fn read_with(
        &self,
        mode: WaitMode,
        mut attempt: impl FnMut(&mut State) -> Option<Transferred>,
    ) -> Transferred {
        self.follow();
        let limit = self.state.lock().wait_limit;
        let read = until(&self.readers, mode, |turn| {
            let mut state = self.state.lock();
            match attempt(&mut state) {
                Some(read) => Poll::Ready(read),
                None => {
                    turn.wait(&state);
                    Poll::Pending
                }
            }
        });
        within(limit, read)
            .await
            .unwrap_or(Ok(Err(Failure(TIMED_OUT))))
    }

    /// Leaves it to the service.
    ///
    /// The caller holds its lock.
    pub(super) fn mark(self: &Arc<Endpoint>, state: &mut State) {
        if !core::mem::replace(&mut state.marked, true) {
            WORK.lock().push(self.level(), self.clone());
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl State {
    /// Returns the TCP socket.
    ///
    /// # Panics
    /// If it is another one.
    pub(super) fn tcp(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// Returns the UDP socket.
    ///
    /// # Panics
    /// If it is another one.
    pub(super) fn udp(&mut self) -> &mut udp::Socket<'static> {
        self.sockets.get_mut(self.handle)
    }
}

/// Waits for `call`, but no longer than so many milliseconds, if that is not 0.
///
/// Returns `None` if that was not enough.
pub(super) async fn within<T>(milliseconds: u64, call: impl Future<Output = T>) -> Option<T> {
    let deadline = match milliseconds {
        0 => u64::MAX,
        limit => clock::after(limit),
    };
    let mut call = pin!(call);
    let mut sleep = pin!(clock::sleep_until(deadline));
    poll_fn(|context| match call.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => sleep.as_mut().poll(context).map(|()| None),
    })
    .await
}
