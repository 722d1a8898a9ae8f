//! Tests of the machine's network, against its program `echo-server`.

use anyhow::{Context, Result, bail, ensure};
use corank_clients::{Tests, connect};
use socket2::SockRef;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Connections that are open at the same time.
const AT_ONCE: usize = 400;
/// Connections that come one after another.
const IN_SERIES: usize = 300;
/// Connections that are broken off.
const BROKEN_OFF: usize = 50;
/// Bytes of a large transfer.
const LARGE: usize = 4 << 20;
/// Time limit of a read or write: longer than anything that works takes.
const LIMIT: Duration = Duration::from_secs(60);

type Test = fn(SocketAddrV4) -> Result<()>;

const TESTS: &[(&str, Test)] = &[
    ("connections_at_once", connections_at_once),
    ("connections_in_series", connections_in_series),
    ("a_large_transfer", a_large_transfer),
    ("half_closed", half_closed),
    ("broken_off_in_mid_stream", broken_off_in_mid_stream),
    ("closed_with_answers_unread", closed_with_answers_unread),
    ("a_slow_reader", a_slow_reader),
];

/// Runs all tests, and then lets the machine's program end.
pub(crate) fn run(echo: SocketAddrV4, orders: SocketAddrV4) -> Result<bool> {
    let mut tests = Tests::default();
    for (name, test) in TESTS {
        tests.judge(name, test(echo));
    }
    let mut orders = connect(orders, LIMIT)?;
    tests.judge("out_of_the_machine", out_of_the_machine(&mut orders));
    tests.judge(
        "no_socket_listens_outside",
        no_socket_listens_outside(&mut orders),
    );
    let damaged = damaged_frames_come_again(echo, &mut orders);
    tests.judge("damaged_frames_come_again", damaged);
    orders.write_all(b"end\n")?;
    Ok(tests.end())
}

/// Connections that a machine takes before it writes to them and ends.
const LEFT: usize = 8;
/// Bytes that it writes to each of them.
const LAST_WORDS: usize = 8000;

/// Tests that what a machine has written before it ended arrives, and then its end.
pub(crate) fn left(server: SocketAddrV4) -> Result<bool> {
    let mut tests = Tests::default();
    tests.judge("what_was_written_last_arrives", last_words(server));
    Ok(tests.end())
}

fn last_words(server: SocketAddrV4) -> Result<()> {
    let connections = (0..LEFT)
        .map(|_| connect(server, LIMIT))
        .collect::<Result<Vec<_>>>()?;
    for (number, mut connection) in connections.into_iter().enumerate() {
        let mut words = Vec::new();
        connection
            .read_to_end(&mut words)
            .with_context(|| format!("connection {number}, after {} bytes", words.len()))?;
        ensure!(
            words == message(0, LAST_WORDS),
            "connection {number}: {} of {LAST_WORDS} bytes, or others, have come",
            words.len()
        );
    }
    Ok(())
}

/// Opens a connection that the server has answered on.
///
/// QEMU lets no more than two wait to be passed on; Linux would try the third again after a second.
fn connect_echo(server: SocketAddrV4) -> Result<TcpStream> {
    let mut connection = connect(server, LIMIT)?;
    exchange(&mut connection, 0, 1)?;
    Ok(connection)
}

/// Returns the byte at a place of a stream; each stream has other bytes.
fn byte(stream: usize, place: usize) -> u8 {
    ((place + 77 * stream).wrapping_mul(2_654_435_761) >> 16) as u8
}

fn message(stream: usize, length: usize) -> Vec<u8> {
    (0..length).map(|place| byte(stream, place)).collect()
}

/// Sends a message and expects it back.
fn exchange(connection: &mut TcpStream, stream: usize, length: usize) -> Result<()> {
    let sent = message(stream, length);
    connection.write_all(&sent).context("sending")?;
    let mut received = vec![0; length];
    connection.read_exact(&mut received).context("receiving")?;
    ensure!(received == sent, "stream {stream}: other bytes came back");
    Ok(())
}

fn expect_end(connection: &mut TcpStream) -> Result<()> {
    let more = connection.read(&mut [0]).context("reading the end")?;
    ensure!(more == 0, "bytes that were never sent came back");
    Ok(())
}

fn connections_at_once(server: SocketAddrV4) -> Result<()> {
    let mut open = Vec::new();
    for number in 0..AT_ONCE {
        open.push(connect_echo(server).with_context(|| format!("connection {number}"))?);
    }
    for round in 0..3 {
        for (number, connection) in open.iter_mut().enumerate() {
            exchange(connection, number, 100 + round)
                .with_context(|| format!("connection {number} of {AT_ONCE}"))?;
        }
    }
    for connection in &mut open {
        connection.shutdown(Shutdown::Write)?;
        expect_end(connection)?;
    }
    Ok(())
}

fn connections_in_series(server: SocketAddrV4) -> Result<()> {
    for number in 0..IN_SERIES {
        exchange(&mut connect_echo(server)?, number, 1 + number)
            .with_context(|| format!("connection {number}"))?;
    }
    Ok(())
}

