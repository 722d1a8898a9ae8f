//! Clients that send nonsense, are slow, break off, or come in groups.
//!
//! The server goes on, and keeps nothing of them. It is started with room for [`ROOM`] connections
//! and with limits of one second.

use crate::arrivals::Arrivals;
use crate::check::Test;
use crate::server::{Connection, LIMIT, Server, get};
use crate::site::{self, LARGE, URGENT};
use anyhow::{Context, Result, ensure};
use corank_clients::limited;
use rustix::io::Errno;
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{ErrorKind, Write};
use std::net::SocketAddrV4;
use std::thread;
use std::time::{Duration, Instant};

/// Connections that the server serves at a time.
const ROOM: usize = 64;
/// Clients that come at the same time: far more than there is room for.
///
/// The kernel keeps the others for the server. QEMU would pass on those that it did not keep only
/// after six seconds.
const GROUP: usize = 500;
/// Time after which clients that were not accepted connect again. Linux waits for a second, then
/// for two.
const RETRY: Duration = Duration::from_millis(20);

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a_group_at_once", a_group_at_once),
    ("nonsense", nonsense),
    ("more_than_there_is_room_for", more_than_there_is_room_for),
    ("idle_connections_make_room", idle_connections_make_room),
    ("silent_connections_make_room", silent_connections_make_room),
    ("slow_heads", slow_heads),
    ("slow_readers", slow_readers),
    ("broken_off_in_mid_answer", broken_off_in_mid_answer),
    ("broken_off_in_mid_request", broken_off_in_mid_request),
    ("gone_without_reading", gone_without_reading),
    ("a_body_that_does_not_come", a_body_that_does_not_come),
];

/// Tests that the server answers as before.
fn goes_on(server: &Server) -> Result<()> {
    server
        .connect()?
        .fetch(URGENT, &site::content(URGENT))
        .context("the server does not go on")?;
    Ok(())
}

/// Sends input that is no request; each gets its status as the answer, and the connection ends.
fn nonsense(server: &Server) -> Result<()> {
    let long = "a".repeat(3000);
    let longer = "a".repeat(20_000);
    let many = "a: b\r\n".repeat(100);
    let host = "Host: x\r\n";
    for (request, status) in [
        ("\x16\x03\x01\x02\x00\x01".to_string(), 400),
        ("GET /\r\n\r\n".into(), 400),
        ("GET / HTTP/1.1\r\n\r\n".into(), 400),
        (format!("GET / HTTP/1.1\r\n{host}{host}\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{host}a b: c\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{host}\0: c\r\n\r\n"), 400),
        (
            format!("GET / HTTP/1.1\r\n{host}Content-Length: x\r\n\r\n"),
            400,
        ),
        (
            format!("GET / HTTP/1.1\r\n{host}Content-Length: 1\r\nContent-Length: 2\r\n\r\n"),
            400,
        ),
        (
            format!(
                "GET / HTTP/1.1\r\n{host}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
            ),
            400,
        ),
        (
            format!("POST / HTTP/1.1\r\n{host}Content-Length: 3\r\n\r\nabc"),
            405,
        ),
        (
            format!("GET / HTTP/1.1\r\n{host}Content-Length: 9999999999\r\n\r\n"),
            413,
        ),
        (format!("GET /{long} HTTP/1.1\r\n{host}\r\n"), 414),
        (format!("GET /{longer}"), 414),
        (format!("GET / HTTP/1.1\r\n{host}Expect: tea\r\n\r\n"), 417),
        (format!("GET / HTTP/1.1\r\n{host}a: {longer}\r\n\r\n"), 431),
        (format!("GET / HTTP/1.1\r\n{host}{many}\r\n"), 431),
        (format!("BREW / HTTP/1.1\r\n{host}\r\n"), 501),
        (
            format!("GET / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            501,
        ),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(), 505),
    ] {
        let shown: String = request.chars().take(60).collect();
        // Alone, and behind a good one.
        for first in ["", &get(URGENT)] {
            let mut connection = server.connect()?;
            connection.send([first, &request].concat().as_bytes())?;
            if !first.is_empty() {
                connection.answer()?.with_status(200)?;
            }
            let answer = connection
                .answer()
                .and_then(|answer| answer.with_status(status));
            let answer = answer.with_context(|| format!("`{}`", shown.escape_debug()))?;
            ensure!(
                answer.closes(),
                "`{}` leaves the connection open",
                shown.escape_debug()
            );
            connection.end()?;
        }
    }
    goes_on(server)
}

