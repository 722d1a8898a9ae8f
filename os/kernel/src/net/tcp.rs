//! TCP connections.
use super::listener::Listener;
use super::service::{self, Cause};
use super::socket::{self, BUFFER, Endpoint, Kind, State, Way, within};
use super::table::{Key, TABLE, find_port};
use crate::clock;
use crate::executor::current_level;
use crate::failure::Failure;
use crate::failure::Transferred;
use crate::memory::OutOfMemory;
use crate::memory::account::{self, Account, Charge};
use crate::memory::user::{BadAddress, UserBuffer, UserMemory};
use crate::pending_read::{EndedRead, PendingRead, Slot};
use crate::wait::{WaitMode, until};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use corank_abi::error::{NO_SOCKETS, REFUSED, RESET, SHUT_DOWN, TIMED_OUT, UNREACHABLE};
use corank_abi::net::{
    ANSWER_LIMIT as ANSWER, BUFFER_MOST, CLOSE_BY_RESET, CONNECTION, LOW_WATER,
    ORPHAN_LIMIT as ORPHAN, ORPHAN_MOST, SocketStatus, WAIT_LIMIT,
};
use core::net::Ipv4Addr;
use core::task::Poll;
use smoltcp::iface::Context;
use smoltcp::socket::tcp;
use smoltcp::socket::tcp::State as Phase;
use smoltcp::time::Duration;
use smoltcp::wire::IpEndpoint;

/// Milliseconds that the other side may leave what was sent without an answer.
///
/// Another limit may be asked for.
pub(super) const ANSWER_LIMIT: u32 = 60_000;
/// Milliseconds that a handshake may take, if no other limit was asked for.
pub(super) const HANDSHAKE_LIMIT: u32 = 20_000;
/// Milliseconds that a connection may go on that no program has open any more.
///
/// Another limit may be asked for.
pub(super) const ORPHAN_LIMIT: u32 = 60_000;

/// The longest segment on an Ethernet.
///
/// With room for fewer bytes than this, and than half the buffer, the other side may wait for more
/// (RFC 9293, 3.8.6.2.1).
const SEGMENT: usize = 1460;

/// The file of a connection.
///
/// When it is dropped, the connection is closed in order, or with a reset if something that came
/// was not read. So the other side does not take it for read.
#[derive(Debug)]
pub(crate) struct Connection(Arc<Endpoint>);

/// Makes a socket with two buffers of so many bytes, and the charge for it.
fn new_socket(
    account: &Arc<Account>,
    buffer: usize,
) -> Result<(tcp::Socket<'static>, Charge), OutOfMemory> {
    let charge = socket::charge(account, 2 * buffer)?;
    let buffer = || account::buffer(buffer).map(tcp::SocketBuffer::new);
    let mut socket = tcp::Socket::new(buffer()?, buffer()?);
    // Programs write whole messages, so nothing is gained by waiting for more.
    socket.set_nagle_enabled(false);
    Ok((socket, charge))
}

/// Converts so many milliseconds, as a program asks for them.
pub(super) fn limit(milliseconds: usize) -> u32 {
    u32::try_from(milliseconds).unwrap_or(u32::MAX)
}

/// Returns when so many milliseconds will have passed, in microseconds.
fn after(limit: u32) -> u64 {
    clock::microseconds() + 1000 * u64::from(limit)
}

