//! Tests of the server: all forms of what good clients get.

use crate::server::{Connection, Server, get};
use crate::site::{self, LARGE, MIDDLE, MIDDLE_TARGET, URGENT};
use crate::{faults, hostile, programs};
use anyhow::{Context, Result, bail, ensure};
use corank_clients::Tests;
use std::net::Shutdown;
use std::thread;

pub(crate) type Test = fn(&Server) -> Result<()>;

const TESTS: &[(&str, Test)] = &[
    ("files_are_what_they_are", files_are_what_they_are),
    ("heads_have_no_bodies", heads_have_no_bodies),
    ("parts_of_files", parts_of_files),
    ("only_what_has_changed", only_what_has_changed),
    ("directories", directories),
    ("nothing_outside_of_the_site", nothing_outside_of_the_site),
    ("connections_go_on_or_end", connections_go_on_or_end),
    ("requests_in_advance", requests_in_advance),
    ("bodies_are_thrown_away", bodies_are_thrown_away),
    ("split_at_every_byte", split_at_every_byte),
    ("closed_in_one_direction", closed_in_one_direction),
    ("as_a_browser_does", as_a_browser_does),
];

/// Runs all tests, and then lets the server stop.
pub(crate) fn run(server: &Server) -> Result<bool> {
    let mut tests = Tests::default();
    fill(server)?;
    // Every test runs once before the count.
    for (_, test) in TESTS {
        let _ = test(server);
    }
    let mut before = server.footprint_at_rest()?;
    let mut growths = 0;
    let all = TESTS.iter().chain(hostile::TESTS).chain(programs::TESTS);
    let faults = (
        "memory_at_every_allocation",
        faults::memory_at_every_allocation as Test,
    );
    for (name, test) in all.chain([&faults]) {
        let drained = test(server).and_then(|()| server.wait_until_drained(&before));
        let judged = drained.and_then(|growth| {
            before.pages += growth;
            growths += usize::from(growth > 0);
            ensure!(
                growths <= GROWTHS,
                "the heap has grown {growths} times, now by {growth} pages"
            );
            Ok(())
        });
        tests.judge(name, judged);
    }
    tests.judge("stops_in_order", stops_in_order(server));
    Ok(tests.end())
}

/// Most times that the heap may grow after the server has been filled.
///
/// The layout of a heap depends on the order in which harts serve connections, so there is an order
/// that needs one more step. A leak makes it grow again and again.
const GROWTHS: usize = 2;

/// Most times that the server is filled before it has all the memory that it will ever have.
const FILLINGS: usize = 10;

/// Gives the server as much memory as it will ever have.
///
/// The client opens as many connections as the server takes and as the kernel keeps for it, all at
/// once. The layout of the server's heap depends on the order in which its harts serve them. So
/// this is repeated until the server takes no more memory twice in a row.
fn fill(server: &Server) -> Result<()> {
    let mut before = None;
    let mut same = 0;
    for _ in 0..FILLINGS {
        hostile::more_than_there_is_room_for(server)?;
        hostile::a_group_at_once(server)?;
        let now = server.footprint_at_rest()?;
        same = if before.as_ref() == Some(&now) {
            same + 1
        } else {
            0
        };
        if same == 2 {
            return Ok(());
        }
        before = Some(now);
    }
    bail!("the server takes more memory each time that it is filled: {before:?} at last")
}

fn files_are_what_they_are(server: &Server) -> Result<()> {
    let mut connection = server.connect()?;
    for (path, length) in site::files() {
        let target = path.replace(' ', "%20");
        let answer = connection
            .fetch(&target, &site::content(&path))
            .with_context(|| path.clone())?;
        ensure!(answer.body.len() == length && !answer.closes());
        let media = match path.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("png") => "image/png",
            Some("svg") => "image/svg+xml",
            Some("txt") => "text/plain; charset=utf-8",
            _ => "application/octet-stream",
        };
        ensure!(answer.field("content-type") == media, "{path}: its type");
        ensure!(answer.field("accept-ranges") == "bytes");
        ensure!(answer.field("etag").starts_with("W/\""));
        ensure!(answer.field("last-modified").ends_with(" GMT"));
    }
    for wrong in [
        "/nothing",
        "/index.html/",
        "/index.html/x",
        "/http-server",
        "/a%3Ab",
    ] {
        connection.send(get(wrong).as_bytes())?;
        connection
            .answer()?
            .with_status(404)
            .with_context(|| wrong.to_string())?;
    }
    Ok(())
}

fn heads_have_no_bodies(server: &Server) -> Result<()> {
    let mut connection = server.connect()?;
    for (target, status, length) in [
        (LARGE, 200, 2_000_001),
        ("/nothing", 404, 14),
        ("/page", 301, 22),
    ] {
        let request = get(target).replace("GET", "HEAD");
        connection.send(request.as_bytes())?;
        let answer = connection.head()?.with_status(status)?;
        ensure!(answer.field("content-length") == length.to_string());
    }
    connection.fetch(URGENT, &site::content(URGENT))?;
    connection.send(b"HEAD /.. HTTP/1.1\r\nHost: x\r\n\r\n")?;
    connection.head()?.with_status(400)?;
    connection.end()
}

