//! An echo server, with what a program at the other end needs to test the network with it.
//!
//! `echo-server`:
//!
//! - port 7 gives back what comes until the other side has sent all, and then closes;
//! - port 9 takes orders, one line each, and answers each with a line: `connect PORT` connects to
//!   that port of the computer outside, sends [`LENGTH`] bytes and checks that the same come back;
//!   `damage N` damages the Nth longer frame that comes from now on, 0 for none, and returns how
//!   many would have come before the one that was to be damaged; `end` ends the server.
//!
//! The server is a process of its own. When it has ended, what it took must be free again: frames,
//! kernel coroutines, sockets. Then the program's exit code is 0.
//!
//! `echo-server leave` takes [`LEFT`] connections at port 7, writes [`LAST_WORDS`] bytes to each,
//! and ends, and the machine with it.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use corank_abi::call::{FAULT, FAULT_FRAME};
use corank_user::net::{self, TcpListener, TcpStream};
use corank_user::{Error, Priority, block_on, calls, information, println, process, raw, spawn};
use core::net::{Ipv4Addr, SocketAddrV4};

corank_user::main!(main);

/// Bytes that go out and come back.
const LENGTH: usize = 512 << 10;
/// Bytes of one write.
const PIECE: usize = 10_000;
/// The computer that the machine runs on, in QEMU's user network.
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

/// Returns the counts that must be the same before and after.
fn footprint() -> [u64; 3] {
    let system = information::system().expect("it is there");
    let network = net::status().expect("memory for the call");
    [
        system.frames_free,
        system.coroutines,
        network.sockets - network.fading,
    ]
}

/// Connections to which `leave` writes.
const LEFT: usize = 8;
/// Bytes that it writes to each: no more than a connection keeps.
const LAST_WORDS: usize = 8000;

fn main() -> i32 {
    if net::status().is_ok_and(|network| network.card == 0) {
        println!("this machine has no network card");
        return 1;
    }
    if corank_user::arguments().nth(1) == Some("leave") {
        return leave();
    }
    let before = footprint();
    let child = process::spawn(|| block_on(serve()));
    let ended = child.and_then(process::wait).expect("a process");
    // What the other side has not acknowledged yet is in flight. The time limit of the test ends a
    // leak.
    while footprint() != before {
        calls::sleep(10).expect("a call that works");
    }
    println!("frames, coroutines and sockets as before: {before:?}");
    ended.code
}

/// Ends without checking whether what it has written has arrived.
fn leave() -> i32 {
    let listener = TcpListener::bind(7).expect("the port is free");
    println!("listening");
    let take = |_| listener.accept_blocking().expect("a client connects");
    let taken: [TcpStream; LEFT] = core::array::from_fn(take);
    let words: Vec<u8> = (0..LAST_WORDS).map(byte).collect();
    for connection in &taken {
        connection.write_blocking(&words).expect("there is room");
    }
    0
}

async fn serve() -> i32 {
    let echo = TcpListener::with_backlog(7, 256).expect("the port is free");
    let orders = TcpListener::bind(9).expect("the port is free");
    spawn(Priority::DEFAULT, async move {
        loop {
            // With too many files open, connections wait until one is closed.
            match echo.accept().await {
                Ok(stream) => {
                    let served = spawn(Priority::DEFAULT, answer(stream));
                    drop(served.expect("memory for a coroutine"));
                }
                Err(_) => {
                    corank_user::corank::time::sleep(core::time::Duration::from_millis(10)).await
                }
            }
        }
    })
    .expect("memory for a coroutine");
    println!("listening");
    let orders = orders.accept().await.expect("a client sends orders");
    match obey(&orders).await {
        Ok(()) => 0,
        Err(error) => {
            println!("orders: {error}");
            1
        }
    }
}

/// Gives back what comes.
///
/// However the connection ends, the server goes on.
async fn answer(stream: TcpStream) -> Result<(), Error> {
    let mut buffer = Vec::with_capacity(4096);
    loop {
        let (count, data) = stream.read(buffer).await;
        if count? == 0 {
            return stream.shutdown();
        }
        buffer = stream.write_all(data).await?;
    }
}

async fn obey(orders: &TcpStream) -> Result<(), Error> {
    let mut line = String::new();
    loop {
        let (count, byte) = orders.read(Vec::with_capacity(1)).await;
        if count? == 0 {
            return Ok(());
        }
        if byte != b"\n" {
            line.push(char::from(byte[0]));
            continue;
        }
        let reply = match line.split_once(' ') {
            Some(("connect", port)) => match go_out(port.parse().unwrap_or(0)).await {
                Ok(count) => format!("{count} bytes came back\n"),
                Err(error) => format!("failed: {error}\n"),
            },
            Some(("damage", frame)) => {
                let left = damage(frame.parse().unwrap_or(0));
                format!("{left} frames were left\n")
            }
            None if line == "end" => return Ok(()),
            _ => format!("`{line}` is no order\n"),
        };
        line.clear();
        orders.write_all(reply.into_bytes()).await?;
    }
}

/// Damages the frame with this number from now on, counted from 1.
///
/// Returns how many were left until another one that was to be damaged.
fn damage(frame: usize) -> isize {
    // SAFETY: the arguments are numbers.
    unsafe { raw::system_call(FAULT, [FAULT_FRAME, frame, 0]) }
}

/// Returns the byte at a place of the bytes that go out.
fn byte(place: usize) -> u8 {
    (place.wrapping_mul(2_654_435_761) >> 16) as u8
}

async fn go_out(port: u16) -> Result<usize, Error> {
    let stream = TcpStream::connect(SocketAddrV4::new(OUTSIDE, port)).await?;
    let stream = alloc::rc::Rc::new(stream);
    let out = stream.clone();
    let sending = spawn(Priority::DEFAULT, async move {
        for start in (0..LENGTH).step_by(PIECE) {
            let piece = (start..LENGTH.min(start + PIECE)).map(byte).collect();
            out.write_all(piece).await?;
        }
        out.shutdown()
    })
    .expect("memory for a coroutine");
    let mut place = 0;
    let mut buffer = Vec::with_capacity(PIECE);
    loop {
        let (count, data) = stream.read(buffer).await;
        if count? == 0 {
            break;
        }
        for found in &data {
            if *found != byte(place) {
                println!("byte {place} is wrong");
                return Ok(place);
            }
            place += 1;
        }
        buffer = data;
    }
    sending.await.expect("it does not panic")?;
    Ok(place)
}