fn a_large_transfer(server: SocketAddrV4) -> Result<()> {
    let connection = connect_echo(server)?;
    let mut writer = connection.try_clone()?;
    let sending = thread::spawn(move || -> Result<()> {
        writer.write_all(&message(1, LARGE)).context("sending")?;
        Ok(writer.shutdown(Shutdown::Write)?)
    });
    receive(connection, 1, LARGE)?;
    sending.join().expect("the sender does not panic")
}

/// Reads to the end, and expects the whole message.
fn receive(mut connection: TcpStream, stream: usize, length: usize) -> Result<()> {
    let mut place = 0;
    let mut buffer = [0; 20_000];
    loop {
        let count = connection
            .read(&mut buffer)
            .with_context(|| format!("after {place} bytes"))?;
        if count == 0 {
            break;
        }
        for found in &buffer[..count] {
            ensure!(*found == byte(stream, place), "byte {place} is wrong");
            place += 1;
        }
    }
    ensure!(place == length, "{place} bytes came instead of {length}");
    Ok(())
}

fn half_closed(server: SocketAddrV4) -> Result<()> {
    for number in 0..20 {
        let mut connection = connect_echo(server)?;
        connection.write_all(&message(number, 3000))?;
        connection.shutdown(Shutdown::Write)?;
        receive(connection, number, 3000)?;
    }
    Ok(())
}

fn broken_off_in_mid_stream(server: SocketAddrV4) -> Result<()> {
    for number in 0..BROKEN_OFF {
        let mut connection = connect_echo(server)?;
        connection.write_all(&message(number, 100 * number))?;
        if number % 2 == 0 {
            let mut some = vec![0; 50 * number];
            connection.read_exact(&mut some)?;
        }
        // Closing then resets.
        SockRef::from(&connection).set_linger(Some(Duration::ZERO))?;
    }
    // The server goes on.
    exchange(&mut connect_echo(server)?, 0, 1000)
}

fn closed_with_answers_unread(server: SocketAddrV4) -> Result<()> {
    for number in 0..BROKEN_OFF {
        connect_echo(server)?.write_all(&message(number, 5000))?;
    }
    exchange(&mut connect_echo(server)?, 0, 1000)
}

/// Sends without reading the answers until the connection is full, then reads them.
fn a_slow_reader(server: SocketAddrV4) -> Result<()> {
    let mut connection = connect_echo(server)?;
    connection.set_nonblocking(true)?;
    let piece = message(0, 1 << 16);
    let mut sent = 0;
    let mut refusals = 0;
    // The server can't take more than it can send back, so what is in flight is bounded.
    while refusals < 100 {
        ensure!(sent < 1 << 30, "the machine takes bytes without end");
        match connection.write(&piece[sent % piece.len()..]) {
            Ok(count) => {
                sent += count;
                refusals = 0;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                refusals += 1;
                thread::sleep(Duration::from_millis(1));
            }
            Err(error) => bail!("after {sent} bytes: {error}"),
        }
    }
    connection.set_nonblocking(false)?;
    connection.shutdown(Shutdown::Write)?;
    let mut place = 0;
    let mut buffer = [0; 1 << 16];
    loop {
        let count = connection
            .read(&mut buffer)
            .with_context(|| format!("after {place} of {sent} bytes"))?;
        if count == 0 {
            break;
        }
        for found in &buffer[..count] {
            ensure!(
                *found == piece[place % piece.len()],
                "byte {place} is wrong"
            );
            place += 1;
        }
    }
    ensure!(place == sent, "{place} bytes came back of {sent}");
    Ok(())
}

/// Gives the machine an order and returns its answer.
fn order(orders: &mut TcpStream, order: &str) -> Result<String> {
    orders.write_all(order.as_bytes())?;
    let mut answer = String::new();
    let mut byte = [0];
    while orders.read(&mut byte)? == 1 && byte != *b"\n" {
        answer.push(char::from(byte[0]));
    }
    Ok(answer)
}

fn out_of_the_machine(orders: &mut TcpStream) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let serving = thread::spawn(move || -> Result<u64> {
        let (mut reader, _) = listener.accept()?;
        let mut writer = reader.try_clone()?;
        let count = std::io::copy(&mut reader, &mut writer)?;
        writer.shutdown(Shutdown::Write)?;
        Ok(count)
    });
    let answer = order(orders, &format!("connect {port}\n"))?;
    let expected = "524288 bytes came back";
    ensure!(answer == expected, "`{answer}` instead of `{expected}`");
    let count = serving.join().expect("the server does not panic")?;
    ensure!(count == 524_288, "{count} bytes came");
    Ok(())
}

fn no_socket_listens_outside(orders: &mut TcpStream) -> Result<()> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let answer = order(orders, &format!("connect {}\n", free.port()))?;
    ensure!(answer.starts_with("failed: "), "`{answer}`");
    Ok(())
}

/// Tests that the machine sees that a frame is not what was sent, and that it is sent again.
fn damaged_frames_come_again(server: SocketAddrV4, orders: &mut TcpStream) -> Result<()> {
    let mut damage = |frame: u32| order(orders, &format!("damage {frame}\n"));
    let mut connection = connect_echo(server)?;
    for frame in [1, 2] {
        damage(frame)?;
        exchange(&mut connection, 3, 4000)?;
        let left = damage(0)?;
        ensure!(left == "0 frames were left", "`{left}`: none was damaged");
    }
    Ok(())
}
