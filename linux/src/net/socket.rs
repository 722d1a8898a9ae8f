//! A TCP socket with options, before it listens or connects.

use std::io;
use std::net::{self, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, listen, socket_with,
    sockopt,
};

use super::tcp::{TcpListener, TcpStream};
use crate::async_fd::Async;

/// Limits the connections that wait to be accepted by a listener that names no other limit.
///
/// The system caps it at `net.core.somaxconn`, which is 4096 unless it was changed. If more
/// connections arrive before they are accepted, clients try again, a second later and more.
pub const BACKLOG: u32 = 4096;

/// Holds a TCP socket, for options that are set before it listens or connects.
///
/// ```
/// use corank_linux::net::TcpSocket;
///
/// # let runtime = corank_linux::Runtime::new()?;
/// # runtime.block_on(async {
/// let socket = TcpSocket::new_v4()?;
/// socket.set_reuseaddr(true)?;
/// socket.set_reuseport(true)?;
/// socket.bind("127.0.0.1:0".parse().expect("an address"))?;
/// let listener = socket.listen(1024)?;
///
/// let socket = TcpSocket::new_v4()?;
/// socket.set_nodelay(true)?;
/// socket.set_send_buffer_size(64 * 1024)?;
/// let stream = socket.connect(listener.local_addr()?).await?;
/// # drop(stream);
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TcpSocket(OwnedFd);

impl TcpSocket {
    /// Creates a socket for IPv4.
    ///
    /// # Errors
    /// Fails without descriptors or memory.
    pub fn new_v4() -> io::Result<Self> {
        Self::of(AddressFamily::INET)
    }

    /// Creates a socket for IPv6.
    ///
    /// # Errors
    /// Fails without descriptors or memory, and if the system has no IPv6.
    pub fn new_v6() -> io::Result<Self> {
        Self::of(AddressFamily::INET6)
    }

    /// Creates a socket that can be bound or connected to an address.
    ///
    /// # Errors
    /// Fails as [`new_v4`](Self::new_v4) and [`new_v6`](Self::new_v6) do.
    pub fn for_address(address: SocketAddr) -> io::Result<Self> {
        match address {
            SocketAddr::V4(_) => Self::new_v4(),
            SocketAddr::V6(_) => Self::new_v6(),
        }
    }

    fn of(family: AddressFamily) -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        Ok(Self(socket))
    }

    /// Sets whether the socket may be bound to an address whose former connections are still
    /// closing (`SO_REUSEADDR`).
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn set_reuseaddr(&self, reuse: bool) -> io::Result<()> {
        Ok(sockopt::set_socket_reuseaddr(&self.0, reuse)?)
    }

    /// Returns what [`set_reuseaddr`](Self::set_reuseaddr) has set.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn reuseaddr(&self) -> io::Result<bool> {
        Ok(sockopt::socket_reuseaddr(&self.0)?)
    }

    /// Sets whether other sockets may be bound to the same address, among which the system shares
    /// the connections (`SO_REUSEPORT`).
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn set_reuseport(&self, reuse: bool) -> io::Result<()> {
        Ok(sockopt::set_socket_reuseport(&self.0, reuse)?)
    }

    /// Returns what [`set_reuseport`](Self::set_reuseport) has set.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn reuseport(&self) -> io::Result<bool> {
        Ok(sockopt::socket_reuseport(&self.0)?)
    }

    /// Sets whether small messages are sent at once instead of waiting for more (`TCP_NODELAY`).
    ///
    /// Connections that a listener accepts inherit it.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        Ok(sockopt::set_tcp_nodelay(&self.0, nodelay)?)
    }

    /// Returns what [`set_nodelay`](Self::set_nodelay) has set.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(sockopt::tcp_nodelay(&self.0)?)
    }

    /// Sets whether the system probes a silent connection, and ends it if the other end is gone
    /// (`SO_KEEPALIVE`).
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn set_keepalive(&self, keepalive: bool) -> io::Result<()> {
        Ok(sockopt::set_socket_keepalive(&self.0, keepalive)?)
    }

    /// Returns what [`set_keepalive`](Self::set_keepalive) has set.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn keepalive(&self) -> io::Result<bool> {
        Ok(sockopt::socket_keepalive(&self.0)?)
    }

    /// Sets the size of the buffer for data that is sent, in bytes (`SO_SNDBUF`).
    ///
    /// Linux doubles it, and caps it at `net.core.wmem_max`.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn set_send_buffer_size(&self, bytes: usize) -> io::Result<()> {
        Ok(sockopt::set_socket_send_buffer_size(&self.0, bytes)?)
    }

    /// Returns the size of the buffer for data that is sent, in bytes.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn send_buffer_size(&self) -> io::Result<usize> {
        Ok(sockopt::socket_send_buffer_size(&self.0)?)
    }

    /// Sets the size of the buffer for data that is received, in bytes (`SO_RCVBUF`).
    ///
    /// Linux doubles it, and caps it at `net.core.rmem_max`.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn set_recv_buffer_size(&self, bytes: usize) -> io::Result<()> {
        Ok(sockopt::set_socket_recv_buffer_size(&self.0, bytes)?)
    }

    /// Returns the size of the buffer for data that is received, in bytes.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn recv_buffer_size(&self) -> io::Result<usize> {
        Ok(sockopt::socket_recv_buffer_size(&self.0)?)
    }

    /// Binds the socket to an address of this machine; port 0 lets the system choose one.
    ///
    /// # Errors
    /// Fails if the address is in use, is not this machine's, or needs privileges.
    pub fn bind(&self, address: SocketAddr) -> io::Result<()> {
        Ok(bind(&self.0, &address)?)
    }

    /// Returns the socket's address.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        SocketAddr::try_from(getsockname(&self.0)?).map_err(Into::into)
    }

    /// Listens for connections, of which up to `backlog` wait to be accepted; see [`BACKLOG`].
    ///
    /// # Errors
    /// Fails if another socket listens at the address, and as [`Async::new`] does.
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        listen(&self.0, i32::try_from(backlog).unwrap_or(i32::MAX))?;
        TcpListener::of_non_blocking(net::TcpListener::from(self.0))
    }

    /// Connects to an address.
    ///
    /// # Errors
    /// Fails if the connection is refused, unreachable or timed out, and as [`Async::new`] does.
    pub async fn connect(self, address: SocketAddr) -> io::Result<TcpStream> {
        // Registered before it connects: so there is one event for that, whenever it comes.
        let stream = Async::of_connecting(net::TcpStream::from(self.0))?;
        match connect(&stream, &address) {
            Ok(()) => {}
            Err(rustix::io::Errno::INPROGRESS) => {
                stream.writable().await?;
                sockopt::socket_error(&stream)??;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(TcpStream::of(stream))
    }
}

impl AsFd for TcpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<TcpSocket> for OwnedFd {
    /// Returns the socket, which is non-blocking, for other options.
    fn from(socket: TcpSocket) -> Self {
        socket.0
    }
}