/// Tests that all answers of the server to a group of simultaneous clients arrive.
///
/// The clients connect in the same moment, and each requests a file as soon as QEMU has accepted
/// it. The server does not begin before. All that it answers arrives. If a computer is so slow that
/// the server's time limits come first, the others get nothing but the end.
///
/// This runs before all tests that leave clients without an answer. Those are answered some time,
/// and would count.
pub(crate) fn a_group_at_once(server: &Server) -> Result<()> {
    let content = site::content(URGENT);
    let before = server.status()?["answered"];
    let mut answers = 0;
    server.order("hold")?;
    let group = connect_group(server.site);
    server.order("go")?;
    let group = group?;
    let arrivals = Arrivals::on(&group)?;
    let mut group: Vec<_> = group.into_iter().map(Some).collect();
    for _ in 0..GROUP {
        // A connection with an answer ends, and makes room.
        let next = group[arrivals.next()?].take();
        let mut connection = next.context("each has one end")?;
        if connection.has_ended()? {
            continue;
        }
        let answer = connection.answer()?;
        ensure!(
            answer.status == 408 || answer.status == 200 && answer.body == content,
            "an answer of another kind"
        );
        answers += 1;
    }
    server.footprint_at_rest()?;
    let answered = server.status()?["answered"] - before;
    ensure!(
        answers == answered && answers > ROOM as u64,
        "{answers} answers came, and the server has counted {answered}"
    );
    Ok(())
}

/// Connects a group of clients at the same time, each of which has sent a request.
fn connect_group(server: SocketAddrV4) -> Result<Vec<Connection>> {
    let connect = || -> Result<Socket> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&server.into()) {
            Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => {
                Err(error.into())
            }
            _ => Ok(socket),
        }
    };
    let start = Instant::now();
    let mut inside = Vec::new();
    while inside.len() < GROUP {
        ensure!(start.elapsed() < LIMIT, "only {} were let in", inside.len());
        let mut outside = (inside.len()..GROUP)
            .map(|_| connect())
            .collect::<Result<Vec<_>>>()?;
        thread::sleep(RETRY);
        for socket in outside.extract_if(.., |socket| socket.peer_addr().is_ok()) {
            socket.set_nonblocking(false)?;
            let mut connection = Connection::new(limited(socket.into(), LIMIT)?);
            connection.send(get(URGENT).as_bytes())?;
            inside.push(connection);
        }
    }
    Ok(inside)
}

/// Tests that each of more clients than there is room for gets its answer.
///
/// A client gets another answer if its connection goes on.
pub(crate) fn more_than_there_is_room_for(server: &Server) -> Result<()> {
    let content = site::content(URGENT);
    let mut open = Vec::new();
    for _ in 0..ROOM + 40 {
        let mut connection = server.connect()?;
        connection.send(get(URGENT).as_bytes())?;
        open.push(connection);
    }
    for (number, connection) in open.iter_mut().enumerate() {
        let answer = connection
            .answer()
            .with_context(|| format!("connection {number}"))?;
        ensure!(answer.with_status(200)?.body == content);
    }
    Ok(())
}

/// Tests that a new connection replaces the one that is idle for longest.
fn idle_connections_make_room(server: &Server) -> Result<()> {
    let content = site::content(URGENT);
    let mut idle = Vec::new();
    for number in 0..300 {
        let mut connection = server.connect()?;
        connection
            .fetch(URGENT, &content)
            .with_context(|| format!("connection {number}"))?;
        idle.push(connection);
    }
    goes_on(server)
}

