//! Unix sockets.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::acceptor::Acceptor;
use crate::async_fd::Async;

/// Accepts connections at a path.
#[derive(Debug)]
pub struct UnixListener {
    listener: Async<net::UnixListener>,
    acceptor: Acceptor,
}

/// Sends and receives on a connection within the machine.
///
/// Closing it as a stream ends the direction that is written.
#[derive(Debug)]
pub struct UnixStream(Async<net::UnixStream>);

/// Sends and receives datagrams within the machine.
#[derive(Debug)]
pub struct UnixDatagram(Async<net::UnixDatagram>);

impl UnixListener {
    /// Listens at a path, which is created, and stays when the listener is dropped.
    ///
    /// # Errors
    /// Fails if the path exists, and without permission or descriptors.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::from_std(net::UnixListener::bind(path)?)
    }

    /// Registers an existing listener.
    ///
    /// # Errors
    /// Fails as [`Async::new`] does.
    pub fn from_std(listener: net::UnixListener) -> io::Result<Self> {
        Ok(Self {
            listener: Async::new(listener)?,
            acceptor: Acceptor::default(),
        })
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// Fails as [`TcpListener::accept`](super::TcpListener::accept) does.
    pub async fn accept(&self) -> io::Result<UnixStream> {
        let (stream, _) = self.acceptor.accept(&self.listener).await?;
        let stream = Async::of_non_blocking(stream.into());
        Ok(UnixStream(self.acceptor.pause_after(stream)?))
    }

    /// Returns the listener's address.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.get_ref().local_addr()
    }
}

impl UnixStream {
    /// Connects to the listener at a path.
    ///
    /// # Errors
    /// Fails if there is no listener, or too many connections wait there already (`WouldBlock`);
    /// and without permission or descriptors.
    pub fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // Never pending: it is connected, or refused.
        connect(&socket, &SocketAddrUnix::new(path.as_ref())?)?;
        Ok(Self(Async::of_non_blocking(socket.into())?))
    }

    /// Creates two connected streams.
    ///
    /// # Errors
    /// Fails without descriptors.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = net::UnixStream::pair()?;
        Ok((Self::from_std(one)?, Self::from_std(other)?))
    }

    /// Registers an existing connection.
    ///
    /// # Errors
    /// Fails as [`Async::new`] does.
    pub fn from_std(stream: net::UnixStream) -> io::Result<Self> {
        Async::new(stream).map(Self)
    }

    /// Returns the socket.
    pub fn get_ref(&self) -> &net::UnixStream {
        self.0.get_ref()
    }

    /// Reads into memory that need not be initialised; returns how many bytes are written at its
    /// beginning.
    #[cfg(feature = "hyper")]
    pub(crate) fn poll_read_into(
        &self,
        cx: &mut std::task::Context<'_>,
        room: &mut [std::mem::MaybeUninit<u8>],
    ) -> std::task::Poll<io::Result<usize>> {
        self.0.poll_read_with(cx, |stream| {
            Ok(rustix::io::read(stream, &mut *room)?.0.len())
        })
    }

    /// Returns the socket and ends its registration. It is still non-blocking.
    pub fn into_std(self) -> net::UnixStream {
        self.0.into_inner()
    }
}

crate::stream::read_by_attempts!(UnixStream);
crate::stream::write_by_attempts!(UnixStream, |stream| stream
    .get_ref()
    .shutdown(Shutdown::Write));

impl UnixDatagram {
    /// Binds a socket to a path, which is created, and stays when the socket is dropped.
    ///
    /// # Errors
    /// Fails if the path exists, and without permission or descriptors.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::from_std(net::UnixDatagram::bind(path)?)
    }

    /// Creates two connected sockets.
    ///
    /// # Errors
    /// Fails without descriptors.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = net::UnixDatagram::pair()?;
        Ok((Self::from_std(one)?, Self::from_std(other)?))
    }

    /// Registers an existing socket.
    ///
    /// # Errors
    /// Fails as [`Async::new`] does.
    pub fn from_std(socket: net::UnixDatagram) -> io::Result<Self> {
        Async::new(socket).map(Self)
    }

    /// Returns the socket.
    pub fn get_ref(&self) -> &net::UnixDatagram {
        self.0.get_ref()
    }

    /// Sends a datagram to the peer that the socket is connected to.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub async fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        self.0.write_with(|socket| socket.send(datagram)).await
    }

    /// Sends a datagram to the socket at a path.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub async fn send_to(&self, datagram: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        let path = path.as_ref();
        (self.0)
            .write_with(|socket| socket.send_to(datagram, path))
            .await
    }

    /// Receives a datagram; bytes that do not fit are lost.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub async fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_with(|socket| socket.recv(buffer)).await
    }
}

impl AsFd for UnixListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl AsFd for UnixStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for UnixDatagram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
