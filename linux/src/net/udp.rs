//! UDP.

use std::io;
use std::net::{self, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use super::resolve::{self, Address};
use crate::async_fd::Async;

/// Sends and receives UDP datagrams. Any number of coroutines may use one at once.
#[derive(Debug)]
pub struct UdpSocket(Async<net::UdpSocket>);

impl UdpSocket {
    /// A socket at an address, or at the first that works of those that a name stands for.
    ///
    /// # Errors
    /// The address is in use, or not this machine's, or needs privileges; no descriptors.
    pub async fn bind(address: impl Address) -> io::Result<Self> {
        resolve::first(address, async |address| {
            Self::from_std(net::UdpSocket::bind(address)?)
        })
        .await
    }

    /// A socket from elsewhere.
    ///
    /// # Errors
    /// As [`Async::new`].
    pub fn from_std(socket: net::UdpSocket) -> io::Result<Self> {
        Async::new(socket).map(Self)
    }

    /// What is inside: for broadcast, multicast and their like.
    pub fn get_ref(&self) -> &net::UdpSocket {
        self.0.get_ref()
    }

    /// Where [`send`](Self::send) sends to, and [`recv`](Self::recv) receives from.
    ///
    /// # Errors
    /// The name cannot be resolved, or those of the system call.
    pub async fn connect(&self, address: impl Address) -> io::Result<()> {
        resolve::first(address, async |address| self.get_ref().connect(address)).await
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// Those of the system call.
    pub async fn send_to(&self, datagram: &[u8], to: SocketAddr) -> io::Result<usize> {
        (self.0)
            .write_with(|socket| socket.send_to(datagram, to))
            .await
    }

    /// Receives a datagram; what doesn't fit is lost. Dropping the future before it is ready loses nothing.
    ///
    /// # Errors
    /// Those of the system call.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.read_with(|socket| socket.recv_from(buffer)).await
    }

    /// Sends a datagram to where the socket is connected to.
    ///
    /// # Errors
    /// Those of the system call.
    pub async fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        self.0.write_with(|socket| socket.send(datagram)).await
    }

    /// Receives a datagram from where the socket is connected to; see [`recv_from`](Self::recv_from).
    ///
    /// # Errors
    /// Those of the system call.
    pub async fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_with(|socket| socket.recv(buffer)).await
    }

    /// The socket's address.
    ///
    /// # Errors
    /// Those of the system call.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.get_ref().local_addr()
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
