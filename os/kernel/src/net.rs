//! The network: TCP and UDP over IPv4, between this machine's programs and, with a card, with
//! others.
//!
//! One coroutine, the [`service`], owns the interfaces: the network card's and the one that leads
//! back to this machine. The stack is smoltcp. A program that has a socket shares its buffers with
//! the service. Bytes that are there are read, and bytes for which there is room are written,
//! without waiting and without another coroutine. Only what needs the interface is left to the
//! service. A socket that has something to say is marked, and stands in a queue by its level.
//!
//! ```text
//!   the card's interrupt ─▶ service ─▶ the socket that the frame is for ─▶ wakes the reader, writer or accepter
//!   write, close, connect ─▶ marks the socket ─▶ service ─▶ frames, the most urgent socket's first
//! ```
//! - `service`: the coroutine; when it runs, and how urgently;
//! - `work`: what is left to it;
//! - `link`: the interfaces as smoltcp sees them;
//! - `classify`: which socket a frame is for;
//! - `table`: all sockets, by what distinguishes their frames;
//! - `socket`: one of them, and what is the same for TCP and UDP;
//! - `tcp`, `listener`, `udp`: the three kinds of files;
//! - `end`: what is left when the system ends.
//!
//! # No search
//! smoltcp asks each socket of a set in turn whether a frame is for it, or whether it has something
//! to send. Here each socket is a set of its own. The table finds the one that a frame is for, the
//! queue the one that is to send, and the timers the one whose time has come. So the cost of a
//! frame does not grow with the number of connections.
//!
//! # Urgency
//! A socket is as urgent as the coroutine that last waited on it. The service sends for the most
//! urgent socket first and runs at its level meanwhile. Frames that have come are inspected first
//! of all, because it is not known before which socket they are for. Only so much is done in one go
//! ([`service::BURST`]) before the executor picks again. With each go one socket has its turn that
//! need not be that urgent, level after level, so no socket waits for ever.
//!
//! # Memory
//! There are at most [`table::MOST`] sockets, each with two buffers of [`socket::BUFFER`] bytes, or
//! as many as its listener was given, in the kernel's heap. When there are so many, or the heap is
//! nearly full, opening one fails. A peer that asks a listener for a connection then is not
//! answered and tries again. Connections that only wait for old frames to die out (TIME-WAIT) give
//! their place up first. A connection that no program has open any more is ended for good
//! [`tcp::ORPHAN_LIMIT`] after it was closed, or after the time that was set for it.
mod classify;
mod end;
mod link;
mod listener;
mod service;
mod socket;
mod table;
mod tcp;
mod udp;
mod work;

pub(crate) use end::shut_down;
pub(crate) use service::{init, status};
pub(crate) use work::{has_something_to_send, interrupt};

use crate::failure::Failure;
use crate::failure::Transferred;
use crate::memory::user::{UserBuffer, UserMemory};
use crate::wait::WaitMode;
use alloc::sync::Arc;
use corank_abi::error::{INVALID, NOT_CONNECTED};
use corank_abi::net::SocketStatus;

pub(crate) use listener::{Listener, listen, listen_at_once};
pub(crate) use tcp::{Connection, connect};
pub(crate) use udp::{Datagrams, connect as connect_datagrams};

/// An open socket.
///
/// A clone is the same one, and it is closed when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) enum Socket {
    /// Takes connections.
    Listener(Arc<Listener>),
    /// A TCP connection.
    Connection(Arc<Connection>),
    /// A UDP socket.
    Datagrams(Arc<Datagrams>),
}

impl Socket {
    /// Reads what has come, at most up to the buffer's length.
    ///
    /// Waits until something has. 0 bytes are the end.
    ///
    /// # Errors
    /// As [`crate::file::File::read`].
    pub(crate) async fn read(
        &self,
        memory: &UserMemory,
        mode: WaitMode,
        buffer: &mut UserBuffer,
    ) -> Transferred {
        match self {
            Socket::Listener(_) => Ok(Err(Failure(NOT_CONNECTED))),
            Socket::Connection(connection) => connection.read(memory, mode, buffer).await,
            Socket::Datagrams(datagrams) => datagrams.read(memory, mode, buffer).await,
        }
    }

    /// Writes the buffer.
    ///
    /// Waits until there is room for all of it.
    ///
    /// # Errors
    /// As [`crate::file::File::write`].
    pub(crate) async fn write(
        &self,
        memory: &UserMemory,
        mode: WaitMode,
        buffer: &mut UserBuffer,
    ) -> Transferred {
        match self {
            Socket::Listener(_) => Ok(Err(Failure(NOT_CONNECTED))),
            Socket::Connection(connection) => connection.write(memory, mode, buffer).await,
            Socket::Datagrams(datagrams) => datagrams.write(memory, mode, buffer).await,
        }
    }

    /// Does what [`Socket::read`] does if that need not wait.
    pub(crate) fn read_at_once(
        &self,
        memory: &UserMemory,
        mut buffer: UserBuffer,
    ) -> Option<Transferred> {
        match self {
            Socket::Listener(_) => Some(Ok(Err(Failure(NOT_CONNECTED)))),
            Socket::Connection(connection) => connection.read_now(memory, &mut buffer),
            Socket::Datagrams(datagrams) => datagrams.read_now(memory, &mut buffer),
        }
    }

    /// Does what [`Socket::write`] does if that need not wait.
    pub(crate) fn write_at_once(
        &self,
        memory: &UserMemory,
        buffer: UserBuffer,
    ) -> Option<Transferred> {
        match self {
            Socket::Listener(_) => Some(Ok(Err(Failure(NOT_CONNECTED)))),
            Socket::Connection(connection) => connection.write_now(memory, buffer),
            Socket::Datagrams(datagrams) => datagrams.write_now(memory, buffer),
        }
    }

    /// Sets an option of [`corank_abi::net`].
    ///
    /// # Errors
    /// For an option that this kind of socket does not have.
    pub(crate) fn set(&self, option: usize, value: usize) -> Result<(), Failure> {
        match self {
            Socket::Listener(listener) => listener.set(option, value),
            Socket::Connection(connection) => connection.set(option, value),
            Socket::Datagrams(datagrams) => datagrams.set(option, value),
        }
        .then_some(())
        .ok_or(Failure(INVALID))
    }

    /// Returns what is known of it.
    pub(crate) fn status(&self) -> SocketStatus {
        match self {
            Socket::Listener(listener) => listener.status(),
            Socket::Connection(connection) => connection.status(),
            Socket::Datagrams(datagrams) => datagrams.status(),
        }
    }
}
