//! The network: TCP and UDP over IPv4.
//!
//! A call that may wait is a future, which suspends its coroutine alone. One that ends in
//! `_blocking` blocks the thread. A connection is an open file, and so calls on
//! [descriptors](crate::io::Fd) work on it.
//!
//! ```no_run
//! # use corank_user::{net::TcpListener, Error, spawn, Priority};
//! # async fn example() -> Result<(), Error> {
//! let listener = TcpListener::bind(7)?;
//! loop {
//!     let stream = listener.accept().await?;
//!     spawn(Priority::DEFAULT, async move {
//!         let mut buffer = Vec::with_capacity(1024);
//!         loop {
//!             let (count, data) = stream.read(buffer).await;
//!             if count? == 0 {
//!                 return Ok::<(), Error>(()); // the other side has sent all
//!             }
//!             buffer = stream.write_all(data).await?;
//!         }
//!     }).unwrap();
//! }
//! # }
//! ```
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::net::{Ipv4Addr, SocketAddrV4};
use core::ops::Deref;
use core::time::Duration;

use corank_abi::call;
use corank_abi::error::INVALID;
use corank_abi::net::{
    ANSWER_LIMIT, BACKLOG, BUFFER, CLOSE_BY_RESET, HANDSHAKE_LIMIT, LOW_WATER, ORPHAN_LIMIT,
    WAIT_LIMIT,
};
pub use corank_abi::net::{NetworkStatus, SocketStatus};

use crate::calls;
use crate::io::{Fd, OwnedFd};
use crate::raw::{self, Error, check, number_call};
use crate::ring::{self, Transferred};

/// A listening socket, where connections to a port are taken.
///
/// It is closed when it is dropped: connections that were not accepted are reset.
#[derive(Debug)]
pub struct TcpListener(OwnedFd);

impl TcpListener {
    /// Takes connections to a port, 0 for any that is free: see [`local_port`](Self::local_port).
    ///
    /// # Errors
    /// Another listener has the port.
    pub fn bind(port: u16) -> Result<Self, Error> {
        Self::with_backlog(port, BACKLOG)
    }

    /// Binds as [`bind`](Self::bind) does, with another number of connections that may wait to be
    /// accepted.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn with_backlog(port: u16, backlog: usize) -> Result<Self, Error> {
        let number = number_call(call::TCP_LISTEN, [port.into(), backlog, 0])?;
        Ok(Self(OwnedFd::from_number(number)))
    }

    /// Waits for a connection.
    ///
    /// Dropped early, it has taken none.
    ///
    /// # Errors
    /// The process has too many files open; the connection waits for another call.
    pub async fn accept(&self) -> Result<TcpStream, Error> {
        let number = calls::accept_async(self.0.number()).await?;
        Ok(TcpStream(OwnedFd::from_number(number)))
    }

    /// Waits for a connection, and blocks the thread.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn accept_blocking(&self) -> Result<TcpStream, Error> {
        let number = calls::accept(self.0.number())?;
        Ok(TcpStream(OwnedFd::from_number(number)))
    }

    /// Sets how many bytes each connection from now on keeps of what has come.
    ///
    /// It keeps as many of what is to be sent. The number is from
    /// [`BUFFER_LEAST`](corank_abi::net::BUFFER_LEAST) to
    /// [`BUFFER_MOST`](corank_abi::net::BUFFER_MOST), at first 8 KiB. A server with many
    /// connections and short messages needs less.
    ///
    /// # Errors
    /// The number is not one of these.
    pub fn set_buffer(&self, bytes: usize) -> Result<(), Error> {
        number_call(call::SOCKET_SET, [self.0.number(), BUFFER, bytes]).map(|_| ())
    }

    /// Limits the handshake of each connection from now on.
    ///
    /// The handshake fails after so long, in whole milliseconds; at first 20 seconds. Until then a
    /// client that falls silent in the middle of it takes one of the places for connections that
    /// wait to be accepted.
    ///
    /// # Errors
    /// None: a listener has this option.
    pub fn set_handshake_limit(&self, limit: Duration) -> Result<(), Error> {
        set(*self.0, HANDSHAKE_LIMIT, Some(limit))
    }

    /// Returns the port.
    ///
    /// # Errors
    /// None: a listener has one.
    pub fn local_port(&self) -> Result<u16, Error> {
        Ok(status_of(*self.0)?.local_port as u16)
    }
}

impl Deref for TcpListener {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.0
    }
}

/// A TCP connection.
///
/// Closed when it is dropped: in order, but with a reset if something that came was not read.
#[derive(Debug)]
pub struct TcpStream(OwnedFd);

