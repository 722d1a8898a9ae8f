//! Attacks by sockets: as many as there may be, or as many ports.
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddrV4};
use core::time::Duration;

use corank_user::net::{self, TcpListener, TcpStream, UdpSocket};
use corank_user::time;

use crate::Attack;

pub(crate) const ATTACKS: &[Attack] = &[
    ("new sockets when there are as many as may be", |begin| {
        let _listener = fill(0);
        begin();
        for port in 1..20 {
            assert!(UdpSocket::connect(port, at(port)).is_err());
        }
    }),
    (
        "the end of a listener with thousands of connections",
        |begin| {
            let listener = fill(0);
            begin();
            drop(listener);
        },
    ),
    ("a port when thousands are taken", take_ports),
];

/// Attacks that need a card.
pub(crate) const ATTACKS_BY_CARD: &[Attack] = &[(
    "an address reply when there are as many sockets as may be",
    |begin| {
        let _listener = fill(1);
        // The gateway answers the question for its address, and not what comes then.
        let gateway = SocketAddrV4::new(Ipv4Addr::new(10, 0, 2, 2), 9);
        let socket = UdpSocket::connect(9, gateway).expect("there is room for one");
        let received = net::status().expect("memory").received;
        begin();
        socket.write(b"text").expect("there is room");
        while net::status().expect("memory").received == received {
            time::sleep(Duration::from_millis(1));
        }
        time::sleep(Duration::from_millis(20));
    },
)];

/// Waits until no socket of an ended process or connection is left.
pub(crate) fn wait_for_none() {
    loop {
        let status = net::status().expect("memory");
        if status.sockets == status.fading {
            return;
        }
        time::sleep(Duration::from_millis(1));
    }
}

fn at(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
}

/// Makes connections that nothing accepts until there are as many sockets as may be, but for
/// `rest`.
///
/// They last as long as this process, or the listener.
fn fill(rest: u64) -> TcpListener {
    let most = net::status().expect("memory").most_sockets - rest;
    let listener = TcpListener::with_backlog(0, most as usize).expect("a port is free");
    listener.set_buffer(512).expect("it is in range");
    let address = at(listener.local_port().expect("it has one"));
    // Each connection takes two sockets.
    for _ in 0..most / 2 {
        core::mem::forget(TcpStream::connect_blocking(address).expect("there is room"));
    }
    listener
}

/// Takes thousands of ports in a row, and then asks for one where the search begins with them.
fn take_ports(begin: &dyn Fn()) {
    const TAKEN: usize = 4000;
    /// Number of ports to choose from.
    const ALL: usize = 1 << 14;
    let listen = || TcpListener::bind(0).expect("a port is free");
    let taken: Vec<TcpListener> = (0..TAKEN).map(|_| listen()).collect();
    for _ in TAKEN..ALL {
        drop(listen());
    }
    let first = taken[0].local_port().expect("it has one");
    begin();
    let port = listen().local_port().expect("it has one");
    assert!(port.abs_diff(first) as usize >= TAKEN, "{first} and {port}");
}
