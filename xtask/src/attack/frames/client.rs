//! The good client: it connects to `echo-server` again and again, and has one more connection for
//! orders.

use super::wire::Wire;
use crate::os::lan::MACHINE;
use anyhow::{Result, ensure};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpCidr, Ipv4Address};
use std::time::SystemTime;

/// This computer's addresses.
const ADDRESS: Ipv4Address = Ipv4Address::new(10, 0, 2, 2);
const CARD: EthernetAddress = EthernetAddress([0x52, 0x55, 10, 0, 2, 2]);
/// The server's ports.
const ECHO: u16 = 7;
const ORDERS: u16 = 9;
/// Bytes that a connection sends and gets back: more than one frame holds.
const LENGTH: usize = 5000;
const BUFFER: usize = 8192;
/// The first port of connections.
const FIRST_PORT: u16 = 40_000;

pub(super) struct Client {
    wire: Wire,
    interface: Interface,
    sockets: SocketSet<'static>,
    orders: SocketHandle,
    echo: SocketHandle,
    /// The number of connections that have begun.
    connections: u16,
    /// The numbers of bytes that this connection has sent and received.
    sent: usize,
    received: usize,
    is_ending: bool,
}

fn now() -> Instant {
    SystemTime::now().into()
}

impl Client {
    pub(super) fn new(mut wire: Wire) -> Self {
        let interface = Interface::new(Config::new(CARD.into()), &mut wire, now());
        let mut sockets = SocketSet::new(Vec::new());
        let socket = || {
            let buffer = || SocketBuffer::new(vec![0; BUFFER]);
            Socket::new(buffer(), buffer())
        };
        let [orders, echo] = [(); 2].map(|()| sockets.add(socket()));
        let mut client = Self {
            wire,
            interface,
            sockets,
            orders,
            echo,
            connections: 0,
            sent: 0,
            received: 0,
            is_ending: false,
        };
        client.interface.update_ip_addrs(|addresses| {
            addresses
                .push(IpCidr::new(ADDRESS.into(), 24))
                .expect("room for an address");
        });
        client.connect(orders, ORDERS, FIRST_PORT - 1);
        client
    }

    pub(super) fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    fn connect(&mut self, socket: SocketHandle, port: u16, from: u16) {
        let socket = self.sockets.get_mut::<Socket<'_>>(socket);
        socket.abort();
        socket
            .connect(self.interface.context(), (MACHINE, port), from)
            .expect("the socket is closed, and the ports are good");
    }

    /// Returns the state of the current connection, as text for people.
    pub(super) fn state(&self) -> String {
        self.sockets
            .get::<Socket<'_>>(self.echo)
            .state()
            .to_string()
    }

    /// Tests whether the server takes orders from this client.
    pub(super) fn has_orders(&mut self) -> bool {
        self.sockets.get_mut::<Socket<'_>>(self.orders).may_send()
    }

    /// Orders the server to end, once.
    pub(super) fn end_server(&mut self) {
        if !std::mem::replace(&mut self.is_ending, true) {
            let orders = self.sockets.get_mut::<Socket<'_>>(self.orders);
            let _ = orders.send_slice(b"end\n");
            self.sockets.get_mut::<Socket<'_>>(self.echo).abort();
        }
    }

    /// Runs one turn of all connections.
    ///
    /// Returns `true` if all bytes of another connection have come back.
    ///
    /// # Errors
    /// When other bytes come back, or the server aborts a connection.
    pub(super) fn turn(&mut self) -> Result<bool> {
        self.interface
            .poll(now(), &mut self.wire, &mut self.sockets);
        if self.is_ending {
            // The server keeps a connection until both sides have closed it.
            let orders = self.sockets.get_mut::<Socket<'_>>(self.orders);
            if orders.state() == State::CloseWait {
                orders.close();
            }
            return Ok(false);
        }
        if !self.has_orders() {
            return Ok(false);
        }
        let connection = self.connections;
        let byte = |at: usize| (at ^ at >> 8) as u8 ^ connection as u8;
        let socket = self.sockets.get_mut::<Socket<'_>>(self.echo);
        if socket.may_send() && self.sent < LENGTH {
            let data: Vec<u8> = (self.sent..LENGTH).map(byte).collect();
            self.sent += socket.send_slice(&data)?;
        }
        while socket.can_recv() {
            let from = self.received;
            let (length, is_right) = socket.recv(|bytes| {
                let is_right = (from..).zip(&*bytes).all(|(at, found)| byte(at) == *found);
                (bytes.len(), (bytes.len(), is_right))
            })?;
            ensure!(is_right, "another byte came back than was sent");
            self.received += length;
        }
        if self.received == LENGTH {
            socket.close();
            self.received = 0;
            self.begin();
            return Ok(true);
        }
        match socket.state() {
            State::Closed if self.sent == 0 => self.begin(),
            State::Closed | State::CloseWait => {
                ensure!(
                    false,
                    "the connection was broken off after {} bytes",
                    self.received
                );
            }
            _ => {}
        }
        Ok(false)
    }

    /// Begins another connection.
    fn begin(&mut self) {
        // The last frames of the previous connection still go out.
        self.interface
            .poll(now(), &mut self.wire, &mut self.sockets);
        self.connections += 1;
        self.sent = 0;
        self.received = 0;
        self.connect(self.echo, ECHO, FIRST_PORT + self.connections);
    }

    /// Sleeps for a moment.
    pub(super) fn rest(&self) {
        self.wire.rest();
    }
}