/// Tests that a connection without a request has a bounded time, and the next ones are served then.
fn silent_connections_make_room(server: &Server) -> Result<()> {
    let silent = (0..300)
        .map(|_| server.connect())
        .collect::<Result<Vec<_>>>()?;
    goes_on(server)?;
    drop(silent);
    Ok(())
}

/// Sends bytes slowly until the server has had enough.
fn slowly(connection: &mut Connection, bytes: impl Iterator<Item = u8>) -> Result<()> {
    let start = Instant::now();
    for byte in bytes {
        ensure!(start.elapsed() < LIMIT, "the server never has enough");
        match connection.stream().write(&[byte]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error.into()),
        }
        connection.stream().set_nonblocking(true)?;
        let answered = connection.stream().peek(&mut [0]).is_ok();
        connection.stream().set_nonblocking(false)?;
        if answered {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Sends a head byte by byte, which never ends.
fn slow_heads(server: &Server) -> Result<()> {
    let slow = |server: &Server| -> Result<()> {
        let mut connection = server.connect()?;
        let head = b"GET / HTTP/1.1\r\n".iter().copied();
        slowly(
            &mut connection,
            head.chain(b"a: b\r\n".iter().copied().cycle()),
        )?;
        let answer = connection.answer()?.with_status(408)?;
        ensure!(answer.closes());
        Ok(())
    };
    thread::scope(|scope| {
        let all: Vec<_> = (0..ROOM).map(|_| scope.spawn(|| slow(server))).collect();
        all.into_iter()
            .try_for_each(|one| one.join().expect("a client does not panic"))
    })?;
    goes_on(server)
}

/// Tests that the server drops a connection that reads nothing of its answer.
fn slow_readers(server: &Server) -> Result<()> {
    let mut slow = Vec::new();
    for _ in 0..8 {
        let mut connection = server.connect()?;
        // QEMU has buffers of its own, and must be full.
        connection.send(get(LARGE).repeat(10).as_bytes())?;
        slow.push(connection);
    }
    let start = Instant::now();
    while server.status()?["connections"] > 0 {
        ensure!(start.elapsed() < LIMIT, "the server waits for ever");
        thread::sleep(Duration::from_millis(50));
    }
    goes_on(server)
}

/// Makes the connection close with a reset.
fn reset(connection: Connection) -> Result<()> {
    Ok(SockRef::from(connection.stream()).set_linger(Some(Duration::ZERO))?)
}

fn broken_off_in_mid_answer(server: &Server) -> Result<()> {
    for number in 0..60 {
        let mut connection = server.connect()?;
        connection.send(get(LARGE).as_bytes())?;
        let wanted = 10_000 * number;
        let came = connection.read_some(wanted);
        ensure!(came == wanted, "{came} bytes came instead of {wanted}");
        reset(connection)?;
    }
    goes_on(server)
}

fn broken_off_in_mid_request(server: &Server) -> Result<()> {
    let request = get(URGENT);
    for cut in 0..request.len() {
        let mut connection = server.connect()?;
        connection.send(&request.as_bytes()[..cut])?;
        if cut % 2 == 0 {
            reset(connection)?;
        }
    }
    goes_on(server)
}

fn gone_without_reading(server: &Server) -> Result<()> {
    for number in 0..60 {
        let mut connection = server.connect()?;
        let target = if number % 2 == 0 { URGENT } else { LARGE };
        connection.send(get(target).as_bytes())?;
    }
    goes_on(server)
}

fn a_body_that_does_not_come(server: &Server) -> Result<()> {
    let mut connection = server.connect()?;
    let request = get(URGENT).replace("\r\n\r\n", "\r\nContent-Length: 10\r\n\r\nabc");
    connection.send(request.as_bytes())?;
    connection.answer()?.with_status(200)?;
    connection.end()?;
    goes_on(server)
}
