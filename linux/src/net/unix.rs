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

/// A connection within the machine. Closing it as a stream says that nothing more will be written.
#[derive(Debug)]
pub struct UnixStream(Async<net::UnixStream>);

/// Sends and receives datagrams within the machine.
#[derive(Debug)]
pub struct UnixDatagram(Async<net::UnixDatagram>);

impl UnixListener {
    /// Listens at a path, which is made, and stays when the listener is dropped.
    ///
    /// # Errors
    /// Something is at the path; no permission; no descriptors.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::from_std(net::UnixListener::bind(path)?)
    }

    /// A listener from elsewhere.
    ///
    /// # Errors
    /// As [`Async::new`].
    pub fn from_std(listener: net::UnixListener) -> io::Result<Self> {
        Ok(Self {
            listener: Async::new(listener)?,
            acceptor: Acceptor::default(),
        })
    }

    /// The next connection.
    ///
    /// # Errors
    /// See [`TcpListener::accept`](super::TcpListener::accept).
    pub async fn accept(&self) -> io::Result<UnixStream> {
        let (stream, _) = self.acceptor.accept(&self.listener).await?;
        let stream = Async::of_non_blocking(stream.into());
        Ok(UnixStream(self.acceptor.pause_after(stream)?))
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Those of the system call.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.get_ref().local_addr()
    }
}

impl UnixStream {
    /// Connects to who listens at a path.
    ///
    /// # Errors
    /// Nobody listens, or too many wait there already (`WouldBlock`); no permission; no descriptors.
    pub fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // Never under way: it is connected, or refused.
        connect(&socket, &SocketAddrUnix::new(path.as_ref())?)?;
        Ok(Self(Async::of_non_blocking(socket.into())?))
    }

    /// Two connected ends.
    ///
    /// # Errors
    /// No descriptors.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = net::UnixStream::pair()?;
        Ok((Self::from_std(one)?, Self::from_std(other)?))
    }

    /// A connection from elsewhere.
    ///
    /// # Errors
    /// As [`Async::new`].
    pub fn from_std(stream: net::UnixStream) -> io::Result<Self> {
        Async::new(stream).map(Self)
    }

    /// What is inside.
    pub fn get_ref(&self) -> &net::UnixStream {
        self.0.get_ref()
    }

    /// Reads into memory that need not be initialised; returns how many bytes are written at its beginning.
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

    /// What is inside, for use elsewhere. It is still non-blocking.
    pub fn into_std(self) -> net::UnixStream {
        self.0.into_inner()
    }
}

crate::stream::read_by_attempts!(UnixStream);
crate::stream::write_by_attempts!(UnixStream, |stream| stream
    .get_ref()
    .shutdown(Shutdown::Write));

impl UnixDatagram {
    /// A socket at a path, which is made, and stays when the socket is dropped.
    ///
    /// # Errors
    /// Something is at the path; no permission; no descriptors.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::from_std(net::UnixDatagram::bind(path)?)
    }

    /// Two connected sockets.
    ///
    /// # Errors
    /// No descriptors.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = net::UnixDatagram::pair()?;
        Ok((Self::from_std(one)?, Self::from_std(other)?))
    }

    /// A socket from elsewhere.
    ///
    /// # Errors
    /// As [`Async::new`].
    pub fn from_std(socket: net::UnixDatagram) -> io::Result<Self> {
        Async::new(socket).map(Self)
    }

    /// What is inside.
    pub fn get_ref(&self) -> &net::UnixDatagram {
        self.0.get_ref()
    }

    /// Sends a datagram to where the socket is connected to.
    ///
    /// # Errors
    /// Those of the system call.
    pub async fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        self.0.write_with(|socket| socket.send(datagram)).await
    }

    /// Sends a datagram to who listens at a path.
    ///
    /// # Errors
    /// Those of the system call.
    pub async fn send_to(&self, datagram: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        let path = path.as_ref();
        (self.0)
            .write_with(|socket| socket.send_to(datagram, path))
            .await
    }

    /// Receives a datagram; what doesn't fit is lost.
    ///
    /// # Errors
    /// Those of the system call.
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
