//! UDP sockets.

use std::io;
use std::net::{self, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use super::resolve::{self, Address};
use crate::async_fd::Async;

/// Sends and receives UDP datagrams. Any number of coroutines may use one at once.
#[derive(Debug)]
pub struct UdpSocket(Async<net::UdpSocket>);

impl UdpSocket {
    /// Binds a socket to an address, or to the first address of a name that works.
    ///
    /// # Errors
    /// Fails if the address is in use, is not this machine's, or needs privileges; and without
    /// descriptors.
    pub async fn bind(address: impl Address) -> io::Result<Self> {
        resolve::first(address, async |address| {
            Self::from_std(net::UdpSocket::bind(address)?)
        })
        .await
    }

    /// Registers an existing socket.
    ///
    /// # Errors
    /// Fails as [`Async::new`] does.
    pub fn from_std(socket: net::UdpSocket) -> io::Result<Self> {
        Async::new(socket).map(Self)
    }

    /// Returns the socket, for broadcast, multicast and other options.
    pub fn get_ref(&self) -> &net::UdpSocket {
        self.0.get_ref()
    }

    /// Sets the peer: [`send`](Self::send) sends to it, and [`recv`](Self::recv) receives from it.
    ///
    /// # Errors
    /// Fails if the name cannot be resolved; returns the errors of the system call.
    pub async fn connect(&self, address: impl Address) -> io::Result<()> {
        resolve::first(address, async |address| self.get_ref().connect(address)).await
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub async fn send_to(&self, datagram: &[u8], to: SocketAddr) -> io::Result<usize> {
        (self.0)
            .write_with(|socket| socket.send_to(datagram, to))
            .await
    }

    /// Receives a datagram; bytes that do not fit are lost.
    ///
    /// Dropping the future before it is ready loses nothing.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.read_with(|socket| socket.recv_from(buffer)).await
    }

    /// Sends a datagram to the peer that the socket is connected to.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub async fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        self.0.write_with(|socket| socket.send(datagram)).await
    }

    /// Receives a datagram from the peer that the socket is connected to; see
    /// [`recv_from`](Self::recv_from).
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub async fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_with(|socket| socket.recv(buffer)).await
    }

    /// Returns the socket's address.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.get_ref().local_addr()
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
