//! Calls on sockets.
//!
//! Those of rCore-Tutorial-v3 that make a socket say only that they failed. Corank's own say why.
use super::Result;
use super::information::write;
use crate::failure::Failure;
use crate::file::File;
use crate::net::{self, Connection, Listener, Socket};
use crate::process::Process;
use crate::wait::WaitMode;
use alloc::sync::Arc;
use corank_abi::call::{
    ACCEPT, FAILED, LISTEN, NETWORK_STATUS, NOT_IMPLEMENTED, SHUTDOWN, SOCKET_SET, SOCKET_STATUS,
    TCP_CONNECT, TCP_LISTEN, UDP_CONNECT,
};
use corank_abi::error::{BAD_DESCRIPTOR, INVALID, NOT_CONNECTED, TOO_MANY_FILES};
use corank_abi::net::BACKLOG;
use core::net::Ipv4Addr;

type Made = core::result::Result<usize, Failure>;

/// Serves a call if that is done without waiting.
///
/// Returns `None` if [`wait`] has to serve it.
#[inline(never)]
pub(super) fn at_once(process: &Process, number: usize, arguments: [usize; 3]) -> Option<Result> {
    let [first, second, third] = arguments;
    Some(match number {
        UDP_CONNECT => Ok(udp(process, first, second, third).map_or(FAILED, |made| made as isize)),
        LISTEN | TCP_LISTEN => {
            let listening = listen_at_once(process, first, backlog(number, second));
            return listening
                .transpose()
                .map(|made| Ok(listening_code(number, made)));
        }
        ACCEPT => match listener(process, first) {
            Ok(listener) => {
                let accepted = listener.accept_now(|connection| open(process, connection));
                return accepted.map(|made| Ok(code(made)));
            }
            Err(failure) => Ok(failure.0),
        },
        TCP_CONNECT => return None,
        SHUTDOWN => Ok(code(shut_down(process, first))),
        SOCKET_SET => Ok(code(
            socket(process, first).and_then(|socket| socket.set(second, third).map(|()| 0)),
        )),
        SOCKET_STATUS => match socket(process, first) {
            Ok(socket) => write(process, second, &socket.status()),
            Err(failure) => Ok(failure.0),
        },
        NETWORK_STATUS => return None,
        _ => Ok(NOT_IMPLEMENTED),
    })
}

/// Serves a call that has to wait.
pub(super) async fn wait(
    process: &Process,
    mode: WaitMode,
    number: usize,
    arguments: [usize; 3],
) -> Result {
    let [first, second, third] = arguments;
    Ok(code(match number {
        ACCEPT => match listener(process, first) {
            Ok(listener) => {
                let accept = listener.accept(mode, |connection| open(process, connection));
                accept.await
            }
            Err(failure) => Err(failure),
        },
        TCP_CONNECT => match (address(first), port(second)) {
            (Ok(address), Ok(port)) => {
                net::connect(&process.memory.account, mode, address, port, third)
                    .await
                    .and_then(|connection| open(process, connection))
            }
            _ => Err(Failure(INVALID)),
        },
        LISTEN | TCP_LISTEN => {
            let made = listen(process, first, backlog(number, second)).await;
            return Ok(listening_code(number, made));
        }
        NETWORK_STATUS => return write(process, first, &net::status().await),
        _ => return Ok(NOT_IMPLEMENTED),
    }))
}

fn code(made: Made) -> isize {
    made.map_or_else(|failure| failure.0, |value| value as isize)
}

fn port(number: usize) -> core::result::Result<u16, Failure> {
    u16::try_from(number).map_err(|_| Failure(INVALID))
}

fn address(number: usize) -> core::result::Result<Ipv4Addr, Failure> {
    let bits = u32::try_from(number).map_err(|_| Failure(INVALID))?;
    Ok(Ipv4Addr::from_bits(bits))
}

fn socket(process: &Process, descriptor: usize) -> core::result::Result<Socket, Failure> {
    match process.file(descriptor) {
        Some(File::Socket(socket)) => Ok(socket),
        _ => Err(Failure(BAD_DESCRIPTOR)),
    }
}

fn listener(process: &Process, descriptor: usize) -> core::result::Result<Arc<Listener>, Failure> {
    match socket(process, descriptor)? {
        Socket::Listener(listener) => Ok(listener),
        _ => Err(Failure(INVALID)),
    }
}

fn open(process: &Process, connection: Arc<Connection>) -> Made {
    let file = File::Socket(Socket::Connection(connection));
    process.open(file).ok_or(Failure(TOO_MANY_FILES))
}

/// Returns how many connections may wait at a listener that this call makes.
fn backlog(call: usize, asked: usize) -> usize {
    if call == LISTEN { BACKLOG } else { asked }
}

/// Returns the result of a call that makes a listener.
fn listening_code(call: usize, made: Made) -> isize {
    match made {
        Err(_) if call == LISTEN => FAILED,
        made => code(made),
    }
}

fn listen_at_once(
    process: &Process,
    number: usize,
    backlog: usize,
) -> core::result::Result<Option<usize>, Failure> {
    let listener = net::listen_at_once(&process.memory.account, port(number)?, backlog)?;
    let opened = listener.map(|listener| open_listener(process, listener));
    opened.transpose()
}

async fn listen(process: &Process, number: usize, backlog: usize) -> Made {
    let listener = net::listen(&process.memory.account, port(number)?, backlog).await?;
    open_listener(process, listener)
}

fn open_listener(process: &Process, listener: Arc<Listener>) -> Made {
    let file = File::Socket(Socket::Listener(listener));
    process.open(file).ok_or(Failure(TOO_MANY_FILES))
}

fn udp(process: &Process, remote: usize, local: usize, remote_port: usize) -> Made {
    // Numbers come as rCore-Tutorial-v3's programs pass them. The upper bits of a register don't
    // count.
    let remote = Ipv4Addr::from_bits(remote as u32);
    let datagrams = net::connect_datagrams(
        &process.memory.account,
        remote,
        local as u16,
        remote_port as u16,
    )?;
    let file = File::Socket(Socket::Datagrams(datagrams));
    process.open(file).ok_or(Failure(TOO_MANY_FILES))
}

fn shut_down(process: &Process, descriptor: usize) -> Made {
    match socket(process, descriptor)? {
        Socket::Connection(connection) => connection.shut_down().map(|()| 0),
        _ => Err(Failure(NOT_CONNECTED)),
    }
}