/// Makes a connection from here, which this account pays for.
///
/// The other side has `milliseconds` to answer; 0 means [`HANDSHAKE_LIMIT`].
///
/// # Errors
/// When there is no way to the address, there is no listener or no answer, or there are too many
/// sockets.
pub(crate) async fn connect(
    account: &Arc<Account>,
    mode: WaitMode,
    remote: Ipv4Addr,
    remote_port: u16,
    milliseconds: usize,
) -> Result<Arc<Connection>, Failure> {
    let handshake_limit = match milliseconds {
        0 => HANDSHAKE_LIMIT,
        milliseconds => limit(milliseconds),
    };
    let way = Way::to(remote);
    if !service::leads(way) || remote_port == 0 || remote.is_unspecified() {
        return Err(Failure(UNREACHABLE));
    }
    make_room(account, BUFFER);
    let mut made = Some(new_socket(account, BUFFER).map_err(|_| Failure(NO_SOCKETS))?);
    let level = current_level();
    let connection = find_port(|| {
        let mut table = TABLE.lock();
        let Some(key) = table.free_key(remote, remote_port)? else {
            return Ok(None);
        };
        let kind = Kind::Tcp {
            key,
            listener: None,
        };
        let (tcp, charge) = made.take().expect("a port is found once");
        let socket = Endpoint::new(way, kind, level, tcp, charge);
        table.add_connection(key, socket.clone());
        Ok(Some(Arc::new(Connection(socket))))
    })
    .await?;
    let socket = &connection.0;
    {
        let mut state = socket.state.lock();
        state.opening = true;
        state.deadline = Some(after(handshake_limit));
        socket.mark(&mut state);
    }
    until(&socket.writers, mode, |turn| {
        let mut state = socket.state.lock();
        if let Some(failure) = state.failure {
            return Poll::Ready(Err(Failure(failure)));
        }
        match state.tcp().state() {
            _ if state.opening => {}
            Phase::SynSent | Phase::SynReceived => {}
            _ => return Poll::Ready(Ok(())),
        }
        turn.wait(&state);
        Poll::Pending
    })
    .await?;
    Ok(connection)
}

/// Begins a connection at a listener.
///
/// Returns the socket that answers, which the listener's account pays for.
///
/// # Errors
/// When there is no memory for it.
pub(super) fn answer(
    way: Way,
    key: Key,
    listener: &Arc<Listener>,
) -> Result<Arc<Endpoint>, OutOfMemory> {
    let (mut tcp, charge) = new_socket(listener.account(), listener.buffer())?;
    tcp.listen(key.local_port)
        .expect("a new socket can listen at a port that is not 0");
    let kind = Kind::Tcp {
        key,
        listener: Some(Arc::downgrade(listener)),
    };
    let socket = Endpoint::new(way, kind, listener.level(), tcp, charge);
    let mut state = socket.state.lock();
    state.pending = true;
    state.deadline = Some(after(listener.handshake_limit()));
    drop(state);
    Ok(socket)
}

/// Prepares a socket that the service is about to serve.
///
/// Begins its connection if that is due, and gives the stack the time for which the other side may
/// be silent.
pub(super) fn prepare(key: &Key, state: &mut State, context: &mut Context) {
    if core::mem::take(&mut state.opening) {
        let remote = IpEndpoint::new(key.remote.into(), key.remote_port);
        if state
            .tcp()
            .connect(context, remote, key.local_port)
            .is_err()
        {
            state.failure = Some(UNREACHABLE);
        }
    }
    let limit = u64::from(state.answer_limit);
    let tcp = state.tcp();
    // With nothing under way, silence means nothing.
    let is_due = tcp.send_queue() > 0 && limit > 0;
    tcp.set_timeout(is_due.then(|| Duration::from_millis(limit)));
}

/// Handles what has happened to the socket that was in the phase `before`.
///
/// Returns whether it is over, and has nothing more to say. A listener that is notified goes into
/// `used`, to be dropped without the socket's lock, because its own destructor takes that. A
/// pending read that ends by this goes into `served`.
pub(super) fn notify_waiters(
    socket: &Arc<Endpoint>,
    listener: Option<&Weak<Listener>>,
    state: &mut State,
    before: Phase,
    cause: Cause,
    used: &mut Vec<Arc<Listener>>,
    served: &mut Vec<EndedRead>,
) -> bool {
    let phase = state.tcp().state();
    if phase == Phase::Closed && before != Phase::Closed && state.failure.is_none() {
        state.failure = match (cause, before) {
            (_, Phase::LastAck | Phase::Closing | Phase::TimeWait) => None,
            (Cause::Frame, Phase::SynSent) => Some(REFUSED),
            (Cause::Frame, _) => Some(RESET),
            (Cause::Time, _) => Some(TIMED_OUT),
        };
    }
    let fin_is_under_way = matches!(phase, Phase::FinWait1 | Phase::Closing | Phase::LastAck);
    let handshake = matches!(phase, Phase::Listen | Phase::SynSent | Phase::SynReceived);
    if !state.orphan && !handshake && !fin_is_under_way && !state.opening {
        state.deadline = None;
    }
    if state.pending && phase != Phase::SynReceived {
        state.pending = false;
        match listener.and_then(Weak::upgrade) {
            // The handshake was broken off.
            Some(listener) if matches!(phase, Phase::Closed | Phase::Listen) => {
                state.tcp().abort();
                listener.lose();
                used.push(listener);
            }
            Some(listener) => {
                listener.offer(Arc::new(Connection(socket.clone())));
                used.push(listener);
            }
            None => {
                state.orphan = true;
                state.tcp().abort();
            }
        }
    }
    if state.orphan && state.tcp().can_recv() {
        // It is never read, and the other side must not take it for read.
        state.tcp().abort();
    }
    note_fading(socket, state);
    end_pending_read(socket, state, served);
    if is_readable(state, state.awaited) {
        state.awaited = usize::MAX;
        socket.readers.wake_all();
    }
    if state.failure.is_some() || !state.tcp().may_send() || state.tcp().can_send() {
        socket.writers.wake_all();
    }
    let tcp = state.tcp();
    // After a reset of ours has been sent, the stack forgets the other side.
    tcp.state() == Phase::Closed && tcp.remote_endpoint().is_none() && !state.opening
}

