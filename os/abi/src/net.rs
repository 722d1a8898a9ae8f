//! Sockets: their options, and their status.

/// Connections that wait to be accepted where nothing else is asked for.
pub const BACKLOG: usize = 128;

/// Option of [`SOCKET_SET`](crate::call::SOCKET_SET): how many milliseconds a call on the socket
/// may wait. 0, as at first, is for ever. After that the call fails with
/// [`TIMED_OUT`](crate::error::TIMED_OUT), and the socket is as before.
pub const WAIT_LIMIT: usize = 0;
/// Option: how many milliseconds the other side may leave what was sent without an answer before
/// the connection is reset; at first a minute. 0 is for ever.
pub const ANSWER_LIMIT: usize = 1;
/// Option: 1 if closing ends the connection at once, with a reset; 0, as at first, in order.
pub const CLOSE_BY_RESET: usize = 2;

/// Option of a listener: bytes that each connection from now on keeps of what has come, and as many
/// of what is to be sent, from [`BUFFER_LEAST`] to [`BUFFER_MOST`]; at first 8 KiB. They are what
/// most of the memory of a connection is.
pub const BUFFER: usize = 3;
/// The smallest value of [`BUFFER`].
pub const BUFFER_LEAST: usize = 512;
/// The largest value of [`BUFFER`].
pub const BUFFER_MOST: usize = 64 << 10;

/// Option of a connection: its low-water mark, as POSIX's `SO_RCVLOWAT`, from 1, as at first, to
/// [`BUFFER_MOST`]. A read waits until so many bytes have come, or as many as it asks for if these
/// are fewer. It gets fewer when no more can come: at the end, after a failure, and, as in Linux,
/// when the connection's buffer has no room for another frame, because otherwise both sides would
/// wait for ever.
pub const LOW_WATER: usize = 4;

/// Option of a listener: how many milliseconds, at least 1, the handshake of each connection from
/// now on may take; at first 20 seconds. Then it fails, and its place among those that wait to be
/// accepted is free.
pub const HANDSHAKE_LIMIT: usize = 5;
/// Option of a connection: how many milliseconds, from 1 to [`ORPHAN_MOST`], it goes on at most
/// when no program has it open any more; at first a minute. What the other side has not taken by
/// then is lost.
pub const ORPHAN_LIMIT: usize = 6;
/// The largest value of [`ORPHAN_LIMIT`]: two minutes. So long a process that has ended can take
/// sockets away from others.
pub const ORPHAN_MOST: usize = 120_000;

/// [`SocketStatus::kind`] of a listener.
pub const LISTENER: u64 = 1;
/// [`SocketStatus::kind`] of a TCP connection.
pub const CONNECTION: u64 = 2;
/// [`SocketStatus::kind`] of a UDP socket.
pub const DATAGRAMS: u64 = 3;

/// What is known of a socket.
///
/// Addresses are IPv4, the first byte the most significant.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketStatus {
    /// What it is.
    pub kind: u64,
    /// The port here.
    pub local_port: u64,
    /// The address there, 0 for a listener.
    pub remote_address: u64,
    /// The port there, 0 for a listener.
    pub remote_port: u64,
    /// The level at which the kernel sends for it: that of the last waiter.
    pub level: u64,
    /// Connections that wait to be accepted, those with a handshake under way included; bytes
    /// that wait to be read.
    pub waiting: u64,
}

/// The network as a whole.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkStatus {
    /// 1 if there is a network card, 0 if there is nothing but this machine itself.
    pub card: u64,
    /// Connections and UDP sockets that the kernel keeps, also those that no program has open any
    /// more.
    pub sockets: u64,
    /// Those of them that no program has open any more, and that the other side does not yet know
    /// to have ended.
    pub orphans: u64,
    /// Those of them that are over, and only wait for old frames to die out (TIME-WAIT). They are
    /// removed when there is no room.
    pub fading: u64,
    /// How many there can be.
    pub most_sockets: u64,
    /// Frames that have come.
    pub received: u64,
    /// Frames that have been sent.
    pub sent: u64,
    /// Times that the network's coroutine was polled.
    pub polls: u64,
}
