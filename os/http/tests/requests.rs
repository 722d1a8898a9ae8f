//! Requests as they come: from a table, split at every byte, and any bytes at all.
use corank_http::answer::Status;
use corank_http::condition::Conditions;
use corank_http::range::Wanted;
use corank_http::request::{
    BODY_LIMIT, HEAD_LIMIT, Method, Refusal, Request, Scanned, Scanner, TARGET_LIMIT, parse,
};
use corank_http::{date, level::Levels, media, path};
use proptest::prelude::*;

/// Parses a request that arrives in one piece.
fn read(bytes: &[u8]) -> Result<Request<'_>, Refusal> {
    match Scanner::new().scan(bytes) {
        Scanned::Complete(length) => parse(&bytes[..length]),
        Scanned::Refused(status) => Err(status.into()),
        Scanned::Incomplete => panic!("{} is incomplete", bytes.escape_ascii()),
    }
}

fn refused(text: &str) -> u16 {
    match read(text.as_bytes()) {
        Ok(request) => panic!("{text}: {request:?}"),
        Err(refusal) => refusal.status.number(),
    }
}

#[test]
fn a_request_with_every_field_is_read() {
    let text = "\r\nHEAD /a%20b?c HTTP/1.1\r\nHost: x\r\ncontent-length: 5\r\nCONNECTION: foo, Close\r\nIf-None-Match: \"a\"\r\n\
                If-Modified-Since: b\r\nIf-Range: c\r\nIf-Match: d\r\nIf-Unmodified-Since: e\r\nIf-Match: f\r\nRange: bytes=1-2\r\n\r\nxxxxxGET";
    assert_eq!(
        read(text.as_bytes()),
        Ok(Request {
            method: Method::Head,
            path: "/a b".into(),
            body: 5,
            keep_alive: false,
            conditions: Conditions {
                tag_is: Some("d"),
                unmodified_since: Some("e"),
                tag_is_not: Some("\"a\""),
                modified_since: Some("b"),
                range_if: Some("c"),
            },
            range: Some(Wanted::From(1, Some(2))),
        })
    );
}

#[test]
fn the_version_and_the_header_decide_whether_the_connection_persists() {
    for (text, keep_alive) in [
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", true),
        ("GET / HTTP/1.1\nHost: x\n\n", true),
        (
            "GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, close\r\n\r\n",
            false,
        ),
        ("GET / HTTP/1.0\r\n\r\n", false),
        ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true),
        (
            "GET / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n",
            false,
        ),
        (
            "GET / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n",
            true,
        ),
    ] {
        assert_eq!(
            read(text.as_bytes()).unwrap().keep_alive,
            keep_alive,
            "{text}"
        );
    }
}

#[test]
fn ranges_are_answered_in_parts() {
    let range = |fields: &str| {
        let text = format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
        read(text.as_bytes()).unwrap().range
    };
    assert_eq!(range("Range: bytes=-5\r\n"), Some(Wanted::Last(5)));
    assert_eq!(range("Range: bytes=a\r\n"), None);
    assert_eq!(range("Range: bytes=1-2\r\nRange: bytes=1-2\r\n"), None);
}

#[test]
fn malformed_requests_are_refused() {
    let long = "a".repeat(TARGET_LIMIT);
    let longer = "a".repeat(HEAD_LIMIT);
    let many = "a: b\r\n".repeat(65);
    let with = |fields: &str| format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n");
    for (text, status) in [
        ("GET / HTTP/1.1\r\n\r\n".to_string(), 400),
        ("GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n".into(), 400),
        ("GET /../x HTTP/1.1\r\nHost: x\r\n\r\n".into(), 400),
        ("GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n".into(), 400),
        ("GET  / HTTP/1.1\r\nHost: x\r\n\r\n".into(), 400),
        ("GET /\r\n\r\n".into(), 400),
        ("GET / HTTP/1.1 \r\n\r\n".into(), 400),
        ("GET / HTTX/1.1\r\n\r\n".into(), 400),
        ("G\0T / HTTP/1.1\r\n\r\n".into(), 400),
        ("GET / HTTP/1.1\r\nHost : x\r\n\r\n".into(), 400),
        ("GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n".into(), 400),
        ("\u{16}\u{3}\u{1}".into(), 400),
        (" GET / HTTP/1.1".into(), 400),
        (with("Content-Length: -1"), 400),
        (with("Content-Length: 5, 5"), 400),
        (with("Content-Length: +5"), 400),
        (with("Content-Length: "), 400),
        (with("Content-Length: 5\r\nContent-Length: 6"), 400),
        (with("Content-Length: 5\r\nTransfer-Encoding: chunked"), 400),
        (with("Transfer-Encoding: chunked\r\nContent-Length: 5"), 400),
        (
            "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".into(),
            400,
        ),
        ("POST / HTTP/1.1\r\nHost: x\r\n\r\n".into(), 405),
        ("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n".into(), 405),
        (with(&format!("Content-Length: {}", BODY_LIMIT + 1)), 413),
        (with("Content-Length: 99999999999999999999999"), 413),
        (format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n"), 414),
        (format!("GET /{longer}"), 414),
        (with("Expect: a"), 417),
        (format!("GET / HTTP/1.1\r\nHost: x\r\n{many}\r\n"), 431),
        (format!("GET / HTTP/1.1\r\na: {longer}"), 431),
        ("BREW / HTTP/1.1\r\nHost: x\r\n\r\n".into(), 501),
        ("get / HTTP/1.1\r\nHost: x\r\n\r\n".into(), 501),
        (with("Transfer-Encoding: chunked"), 501),
        ("GET / HTTP/2.0\r\n\r\n".into(), 505),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(), 505),
        ("GET / HTTP/1.2\r\nHost: x\r\n\r\n".into(), 505),
    ] {
        let shown: String = text.chars().take(100).collect();
        assert_eq!(refused(&text), status, "{shown}");
    }
}