/// Returns a request with another field.
fn with(target: &str, field: &str) -> String {
    get(target).replace("\r\n\r\n", &format!("\r\n{field}\r\n\r\n"))
}

fn parts_of_files(server: &Server) -> Result<()> {
    let mut connection = server.connect()?;
    let whole = site::content(MIDDLE);
    let size = whole.len();
    for (range, part) in [
        ("0-0", 0..1),
        ("1-", 1..size),
        ("16383-16384", 16_383..16_385),
        ("-1", size - 1..size),
        ("-999999", 0..size),
        ("39999-99999", size - 1..size),
    ] {
        let request = with(MIDDLE_TARGET, &format!("Range: bytes={range}"));
        connection.send(request.as_bytes())?;
        let answer = connection.answer()?.with_status(206)?;
        ensure!(answer.body == whole[part.clone()], "{range}: other bytes");
        let expected = format!("bytes {}-{}/{size}", part.start, part.end - 1);
        ensure!(answer.field("content-range") == expected);
    }
    for range in ["40000-", "-0"] {
        let request = with(MIDDLE_TARGET, &format!("Range: bytes={range}"));
        connection.send(request.as_bytes())?;
        let answer = connection.answer()?.with_status(416)?;
        ensure!(answer.field("content-range") == "bytes */40000");
    }
    for field in [
        "Range: bytes=1-2,4-5",
        "Range: lines=1-2",
        "Range: bytes=1-2\r\nIf-Range: \"other\"",
    ] {
        connection.send(with(MIDDLE_TARGET, field).as_bytes())?;
        let answer = connection.answer()?.with_status(200)?;
        ensure!(answer.body == whole, "{field}");
    }
    Ok(())
}

fn only_what_has_changed(server: &Server) -> Result<()> {
    let mut connection = server.connect()?;
    let answer = connection.fetch(URGENT, &site::content(URGENT))?;
    let (tag, date) = (answer.field("etag"), answer.field("last-modified"));
    let same = [
        format!("If-None-Match: {tag}"),
        format!("If-None-Match: \"x\", {tag}"),
        format!("If-Modified-Since: {date}"),
    ];
    for field in same {
        connection.send(with(URGENT, &field).as_bytes())?;
        let answer = connection.answer()?.with_status(304)?;
        ensure!(answer.field("etag") == tag && answer.field("content-length").is_empty());
    }
    let other = [
        ("If-None-Match: \"x\"", 200),
        ("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT", 200),
        ("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT", 412),
        ("If-Match: \"x\"", 412),
    ];
    for (field, status) in other {
        connection.send(with(URGENT, field).as_bytes())?;
        connection.answer()?.with_status(status)?;
    }
    Ok(())
}

fn directories(server: &Server) -> Result<()> {
    let mut connection = server.connect()?;
    connection.send(get("/page").as_bytes())?;
    let answer = connection.answer()?.with_status(301)?;
    ensure!(answer.field("location") == "/page/");
    connection.send(get("//page/assets").as_bytes())?;
    let answer = connection.answer()?.with_status(301)?;
    ensure!(answer.field("location") == "/page/assets/");
    connection.fetch("/page/", &site::content("/page/index.html"))?;
    connection.fetch("/", &site::content("/index.html"))?;
    connection.send(get("/list/").as_bytes())?;
    let answer = connection.answer()?.with_status(200)?;
    let page = String::from_utf8(answer.body)?;
    for number in 0..20 {
        let entry = format!(
            "<a href=\"./file%20{number}%20%26%20more.txt\">file {number} &amp; more.txt</a> 1 "
        );
        ensure!(page.contains(&entry), "`{entry}` is not in {page}");
    }
    ensure!(page.matches("<li>").count() == 21, "more entries: {page}");
    Ok(())
}

fn nothing_outside_of_the_site(server: &Server) -> Result<()> {
    for target in [
        "/../x",
        "/list/../../x",
        "/%2e%2e/x",
        "/list/%2e%2e/index.html",
        "/%2e",
        "/a%2fb",
        "/%00",
        "/%ff",
        "/%",
        "*",
        "index.html",
        "/list/..%2findex.html",
    ] {
        let mut connection = server.connect()?;
        connection.send(get(target).as_bytes())?;
        let answer = connection.answer()?.with_status(400);
        ensure!(answer.with_context(|| target.to_string())?.closes());
        connection.end()?;
    }
    Ok(())
}