/// Tests whether no program has the socket open, and it only waits for old frames to die out
/// (TIME-WAIT).
pub(super) fn is_fading(socket: &Endpoint) -> bool {
    let mut state = socket.state.lock();
    let is_tcp = matches!(socket.kind, Kind::Tcp { .. });
    is_tcp && state.orphan && state.tcp().state() == Phase::TimeWait
}

/// Enters the connection among those that only wait for old frames, or removes it from them.
///
/// Its state decides. To be called after each change of that.
fn note_fading(socket: &Arc<Endpoint>, state: &mut State) {
    let fades = state.orphan && state.tcp().state() == Phase::TimeWait;
    match state.fading {
        None if fades => state.fading = Some(TABLE.lock().add_fading(socket.clone())),
        Some(number) if !fades => {
            state.fading = None;
            let removed = TABLE.lock().remove_fading(number);
            drop(removed);
        }
        _ => {}
    }
}

/// Makes room for another socket with two buffers of so many bytes, at the expense of this account.
///
/// The connection that has waited longest for old frames is ended, if there is one.
pub(super) fn make_room(account: &Arc<Account>, buffer: usize) {
    let oldest = {
        let table = TABLE.lock();
        if table.has_room() && account.charge(2 * buffer).is_ok() {
            return;
        }
        table.oldest_fading()
    };
    if let Some(fading) = oldest {
        end_fading(&fading);
        fading.forget();
    }
}

/// Ends such a socket without sending anything to the other side.
pub(super) fn end_fading(socket: &Arc<Endpoint>) {
    let mut state = socket.state.lock();
    let tcp = state.tcp();
    tcp.abort();
    // The stack forgets the other side when a socket is used again.
    let _ = tcp.listen(u16::MAX);
    tcp.abort();
    note_fading(socket, &mut state);
    socket.mark(&mut state);
}

/// Tests whether a read that asks for so many bytes need not wait.
fn is_readable(state: &mut State, wanted: usize) -> bool {
    let enough = wanted.min(state.low_water);
    let has_failed = state.failure.is_some();
    let tcp = state.tcp();
    if !tcp.can_recv() {
        return has_failed || !tcp.may_recv();
    }
    if tcp.recv_queue() >= enough || has_failed {
        return true;
    }
    // Fewer bytes than that are read only if no more will come, because the other side has ended
    // its direction, or waits for room.
    let may_send = matches!(
        tcp.state(),
        Phase::Established | Phase::FinWait1 | Phase::FinWait2
    );
    let room = tcp.recv_capacity() - tcp.recv_queue();
    !may_send || room < SEGMENT.min(tcp.recv_capacity() / 2)
}

/// Serves the pending read, if there is one and there is something for it.
fn end_pending_read(socket: &Arc<Endpoint>, state: &mut State, served: &mut Vec<EndedRead>) {
    let Some(mut pending) = state.pending_read.take() else {
        return;
    };
    match try_read(
        socket,
        state,
        pending.reader.memory(),
        &mut pending.call.buffer,
    ) {
        Some(read) => served.push(pending.done(read)),
        None => state.pending_read.put(pending),
    }
}

