//! TCP, UDP and Unix sockets.
//!
//! Streams implement `AsyncRead` and `AsyncWrite` of `futures`, also by reference, so that one
//! coroutine can read while another one writes.

mod acceptor;
mod resolve;
mod socket;
mod tcp;
mod udp;
mod unix;

pub use resolve::Address;
pub use socket::{BACKLOG, TcpSocket};
pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;
pub use unix::{UnixDatagram, UnixListener, UnixStream};
