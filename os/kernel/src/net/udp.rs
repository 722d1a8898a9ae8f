//! UDP sockets: from a port here to a port there.
use super::service;
use super::socket::{self, BUFFER, Endpoint, Kind, State, Way, within};
use super::table::TABLE;
use super::tcp;
use crate::executor::current_level;
use crate::failure::Failure;
use crate::failure::Transferred;
use crate::memory::OutOfMemory;
use crate::memory::account::{self, Account};
use crate::memory::user::{BadAddress, UserBuffer, UserMemory};
use crate::wait::{WaitMode, until};
use alloc::sync::Arc;
use corank_abi::error::{INVALID, NO_SOCKETS, TIMED_OUT, UNREACHABLE};
use corank_abi::net::{DATAGRAMS, SocketStatus, WAIT_LIMIT};
use core::net::Ipv4Addr;
use core::task::Poll;
use smoltcp::socket::udp;
use smoltcp::wire::IpEndpoint;

/// Datagrams that a socket keeps, and as many that are to be sent.
const DATAGRAMS_KEPT: usize = 16;
/// Bytes of the largest datagram: one that fits into a frame.
const LARGEST: usize = 1472;

/// The file of a UDP socket.
#[derive(Debug)]
pub(crate) struct Datagrams {
    socket: Arc<Endpoint>,
    port: u16,
    remote: Ipv4Addr,
    remote_port: u16,
}

/// Makes a socket between a port here, which must not be 0, and one there.
///
/// This account pays for it.
///
/// # Errors
/// When another socket has the port, there are too many, or no way to the address.
pub(crate) fn connect(
    account: &Arc<Account>,
    remote: Ipv4Addr,
    port: u16,
    remote_port: u16,
) -> Result<Arc<Datagrams>, Failure> {
    let way = Way::to(remote);
    if !service::leads(way) {
        return Err(Failure(UNREACHABLE));
    }
    const METADATA: usize = DATAGRAMS_KEPT * size_of::<udp::PacketMetadata>();
    const BUFFERS: usize = 2 * (BUFFER + METADATA);
    tcp::make_room(account, BUFFER);
    let made = socket::charge(account, BUFFERS).and_then(|charge| {
        let buffer = || {
            let metadata = alloc::vec![udp::PacketMetadata::EMPTY; DATAGRAMS_KEPT];
            Ok(udp::PacketBuffer::new(metadata, account::buffer(BUFFER)?))
        };
        let socket = udp::Socket::new(buffer()?, buffer()?);
        let level = current_level();
        Ok(Endpoint::new(way, Kind::Udp, level, socket, charge))
    });
    let socket = made.map_err(|OutOfMemory| Failure(NO_SOCKETS))?;
    TABLE.lock().add_datagrams(port, socket.clone())?;
    // From here on it is closed when this is dropped.
    let datagrams = Datagrams {
        socket,
        port,
        remote,
        remote_port,
    };
    let bound = datagrams.socket.state.lock().udp().bind(port);
    bound.map_err(|_| Failure(INVALID))?;
    Ok(Arc::new(datagrams))
}

/// Wakes readers and writers when a frame has come for the socket, or its time has come.
pub(super) fn notify_waiters(socket: &Endpoint, state: &mut State) {
    if state.udp().can_recv() {
        socket.readers.wake_all();
    }
    if state.udp().can_send() {
        socket.writers.wake_all();
    }
}

impl Datagrams {
    /// Reads one datagram, as [`Socket::read`](super::Socket::read).
    ///
    /// What does not fit into the buffer is lost.
    pub(super) async fn read(
        &self,
        memory: &UserMemory,
        mode: WaitMode,
        buffer: &mut UserBuffer,
    ) -> Transferred {
        self.socket
            .read_with(mode, |state| self.try_read(state, memory, buffer))
            .await
    }

    /// Reads as [`Socket::read_at_once`](super::Socket::read_at_once).
    pub(super) fn read_now(
        &self,
        memory: &UserMemory,
        buffer: &mut UserBuffer,
    ) -> Option<Transferred> {
        self.try_read(&mut self.socket.state.lock(), memory, buffer)
    }

    fn try_read(
        &self,
        state: &mut State,
        memory: &UserMemory,
        buffer: &mut UserBuffer,
    ) -> Option<Transferred> {
        let remote = self.remote();
        loop {
            let (data, from) = state.udp().recv().ok()?;
            if from.endpoint != remote {
                continue;
            }
            let count = data.len().min(buffer.length);
            let data = &data[..count];
            let written = memory.with_space(|space| space.write(buffer.address, data), Ok(()));
            return Some(written.map(|()| {
                buffer.advance(count);
                Ok(count)
            }));
        }
    }

    /// Writes one datagram, as [`Socket::write`](super::Socket::write).
    pub(super) async fn write(
        &self,
        memory: &UserMemory,
        mode: WaitMode,
        buffer: &mut UserBuffer,
    ) -> Transferred {
        self.socket.follow();
        let limit = self.socket.state.lock().wait_limit;
        let wanted = *buffer;
        let write = until(&self.socket.writers, mode, |turn| {
            let mut state = self.socket.state.lock();
            match self.try_write(&mut state, memory, wanted) {
                Some(written) => Poll::Ready(written),
                None => {
                    turn.wait(&state);
                    Poll::Pending
                }
            }
        });
        let written = within(limit, write)
            .await
            .unwrap_or(Ok(Err(Failure(TIMED_OUT))))?;
        if let Ok(count) = written {
            buffer.advance(count);
        }
        Ok(written)
    }

    /// Writes as [`Socket::write_at_once`](super::Socket::write_at_once).
    pub(super) fn write_now(&self, memory: &UserMemory, buffer: UserBuffer) -> Option<Transferred> {
        self.try_write(&mut self.socket.state.lock(), memory, buffer)
    }

    fn try_write(
        &self,
        state: &mut State,
        memory: &UserMemory,
        buffer: UserBuffer,
    ) -> Option<Transferred> {
        if buffer.length > LARGEST {
            return Some(Ok(Err(Failure(INVALID))));
        }
        let mut data = [0; LARGEST];
        let data = &mut data[..buffer.length];
        let read: Result<(), BadAddress> =
            memory.with_space(|space| space.read(buffer.address, data), Ok(()));
        if let Err(bad) = read {
            return Some(Err(bad));
        }
        match state.udp().send_slice(data, self.remote()) {
            Ok(()) => {
                self.socket.mark(state);
                Some(Ok(Ok(buffer.length)))
            }
            Err(udp::SendError::BufferFull) => None,
            Err(udp::SendError::Unaddressable) => Some(Ok(Err(Failure(UNREACHABLE)))),
        }
    }

    fn remote(&self) -> IpEndpoint {
        IpEndpoint::new(self.remote.into(), self.remote_port)
    }

    pub(super) fn set(&self, option: usize, value: usize) -> bool {
        if option == WAIT_LIMIT {
            self.socket.state.lock().wait_limit = value as u64;
        }
        option == WAIT_LIMIT
    }

    pub(super) fn status(&self) -> SocketStatus {
        SocketStatus {
            kind: DATAGRAMS,
            local_port: self.port.into(),
            remote_address: u32::from(self.remote).into(),
            remote_port: self.remote_port.into(),
            level: self.socket.level().into(),
            waiting: self.socket.state.lock().udp().recv_queue() as u64,
        }
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        // What was written is still sent, because the service has its share of the socket until
        // then.
        let removed = TABLE.lock().remove_datagrams(self.port);
        drop(removed);
        let mut state = self.socket.state.lock();
        state.orphan = true;
        self.socket.mark(&mut state);
    }
}