impl TcpStream {
    /// Connects.
    ///
    /// Dropped early, it leaves no connection behind.
    ///
    /// # Errors
    /// Nothing listens or answers there, there is no way to the address, or the kernel has no room
    /// for another socket.
    pub async fn connect(to: SocketAddrV4) -> Result<Self, Error> {
        let number = calls::tcp_connect_async(bits(*to.ip()), to.port().into(), 0).await?;
        Ok(Self(OwnedFd::from_number(number)))
    }

    /// Connects, and blocks the thread.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn connect_blocking(to: SocketAddrV4) -> Result<Self, Error> {
        let number = calls::tcp_connect(bits(*to.ip()), to.port().into(), 0)?;
        Ok(Self(OwnedFd::from_number(number)))
    }

    /// Connects as [`connect_blocking`](Self::connect_blocking) does, but with another time for the
    /// other side to answer.
    ///
    /// It has so long, in whole milliseconds, instead of 20 seconds. A future is dropped instead.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn connect_blocking_within(to: SocketAddrV4, limit: Duration) -> Result<Self, Error> {
        let limit = milliseconds(limit)?;
        let number = calls::tcp_connect(bits(*to.ip()), to.port().into(), limit)?;
        Ok(Self(OwnedFd::from_number(number)))
    }

    /// Returns the connection behind a descriptor, which nothing else closes.
    #[must_use]
    pub fn from_descriptor(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Waits until something has come, and reads at most up to the buffer's capacity; 0 bytes are
    /// the end.
    ///
    /// Dropped early, it has read nothing.
    ///
    /// # Errors
    /// The connection was broken off.
    pub fn read(&self, buffer: Vec<u8>) -> impl Future<Output = Transferred> {
        ring::read(&self.0, buffer)
    }

    /// Waits until something has come, reads at most up to the buffer's length, and blocks the
    /// thread.
    ///
    /// 0 bytes are the end.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_blocking(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        Fd::read(*self.0, buffer)
    }

    /// Reads until `buffer` has `length` bytes or the end has come.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` would keep its arguments twice"
    )]
    pub fn read_exact(&self, buffer: Vec<u8>, length: usize) -> impl Future<Output = Transferred> {
        async move {
            let (count, data) = self.read_at_most(buffer, length).await;
            match count {
                // Most messages come in one piece: then nothing is copied, and the future has no
                // room for more.
                Ok(count) if count > 0 && count < length => {
                    Box::pin(self.read_rest(data, length)).await
                }
                count => (count, data),
            }
        }
    }

    /// Goes on reading until there are `length` bytes or the end has come.
    async fn read_rest(&self, mut whole: Vec<u8>, length: usize) -> Transferred {
        while whole.len() < length {
            let missing = length - whole.len();
            match self
                .read_at_most(Vec::with_capacity(missing), missing)
                .await
            {
                (Ok(0), _) => break,
                (Ok(_), piece) => whole.extend_from_slice(&piece),
                (Err(error), _) => return (Err(error), whole),
            }
        }
        (Ok(whole.len()), whole)
    }

    /// Waits until something has come, and reads at most `limit` bytes.
    ///
    /// The buffer's capacity is `limit` then.
    fn read_at_most(&self, mut buffer: Vec<u8>, limit: usize) -> impl Future<Output = Transferred> {
        if buffer.capacity() != limit {
            buffer = Vec::with_capacity(limit);
        }
        ring::read(&self.0, buffer)
    }

    /// Writes `data`; waits until the kernel has taken all of it.
    ///
    /// Dropped early, a part may have been written.
    ///
    /// # Errors
    /// The connection was broken off, or [`shutdown`](Self::shutdown) was called.
    pub fn write(&self, data: Vec<u8>) -> impl Future<Output = Transferred> {
        ring::write(&self.0, data)
    }

    /// Writes `data`, and blocks the thread until the kernel has taken all of it.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_blocking(&self, data: &[u8]) -> Result<usize, Error> {
        Fd::write(*self.0, data)
    }

    /// Writes as [`write`](Self::write) does, and fails if not all of `data` could be written.
    ///
    /// Gives the buffer back.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn write_all(&self, data: Vec<u8>) -> Result<Vec<u8>, Error> {
        let (count, data) = self.write(data).await;
        if count? < data.len() {
            return Err(Error::new(corank_abi::error::RESET));
        }
        Ok(data)
    }

    /// Ends the direction from here to there. The other side reads what was written, then the end.
    ///
    /// Never waits.
    ///
    /// # Errors
    /// The connection was broken off, or this was done before.
    pub fn shutdown(&self) -> Result<(), Error> {
        number_call(call::SHUTDOWN, [self.0.number(), 0, 0]).map(|_| ())
    }

    /// Closes it the next time that the kernel is entered.
    pub fn close(self) {
        ring::close(self.0);
    }

    /// Ends it at once, with a reset. What is in flight is lost.
    pub fn reset(self) {
        let _ = number_call(call::SOCKET_SET, [self.0.number(), CLOSE_BY_RESET, 1]);
    }

    /// Resets the connection when the other side leaves what was sent without an answer for so
    /// long, in whole milliseconds. `None` is never.
    ///
    /// # Errors
    /// None: a connection has this option.
    pub fn set_answer_limit(&self, limit: Option<Duration>) -> Result<(), Error> {
        set(*self.0, ANSWER_LIMIT, limit)
    }

    /// Limits how long the kernel keeps the connection when no program has it open any more.
    ///
    /// The limit is in whole milliseconds, at first a minute. The connection is kept so that the
    /// other side gets what was written, and the end. Then it is reset.
    ///
    /// # Errors
    /// None: a connection has this option.
    pub fn set_orphan_limit(&self, limit: Duration) -> Result<(), Error> {
        set(*self.0, ORPHAN_LIMIT, Some(limit))
    }

    /// Sets how many bytes must have come before a read returns, from now on.
    ///
    /// The number is from 1, as at first, to [`BUFFER_MOST`](corank_abi::net::BUFFER_MOST). A read
    /// waits for as many as it asks for if these are fewer. It gets fewer only if no more can come,
    /// or the connection's buffer is full. So a message that comes in several pieces is one read,
    /// and wakes its reader once.
    ///
    /// # Errors
    /// The number is not one of these.
    pub fn set_low_water(&self, bytes: usize) -> Result<(), Error> {
        number_call(call::SOCKET_SET, [self.0.number(), LOW_WATER, bytes]).map(|_| ())
    }

    /// Returns the other side's address.
    ///
    /// # Errors
    /// None: a connection has one.
    pub fn peer(&self) -> Result<SocketAddrV4, Error> {
        let status = status_of(*self.0)?;
        let address = Ipv4Addr::from_bits(status.remote_address as u32);
        Ok(SocketAddrV4::new(address, status.remote_port as u16))
    }
}