fn connections_go_on_or_end(server: &Server) -> Result<()> {
    let content = site::content(URGENT);
    for (version, field, closes) in [
        ("1.1", "", false),
        ("1.1", "Connection: close\r\n", true),
        ("1.0", "", true),
        ("1.0", "Connection: keep-alive\r\n", false),
    ] {
        let mut connection = server.connect()?;
        connection
            .send(format!("GET {URGENT} HTTP/{version}\r\nHost: x\r\n{field}\r\n").as_bytes())?;
        let answer = connection.answer()?.with_status(200)?;
        ensure!(answer.body == content && answer.closes() == closes);
        if closes {
            connection.end()?;
        } else {
            connection.fetch(URGENT, &content)?;
        }
    }
    Ok(())
}

fn requests_in_advance(server: &Server) -> Result<()> {
    let mut connection = server.connect()?;
    let all: String = (0..site::ASSETS)
        .map(|number| get(&site::asset(number)))
        .collect();
    for _ in 0..3 {
        connection.send(all.as_bytes())?;
        for number in 0..site::ASSETS {
            let answer = connection.answer()?.with_status(200)?;
            ensure!(
                answer.body == site::content(&site::asset(number)),
                "the answers' order"
            );
        }
    }
    Ok(())
}

fn bodies_are_thrown_away(server: &Server) -> Result<()> {
    let mut connection = server.connect()?;
    let content = site::content(URGENT);
    for length in [0, 1, 5000, 65_536] {
        connection.send(with(URGENT, &format!("Content-Length: {length}")).as_bytes())?;
        connection.send(&vec![b'G'; length])?;
        let answer = connection.answer()?.with_status(200)?;
        ensure!(answer.body == content && !answer.closes());
    }
    // A client that waits for `100 Continue` gets the answer instead.
    let field = "Content-Length: 5\r\nExpect: 100-continue";
    connection.send(with(URGENT, field).as_bytes())?;
    ensure!(connection.answer()?.with_status(200)?.closes());
    connection.end()
}

fn split_at_every_byte(server: &Server) -> Result<()> {
    let mut connection = server.connect()?;
    let request = with(MIDDLE_TARGET, "Range: bytes=100-199");
    let part = &site::content(MIDDLE)[100..200];
    for cut in 1..request.len() {
        let (first, second) = request.split_at(cut);
        connection.send(first.as_bytes())?;
        connection.send(second.as_bytes())?;
        let answer = connection.answer()?.with_status(206)?;
        ensure!(answer.body == part, "cut at {cut}");
    }
    for byte in request.as_bytes() {
        connection.send(&[*byte])?;
    }
    ensure!(connection.answer()?.with_status(206)?.body == part);
    Ok(())
}

fn closed_in_one_direction(server: &Server) -> Result<()> {
    let content = site::content(LARGE);
    for _ in 0..5 {
        let mut connection = server.connect()?;
        connection.send(get(LARGE).as_bytes())?;
        connection.stream().shutdown(Shutdown::Write)?;
        ensure!(connection.answer()?.with_status(200)?.body == content);
        connection.end()?;
    }
    Ok(())
}

/// Fetches a page, and what it refers to by six connections at a time, three times over.
///
/// Each connection asks for the next file as soon as it has one.
fn as_a_browser_does(server: &Server) -> Result<()> {
    const AT_ONCE: usize = 6;
    let mut first = server.connect()?;
    let mut more = (1..AT_ONCE)
        .map(|_| server.connect())
        .collect::<Result<Vec<_>>>()?;
    for _ in 0..3 {
        first.fetch("/page/", &site::content("/page/index.html"))?;
        let fetch = |connection: &mut Connection, start: usize| -> Result<()> {
            for number in (start..site::ASSETS).step_by(AT_ONCE) {
                let path = site::asset(number);
                connection.fetch(&path, &site::content(&path))?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let all = std::iter::once(&mut first).chain(&mut more);
            let running: Vec<_> = all
                .enumerate()
                .map(|(start, connection)| scope.spawn(move || fetch(connection, start)))
                .collect();
            running
                .into_iter()
                .try_for_each(|thread| thread.join().expect("a client does not panic"))
        })?;
    }
    Ok(())
}

/// Tests that the server finishes requests under way, ends idle connections, and accepts no others.
pub(crate) fn stops_in_order(server: &Server) -> Result<()> {
    let mut idle = server.connect()?;
    idle.fetch(URGENT, &site::content(URGENT))?;
    let mut busy = server.connect()?;
    busy.send(get(LARGE).as_bytes())?;
    // The answer is under way as soon as a part of it has come.
    busy.stream().peek(&mut [0])?;
    ensure!(server.order("stop")? == "stops");
    idle.end().context("the idle connection")?;
    let answer = busy.answer()?.with_status(200)?;
    ensure!(answer.body == site::content(LARGE), "the answer under way");
    busy.end()?;
    let refused = server.connect().and_then(|mut connection| {
        connection.send(get(URGENT).as_bytes())?;
        connection.answer()
    });
    ensure!(refused.is_err(), "it goes on serving");
    Ok(())
}
