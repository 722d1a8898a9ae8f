//! TCP listeners and streams.

use std::io::{self, IoSliceMut, Read};
use std::net::{self, Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::acceptor::Acceptor;
use super::resolve::{self, Address};
use super::socket::{BACKLOG, TcpSocket};
use crate::async_fd::Async;
use futures_io::AsyncRead;

/// Accepts TCP connections.
#[derive(Debug)]
pub struct TcpListener {
    listener: Async<net::TcpListener>,
    acceptor: Acceptor,
}

/// Sends and receives on a TCP connection.
///
/// Closing it as a stream ends the direction that is written; the other end then reads the end of
/// the stream.
#[derive(Debug)]
pub struct TcpStream(Async<net::TcpStream>);

impl TcpListener {
    /// Listens at an address, or at the first address of a name that works.
    ///
    /// Up to [`BACKLOG`] connections wait to be accepted. The address may be one whose former
    /// connections are still closing. [`TcpSocket`] has other settings.
    ///
    /// # Errors
    /// Fails if the address is in use, is not this machine's, or needs privileges; and without
    /// descriptors.
    pub async fn bind(address: impl Address) -> io::Result<Self> {
        resolve::first(address, async |address| {
            let socket = TcpSocket::for_address(address)?;
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(BACKLOG)
        })
        .await
    }

    /// Registers an existing listener.
    ///
    /// # Errors
    /// Fails as [`Async::new`] does.
    pub fn from_std(listener: net::TcpListener) -> io::Result<Self> {
        Ok(Self {
            listener: Async::new(listener)?,
            acceptor: Acceptor::default(),
        })
    }

    /// Registers a listener that is known not to block.
    pub(super) fn of_non_blocking(listener: net::TcpListener) -> io::Result<Self> {
        Ok(Self {
            listener: Async::of_non_blocking(listener)?,
            acceptor: Acceptor::default(),
        })
    }

    /// Waits for the next connection; returns it and its peer's address.
    ///
    /// A connection that ends before it is accepted is passed over.
    ///
    /// # Errors
    /// Fails without descriptors (`EMFILE`, `ENFILE`) or memory: then the connection waits in the
    /// kernel, and a server should go on. The next call tries again after a pause of 10 ms, as
    /// after any other error, so a loop that reports the error and continues does not spin.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = self.acceptor.accept(&self.listener).await?;
        let stream = net::TcpStream::from(stream);
        let peer = match peer.map(SocketAddr::try_from) {
            Some(Ok(peer)) => peer,
            _ => stream.peer_addr()?,
        };
        let stream = self.acceptor.pause_after(Async::of_non_blocking(stream))?;
        Ok((TcpStream(stream), peer))
    }

    /// Returns the listener's address, with the port that the system chose if 0 was asked for.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.get_ref().local_addr()
    }
}

impl TcpStream {
    /// Connects to an address, or to the first address of a name that answers.
    ///
    /// # Errors
    /// Fails if the connection is refused, unreachable or timed out; and without descriptors.
    pub async fn connect(address: impl Address) -> io::Result<Self> {
        resolve::first(address, Self::connect_to).await
    }

    /// Connects as [`connect`](Self::connect) does, to an address that needs no resolver.
    ///
    /// # Errors
    /// Fails as [`connect`](Self::connect) does.
    pub async fn connect_to(address: SocketAddr) -> io::Result<Self> {
        TcpSocket::for_address(address)?.connect(address).await
    }

    /// Wraps a registered connection.
    pub(super) fn of(stream: Async<net::TcpStream>) -> Self {
        Self(stream)
    }

    /// Registers an existing connection.
    ///
    /// # Errors
    /// Fails as [`Async::new`] does.
    pub fn from_std(stream: net::TcpStream) -> io::Result<Self> {
        Async::new(stream).map(Self)
    }

    /// Returns the socket, for `set_nodelay` and other options.
    pub fn get_ref(&self) -> &net::TcpStream {
        self.0.get_ref()
    }

    /// Returns the socket and ends its registration. It is still non-blocking.
    pub fn into_std(self) -> net::TcpStream {
        self.0.into_inner()
    }

    /// Sends small messages at once instead of waiting for more (`TCP_NODELAY`).
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.get_ref().set_nodelay(nodelay)
    }

    /// Returns this end's address.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.get_ref().local_addr()
    }

    /// Returns the other end's address.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.get_ref().peer_addr()
    }

    /// Reads into memory that need not be initialised; returns how many bytes are written at its
    /// beginning.
    #[cfg(feature = "hyper")]
    pub(crate) fn poll_read_into(
        &self,
        cx: &mut Context<'_>,
        room: &mut [std::mem::MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        let size = room.len();
        self.0.poll_read_stream(cx, size, |stream| {
            let flags = rustix::net::RecvFlags::empty();
            Ok(rustix::net::recv(stream, &mut *room, flags)?.0.0.len())
        })
    }

    /// Waits until there is data to read; copies it and leaves it in the socket.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_with(|stream| stream.peek(buffer)).await
    }
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsyncRead for &TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let room = buffer.len();
        (self.0).poll_read_stream(cx, room, |mut stream| stream.read(buffer))
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let room = buffers.iter().map(|buffer| buffer.len()).sum();
        (self.0).poll_read_stream(cx, room, |mut stream| stream.read_vectored(buffers))
    }
}

crate::stream::read_by_value!(TcpStream);
crate::stream::write_by_attempts!(TcpStream, |stream| stream
    .get_ref()
    .shutdown(Shutdown::Write));