impl Deref for TcpStream {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.0
    }
}

/// A UDP socket, between a port here and one there.
///
/// Each read gives one datagram, and each write sends one.
#[derive(Debug)]
pub struct UdpSocket(OwnedFd);

impl UdpSocket {
    /// Returns a socket at `port`, for datagrams to and from `to`.
    ///
    /// # Errors
    /// Another socket has the port, or there is no way to the address: always
    /// [`FAILED`](call::FAILED).
    pub fn connect(port: u16, to: SocketAddrV4) -> Result<Self, Error> {
        let arguments = [bits(*to.ip()), port.into(), to.port().into()];
        let number = number_call(call::UDP_CONNECT, arguments)?;
        Ok(Self(OwnedFd::from_number(number)))
    }
}

impl Deref for UdpSocket {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.0
    }
}

/// Limits how long blocking calls on a socket, and accepting, wait, in whole milliseconds. `None`
/// is for ever.
///
/// A future is dropped instead.
///
/// # Errors
/// The descriptor is not a socket.
pub fn set_wait_limit(socket: Fd, limit: Option<Duration>) -> Result<(), Error> {
    set(socket, WAIT_LIMIT, limit)
}

fn set(socket: Fd, option: usize, limit: Option<Duration>) -> Result<(), Error> {
    let milliseconds = match limit {
        None => 0,
        Some(limit) => milliseconds(limit)?,
    };
    number_call(call::SOCKET_SET, [socket.number(), option, milliseconds]).map(|_| ())
}

/// Returns so many milliseconds, at least 1, because 0 has a meaning of its own.
fn milliseconds(limit: Duration) -> Result<usize, Error> {
    let milliseconds = usize::try_from(limit.as_millis()).map_err(|_| Error::new(INVALID))?;
    Ok(milliseconds.max(1))
}

/// Returns what is known of a socket.
///
/// # Errors
/// The descriptor is not a socket.
pub fn status_of(socket: Fd) -> Result<SocketStatus, Error> {
    let mut status = MaybeUninit::<SocketStatus>::uninit();
    let address = status.as_mut_ptr().expose_provenance();
    // SAFETY: the kernel writes a `SocketStatus` there, or fails.
    check(unsafe { raw::system_call(call::SOCKET_STATUS, [socket.number(), address, 0]) })?;
    // SAFETY: the call says that it has written one.
    Ok(unsafe { status.assume_init() })
}

/// Returns what is known of the network.
///
/// # Errors
/// The kernel has no memory for the call.
pub fn status() -> Result<NetworkStatus, Error> {
    let mut status = MaybeUninit::<NetworkStatus>::uninit();
    let address = status.as_mut_ptr().expose_provenance();
    // SAFETY: the kernel writes a `NetworkStatus` there.
    check(unsafe { raw::system_call(call::NETWORK_STATUS, [address, 0, 0]) })?;
    // SAFETY: the call has written one.
    Ok(unsafe { status.assume_init() })
}

fn bits(address: Ipv4Addr) -> usize {
    address.to_bits() as usize
}
