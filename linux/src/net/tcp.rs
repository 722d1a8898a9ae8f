//! TCP.

use std::io::{self, IoSliceMut, Read};
use std::net::{self, Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::AsyncRead;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use super::acceptor::Acceptor;
use super::resolve::{self, Address};
use crate::async_fd::Async;

/// Accepts TCP connections.
#[derive(Debug)]
pub struct TcpListener {
    listener: Async<net::TcpListener>,
    acceptor: Acceptor,
}

/// A TCP connection. Closing it as a stream says that nothing more will be written; the other end reads the end of the stream.
#[derive(Debug)]
pub struct TcpStream(Async<net::TcpStream>);

impl TcpListener {
    /// Listens at an address, or at the first that works of those that a name stands for.
    ///
    /// # Errors
    /// The address is in use, or not this machine's, or needs privileges; no descriptors.
    pub async fn bind(address: impl Address) -> io::Result<Self> {
        resolve::first(address, async |address| {
            Self::from_std(net::TcpListener::bind(address)?)
        })
        .await
    }

    /// A listener from elsewhere.
    ///
    /// # Errors
    /// As [`Async::new`].
    pub fn from_std(listener: net::TcpListener) -> io::Result<Self> {
        Ok(Self {
            listener: Async::new(listener)?,
            acceptor: Acceptor::default(),
        })
    }

    /// The next connection, and where it comes from.
    ///
    /// A connection that ends before it is accepted is passed over.
    ///
    /// # Errors
    /// No descriptors (`EMFILE`, `ENFILE`) or no memory: then the connection waits. The next call
    /// tries again after a pause of 10 ms, so a loop that only goes on does not spin.
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

    /// Where it listens: with the port that the system chose, if that was left to it.
    ///
    /// # Errors
    /// Those of the system call.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.get_ref().local_addr()
    }
}

impl TcpStream {
    /// Connects to an address, or to the first that answers of those that a name stands for.
    ///
    /// # Errors
    /// Refused, unreachable, timed out; no descriptors.
    pub async fn connect(address: impl Address) -> io::Result<Self> {
        resolve::first(address, Self::connect_to).await
    }

    /// As [`connect`](Self::connect), without asking for a name.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_to(address: SocketAddr) -> io::Result<Self> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        // Registered before it connects: there is one event for that, whenever it comes.
        let stream = Self(Async::of_connecting(net::TcpStream::from(socket))?);
        match connect(&stream, &address) {
            Ok(()) => {}
            Err(rustix::io::Errno::INPROGRESS) => {
                stream.0.writable().await?;
                sockopt::socket_error(&stream)??;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(stream)
    }

    /// A connection from elsewhere.
    ///
    /// # Errors
    /// As [`Async::new`].
    pub fn from_std(stream: net::TcpStream) -> io::Result<Self> {
        Async::new(stream).map(Self)
    }

    /// What is inside: for `set_nodelay` and its like.
    pub fn get_ref(&self) -> &net::TcpStream {
        self.0.get_ref()
    }

    /// What is inside, for use elsewhere. It is still non-blocking.
    pub fn into_std(self) -> net::TcpStream {
        self.0.into_inner()
    }

    /// Sends small messages at once instead of waiting for more (`TCP_NODELAY`).
    ///
    /// # Errors
    /// Those of the system call.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.get_ref().set_nodelay(nodelay)
    }

    /// This end's address.
    ///
    /// # Errors
    /// Those of the system call.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.get_ref().local_addr()
    }

    /// The other end's address.
    ///
    /// # Errors
    /// Those of the system call.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.get_ref().peer_addr()
    }

    /// Reads into memory that need not be initialised; returns how many bytes are written at its beginning.
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

    /// Waits until there is something to read, and leaves it there.
    ///
    /// # Errors
    /// Those of the system call.
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