/// Reads what there is.
///
/// Returns `None` if that is not enough yet.
fn try_read(
    socket: &Arc<Endpoint>,
    state: &mut State,
    memory: &UserMemory,
    buffer: &mut UserBuffer,
) -> Option<Transferred> {
    if buffer.length == 0 {
        return Some(Ok(Ok(0)));
    }
    if !is_readable(state, buffer.length) {
        return None;
    }
    let failure = state.failure;
    let tcp = state.tcp();
    if !tcp.can_recv() {
        let end = failure.map_or(Ok(0), |failure| Err(Failure(failure)));
        return Some(Ok(end));
    }
    let was_full = tcp.recv_queue() >= tcp.recv_capacity() / 2;
    let wanted = buffer.length;
    let mut outcome = Ok(());
    // The bytes lie in up to two pieces. The second may be the one with a bad address.
    while buffer.length > 0 && tcp.can_recv() {
        let moved = tcp.recv(|bytes| {
            let count = bytes.len().min(buffer.length);
            let bytes = &bytes[..count];
            match memory.with_space(|space| space.write(buffer.address, bytes), Ok(())) {
                Ok(()) => (count, Ok(count)),
                Err(bad) => (0, Err(bad)),
            }
        });
        match moved {
            Ok(Ok(count)) => buffer.advance(count),
            Ok(Err(bad)) => {
                outcome = Err(bad);
                break;
            }
            Err(_) => break,
        }
    }
    if was_full {
        // The other side may be waiting for room. Otherwise it learns of it with the next frame.
        socket.mark(state);
    }
    Some(outcome.map(|()| Ok(wanted - buffer.length)))
}

impl Connection {
    /// Reads as [`Socket::read`](super::Socket::read).
    ///
    /// Dropped early, it has read nothing.
    pub(crate) async fn read(
        &self,
        memory: &UserMemory,
        mode: WaitMode,
        buffer: &mut UserBuffer,
    ) -> Transferred {
        self.0
            .read_with(mode, |state| {
                let read = try_read(&self.0, state, memory, buffer);
                if read.is_none() {
                    state.awaited = state.awaited.min(buffer.length);
                }
                read
            })
            .await
    }

    /// Reads as [`Socket::read_at_once`](super::Socket::read_at_once).
    pub(crate) fn read_now(
        &self,
        memory: &UserMemory,
        buffer: &mut UserBuffer,
    ) -> Option<Transferred> {
        try_read(&self.0, &mut self.0.state.lock(), memory, buffer)
    }

    /// Leaves a read pending.
    ///
    /// It comes back if it need not wait, may not wait for ever, or if others wait already.
    pub(crate) fn put_pending(&self, pending: PendingRead) -> Option<PendingRead> {
        let mut state = self.0.state.lock();
        let wanted = pending.call.buffer.length;
        let waits = wanted > 0 && !is_readable(&mut state, wanted) && state.wait_limit == 0;
        if !waits || state.pending_read.get().is_some() || !self.0.readers.is_empty() {
            return Some(pending);
        }
        self.0.set_level(pending.allowed_level());
        state.pending_read.put(pending);
        None
    }

    /// Gives access to where a read waits, to cancel it or to set its level.
    ///
    /// The socket's level follows.
    pub(crate) fn with_slot<T>(&self, use_it: impl FnOnce(&mut Slot) -> T) -> T {
        let mut state = self.0.state.lock();
        let result = use_it(&mut state.pending_read);
        if let Some(pending) = state.pending_read.get() {
            self.0.set_level(pending.allowed_level());
        }
        result
    }

    /// Writes as [`Socket::write`](super::Socket::write).
    ///
    /// Dropped early, it leaves the buffer as far advanced as bytes have been taken.
    pub(super) async fn write(
        &self,
        memory: &UserMemory,
        mode: WaitMode,
        buffer: &mut UserBuffer,
    ) -> Transferred {
        self.0.follow();
        let limit = self.0.state.lock().wait_limit;
        let wanted = buffer.length;
        let write = until(&self.0.writers, mode, |turn| {
            let mut state = self.0.state.lock();
            if let Err(failure) = can_write(&mut state) {
                return Poll::Ready(Ok(Err(failure)));
            }
            self.put(&mut state, memory, buffer)?;
            if buffer.length > 0 {
                turn.wait(&state);
                return Poll::Pending;
            }
            Poll::Ready(Ok(Ok(())))
        });
        let written = within(limit, write)
            .await
            .unwrap_or(Ok(Err(Failure(TIMED_OUT))))?;
        Ok(match written {
            Err(failure) if buffer.length == wanted => Err(failure),
            _ => Ok(wanted - buffer.length),
        })
    }

