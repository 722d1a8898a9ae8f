//! Sockets with options, and connections that arrive faster than they are accepted.

#![cfg(not(loom))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;

use std::net;
use std::time::Duration;

use corank_linux::net::{BACKLOG, TcpListener, TcpSocket};
use corank_linux::time::timeout;
use corank_linux::{Builder, Runtime};
use futures::{AsyncReadExt, AsyncWriteExt};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Bounds the waits of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);
const CONNECTIONS: usize = 2000;

fn runtime() -> Runtime {
    Builder::new().workers(1).build().unwrap()
}

/// Returns how many connections may wait: the system's limit, or what is asked for.
fn capacity(asked: usize) -> usize {
    let limit = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    asked.min(limit.trim().parse().unwrap())
}

/// All connect before any is accepted. Not one is dropped by the kernel, whose client would try
/// again after a second; then all are served.
#[test]
fn two_thousand_connections_wait_to_be_accepted() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let count = capacity(CONNECTIONS);
    runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut clients = Vec::new();
        for _ in 0..count {
            let connected = net::TcpStream::connect_timeout(&address, LONG);
            clients.push(connected.expect("it is not refused"));
        }
        // If the queue is full, the kernel drops a connection that its client takes for made.
        assert_eq!(waiting(&listener), count);
        for _ in 0..count {
            let accepted = timeout(LONG, listener.accept()).await;
            let (mut stream, peer) = accepted.expect("it waits").unwrap();
            stream.write_all(peer.to_string().as_bytes()).await.unwrap();
        }
        for client in clients {
            let own = client.local_addr().unwrap().to_string();
            let mut text = String::new();
            std::io::Read::read_to_string(&mut &client, &mut text).expect("no reset");
            assert_eq!(text, own);
        }
    });
}

/// Counts the connections that wait to be accepted.
fn waiting(listener: &TcpListener) -> usize {
    use nix::libc;
    use std::os::fd::{AsFd, AsRawFd};
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut size = size_of::<libc::tcp_info>() as libc::socklen_t;
    let descriptor = listener.as_fd().as_raw_fd();
    // SAFETY: the memory is as large as `size` says, and a structure of numbers.
    let info = unsafe {
        let result = libc::getsockopt(
            descriptor,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut size,
        );
        assert_eq!(result, 0);
        info.assume_init()
    };
    // Of a listener, these are the connections in its queue.
    info.tcpi_unacked as usize
}

#[test]
fn options_are_set_before_a_socket_is_used() {
    runtime().block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        for (set, get) in [
            (
                TcpSocket::set_reuseaddr as fn(&TcpSocket, bool) -> _,
                TcpSocket::reuseaddr as fn(&TcpSocket) -> std::io::Result<bool>,
            ),
            (TcpSocket::set_reuseport, TcpSocket::reuseport),
            (TcpSocket::set_nodelay, TcpSocket::nodelay),
            (TcpSocket::set_keepalive, TcpSocket::keepalive),
        ] {
            assert!(!get(&socket).unwrap());
            set(&socket, true).unwrap();
            assert!(get(&socket).unwrap());
        }
        // Linux doubles them.
        socket.set_send_buffer_size(20_000).unwrap();
        socket.set_recv_buffer_size(30_000).unwrap();
        assert_eq!(socket.send_buffer_size().unwrap(), 40_000);
        assert_eq!(socket.recv_buffer_size().unwrap(), 60_000);
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        let listener = socket.listen(BACKLOG).unwrap();
        assert_eq!(listener.local_addr().unwrap(), address);

        // Another one shares the port.
        let second = TcpSocket::for_address(address).unwrap();
        assert!(second.bind(address).is_err());
        second.set_reuseport(true).unwrap();
        second.bind(address).unwrap();
        drop(second);

        let client = TcpSocket::new_v4().unwrap();
        client.set_nodelay(true).unwrap();
        let mut client = client.connect(address).await.unwrap();
        assert!(client.get_ref().nodelay().unwrap());
        let (mut server, _) = listener.accept().await.unwrap();
        // It is inherited.
        assert!(server.get_ref().nodelay().unwrap());
        client.write_all(b"there").await.unwrap();
        let mut word = [0; 5];
        server.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"there");
    });
}

#[test]
fn a_refused_connection_is_an_error() {
    runtime().block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let nothing_listens = socket.local_addr().unwrap();
        let refused = TcpSocket::new_v4().unwrap().connect(nothing_listens).await;
        assert_eq!(
            refused.unwrap_err().kind(),
            std::io::ErrorKind::ConnectionRefused
        );
    });
}

/// The README shows the example, whose behaviour without descriptors is tested in
/// `exhaustion.rs`.
#[test]
fn the_readme_has_the_echo_server() {
    let example = include_str!("../examples/echo.rs").replace("pub(crate) ", "");
    let (_, server) = example.split_once("\n\n").unwrap();
    let shown = format!("```rust,no_run\n{server}```");
    assert!(include_str!("../README.md").contains(&shown));
}