#[test]
fn a_head_has_no_body_even_if_it_is_refused() {
    let refusal = read(b"HEAD /.. HTTP/1.1\r\nHost: x\r\n\r\n").unwrap_err();
    assert_eq!(
        (refusal.status, refusal.without_body),
        (Status::BAD_REQUEST, true)
    );
}

#[test]
fn the_limits_are_exact() {
    let head = |length: usize| {
        let start = "GET / HTTP/1.1\r\nHost: x\r\na: ";
        format!("{start}{}\r\n\r\n", "b".repeat(length - start.len() - 4))
    };
    assert!(read(head(HEAD_LIMIT).as_bytes()).is_ok());
    assert_eq!(refused(&head(HEAD_LIMIT + 1)), 431);
    let target = format!("/{}", "a".repeat(TARGET_LIMIT - 1));
    assert!(read(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).is_ok());
    let body = format!("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: {BODY_LIMIT}\r\n\r\n");
    assert_eq!(read(body.as_bytes()).unwrap().body, BODY_LIMIT);
}

/// Generates text that is nearly a request.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "GET ",
        "HEAD ",
        "POST ",
        "/",
        "/a%20b",
        "/../",
        "%2e",
        " HTTP/1.1",
        " HTTP/2.0",
        "\r\n",
        "\n",
        "\r",
        "\r\n\r\n",
        "Host: x",
        "Range: bytes=",
        "1-2",
        "Content-Length: ",
        "5",
        "Connection: close",
        "If-None-Match: *",
        "Transfer-Encoding: chunked",
        ":",
        "\0",
        "\u{fc}",
        "Expect: ",
        "a",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat().into_bytes())
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![nearly(), prop::collection::vec(any::<u8>(), 0..200)]
}

proptest! {
    /// However the bytes are cut into pieces, the head ends at the same place, and nothing panics.
    #[test]
    fn pieces_make_no_difference(bytes in any_bytes(), cuts in prop::collection::vec(0_usize..300, 0..8)) {
        let whole = Scanner::new().scan(&bytes);
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < bytes.len()).collect();
        cuts.sort_unstable();
        cuts.push(bytes.len());
        let mut scanner = Scanner::new();
        let mut found = Scanned::Incomplete;
        for cut in cuts {
            found = scanner.scan(&bytes[..cut]);
            if found != Scanned::Incomplete {
                break;
            }
        }
        prop_assert_eq!(found, whole);
        if let Scanned::Complete(length) = whole {
            let _ = parse(&bytes[..length]);
        }
    }

    /// What is parsed asks for something inside of the site, within the limits.
    #[test]
    fn a_request_stays_inside(bytes in any_bytes()) {
        if let Scanned::Complete(length) = Scanner::new().scan(&bytes) {
            prop_assert!(length <= HEAD_LIMIT);
            if let Ok(request) = parse(&bytes[..length]) {
                prop_assert!(stays_inside(&request.path));
                prop_assert!(request.body <= BODY_LIMIT);
            }
        }
    }

    /// The same for targets of any kind.
    #[test]
    fn a_path_stays_inside(target in "(/|%2[fF]|%2[eE]|\\.|a|%|[0-9a-f]|\\?|http://|\\PC){0,40}") {
        if let Ok(path) = path::of_target(&target) {
            prop_assert!(stays_inside(&path), "{}", path);
        }
        if let Ok(path) = path::of_target(&format!("/{target}")) {
            prop_assert!(stays_inside(&path), "{}", path);
        }
    }

    /// A name that a listing refers to is found again.
    #[test]
    fn names_survive_a_reference(name in "[^/\\p{Cc}]{1,40}") {
        prop_assume!(name != "." && name != "..");
        let target = format!("/{}", path::encoded(&name));
        prop_assert_eq!(path::of_target(&target).unwrap().into_owned(), format!("/{name}"));
    }

    /// A part of a file is never more than the file.
    #[test]
    fn a_part_is_inside_the_file(value in "(bytes=)?([0-9]{0,20}-?[0-9]{0,20}|\\PC*)", size: u64) {
        if let Some(range) = Wanted::parse(&value).and_then(|wanted| wanted.of(size)) {
            prop_assert!(range.start < range.end && range.end <= size);
        }
    }

    /// Dates are read back, and whatever else a client writes is no harm.
    #[test]
    fn dates_are_read_back(seconds in -62_167_219_200_i64..253_402_207_200, text in "\\PC*") {
        let written = date::format(seconds).unwrap();
        prop_assert_eq!(date::parse(&written, None), Some(seconds));
        let _ = date::parse(&text, Some(seconds));
        let _ = media::of(&text);
        let _ = Levels::new(0).add_all(&text);
    }
}

fn stays_inside(path: &str) -> bool {
    path.starts_with('/')
        && path.split('/').all(|part| part != "." && part != "..")
        && !path.contains(|char: char| char.is_control())
}