    /// Writes as [`Socket::write_at_once`](super::Socket::write_at_once).
    pub(super) fn write_now(
        &self,
        memory: &UserMemory,
        mut buffer: UserBuffer,
    ) -> Option<Transferred> {
        let mut state = self.0.state.lock();
        if let Err(failure) = can_write(&mut state) {
            return Some(Ok(Err(failure)));
        }
        let wanted = buffer.length;
        let tcp = state.tcp();
        if tcp.send_capacity() - tcp.send_queue() < wanted {
            return None;
        }
        let put = self.put(&mut state, memory, &mut buffer);
        Some(put.map(|()| Ok(wanted)))
    }

    /// Moves as much as there is room for from the program to the socket.
    ///
    /// Advances the buffer.
    fn put(
        &self,
        state: &mut State,
        memory: &UserMemory,
        buffer: &mut UserBuffer,
    ) -> Result<(), BadAddress> {
        let before = buffer.length;
        let mut outcome = Ok(());
        // The room lies in up to two pieces. The second may be the one with a bad address.
        while buffer.length > 0 && state.tcp().can_send() {
            let moved = state.tcp().send(|room| {
                let count = room.len().min(buffer.length);
                let room = &mut room[..count];
                match memory.with_space(|space| space.read(buffer.address, room), Ok(())) {
                    Ok(()) => (count, Ok(count)),
                    Err(bad) => (0, Err(bad)),
                }
            });
            match moved {
                Ok(Ok(count)) => buffer.advance(count),
                Ok(Err(bad)) => {
                    outcome = Err(bad);
                    break;
                }
                Err(_) => break,
            }
        }
        if buffer.length < before {
            self.0.mark(state);
        }
        outcome
    }

    /// Ends the direction from here to there.
    ///
    /// # Errors
    /// If the connection is over, or this was done before.
    pub(crate) fn shut_down(&self) -> Result<(), Failure> {
        let mut state = self.0.state.lock();
        can_write(&mut state)?;
        state.tcp().close();
        if state.answer_limit > 0 {
            state.deadline = Some(after(state.answer_limit));
        }
        self.0.mark(&mut state);
        Ok(())
    }

    /// Makes closing end it with a reset from now on.
    pub(super) fn close_by_reset(&self) {
        self.0.state.lock().closes_by_reset = true;
    }

    pub(super) fn set(&self, option: usize, value: usize) -> bool {
        let mut state = self.0.state.lock();
        match option {
            WAIT_LIMIT => state.wait_limit = value as u64,
            ANSWER => state.answer_limit = limit(value),
            ORPHAN if (1..=ORPHAN_MOST).contains(&value) => state.orphan_limit = limit(value),
            CLOSE_BY_RESET if value < 2 => state.closes_by_reset = value == 1,
            LOW_WATER if (1..=BUFFER_MOST).contains(&value) => state.low_water = value,
            _ => return false,
        }
        true
    }

    pub(super) fn status(&self) -> SocketStatus {
        let mut state = self.0.state.lock();
        let Kind::Tcp { key, .. } = &self.0.kind else {
            return SocketStatus::default();
        };
        SocketStatus {
            kind: CONNECTION,
            local_port: key.local_port.into(),
            remote_address: u32::from(key.remote).into(),
            remote_port: key.remote_port.into(),
            level: self.0.level().into(),
            waiting: state.tcp().recv_queue() as u64,
        }
    }
}

fn can_write(state: &mut State) -> Result<(), Failure> {
    if let Some(failure) = state.failure {
        return Err(Failure(failure));
    }
    if !state.tcp().may_send() {
        return Err(Failure(SHUT_DOWN));
    }
    Ok(())
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.orphan = true;
        state.deadline = Some(after(state.orphan_limit));
        let by_reset = state.closes_by_reset || core::mem::take(&mut state.opening);
        let tcp = state.tcp();
        let is_opening = matches!(tcp.state(), Phase::SynSent | Phase::SynReceived);
        if by_reset || is_opening || tcp.can_recv() {
            tcp.abort();
        } else {
            tcp.close();
        }
        note_fading(&self.0, &mut state);
        self.0.mark(&mut state);
    }
}
