//! Requests: where one ends, and what it asks for.
use alloc::borrow::Cow;

use crate::answer::Status;
use crate::condition::Conditions;
use crate::path;
use crate::range::{self, Wanted};

/// The most bytes of a request's head.
pub const HEAD_LIMIT: usize = 8 << 10;
/// The most bytes of a request's target.
pub const TARGET_LIMIT: usize = 2 << 10;
/// The most bytes of a body. Nothing here wants one; so many are read and thrown away.
pub const BODY_LIMIT: u64 = 64 << 10;
/// The most fields of a head.
const FIELDS: usize = 64;

/// Finds the end of a head in bytes that come piece by piece, and reads each byte once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scanner {
    looked_at: usize,
    has_line: bool,
    /// Nothing of the line that has begun was received yet.
    line_is_empty: bool,
    begun: bool,
}

/// What a [`Scanner`] has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scanned {
    /// The head has so many bytes.
    Complete(usize),
    /// There must be more to come.
    Incomplete,
    /// This will be no request, whatever comes.
    Refused(Status),
}

impl Scanner {
    /// Returns a scanner for the next request.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tests whether anything of the request has come; empty lines in front of it are nothing.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Inspects what has come of the request by now: what it was given before, and more behind it.
    pub fn scan(&mut self, bytes: &[u8]) -> Scanned {
        for (place, byte) in bytes.iter().enumerate().skip(self.looked_at) {
            if place >= HEAD_LIMIT {
                break;
            }
            self.looked_at = place + 1;
            match byte {
                b'\n' if !self.begun => {}
                b'\n' if self.line_is_empty => return Scanned::Complete(place + 1),
                b'\n' => (self.has_line, self.line_is_empty) = (true, true),
                b'\r' => {}
                // A method begins with a letter. What else comes, TLS say, need not be waited for.
                other if !self.begun && !other.is_ascii_alphabetic() => {
                    return Scanned::Refused(Status::BAD_REQUEST);
                }
                _ => (self.begun, self.line_is_empty) = (true, false),
            }
        }
        if bytes.len() < HEAD_LIMIT {
            Scanned::Incomplete
        } else if self.has_line {
            Scanned::Refused(Status::HEAD_TOO_LARGE)
        } else {
            Scanned::Refused(Status::URI_TOO_LONG)
        }
    }
}

/// What a client wants of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The file.
    Get,
    /// What would be said in front of it.
    Head,
}

/// A request that can be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What is wanted.
    pub method: Method,
    /// Of what: see [`path::of_target`].
    pub path: Cow<'a, str>,
    /// Bytes of the body, which comes behind the head; at most [`BODY_LIMIT`].
    pub body: u64,
    /// Whether the client wants to go on with this connection.
    pub keep_alive: bool,
    /// Under which conditions.
    pub conditions: Conditions<'a>,
    /// Only a part.
    pub range: Option<Wanted>,
}

/// A request that cannot be served.
///
/// The connection ends with the answer, because where the next request would begin is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub status: Status,
    /// The answer has no body, because the request's method says so.
    pub without_body: bool,
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self {
            status,
            without_body: false,
        }
    }
}

/// Methods of HTTP that files do not have.
const OTHER_METHODS: &[&str] = &[
    "CONNECT", "DELETE", "OPTIONS", "PATCH", "POST", "PUT", "TRACE",
];

/// Reads a head that a [`Scanner`] has found.
///
/// # Errors
/// The answer that refuses it.
pub fn parse(head: &[u8]) -> Result<Request<'_>, Refusal> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    match parsed.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err(Status::BAD_REQUEST.into()),
        Err(httparse::Error::TooManyHeaders) => return Err(Status::HEAD_TOO_LARGE.into()),
        Err(httparse::Error::Version) => return Err(of_other_version(head).into()),
        Err(_) => return Err(Status::BAD_REQUEST.into()),
    }
    let (Some(name), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version)
    else {
        return Err(Status::BAD_REQUEST.into());
    };
    let (method, without_body) = match name {
        "GET" => (Method::Get, false),
        "HEAD" => (Method::Head, true),
        name if OTHER_METHODS.contains(&name) => return Err(Status::METHOD_NOT_ALLOWED.into()),
        _ => return Err(Status::NOT_IMPLEMENTED.into()),
    };
    let refuse = |status| Refusal {
        status,
        without_body,
    };
    if target.len() > TARGET_LIMIT {
        return Err(refuse(Status::URI_TOO_LONG));
    }
    let mut request = Request {
        method,
        path: path::of_target(target).map_err(refuse)?,
        body: 0,
        keep_alive: minor >= 1,
        conditions: Conditions::default(),
        range: None,
    };
    request.read_fields(parsed.headers, minor).map_err(refuse)?;
    Ok(request)
}

/// Returns the status for what the parser took for another version: one of HTTP, or nonsense.
fn of_other_version(head: &[u8]) -> Status {
    let line = head.trim_ascii_start().split(|byte| *byte == b'\n').next();
    let version = line.and_then(|line| line.trim_ascii_end().rsplit(|byte| *byte == b' ').next());
    match version.and_then(|version| version.strip_prefix(b"HTTP/")) {
        Some([major, b'.', minor]) if major.is_ascii_digit() && minor.is_ascii_digit() => {
            Status::VERSION_NOT_SUPPORTED
        }
        _ => Status::BAD_REQUEST,
    }
}

impl<'a> Request<'a> {
    fn read_fields(&mut self, fields: &[httparse::Header<'a>], minor: u8) -> Result<(), Status> {
        let (mut hosts, mut length, mut expects, mut closes) = (0, None, false, false);
        let mut ranges = 0;
        for field in fields {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            let text = || core::str::from_utf8(field.value).map_err(|_| Status::BAD_REQUEST);
            if is("Host") {
                hosts += 1;
            } else if is("Content-Length") {
                let this = range::number(text()?.trim()).ok_or(Status::BAD_REQUEST)?;
                if length.replace(this).is_some_and(|before| before != this) {
                    return Err(Status::BAD_REQUEST);
                }
            } else if is("Transfer-Encoding") {
                // With a length as well it is an attempt to smuggle; else something that is not
                // done here.
                let both = fields
                    .iter()
                    .any(|field| field.name.eq_ignore_ascii_case("Content-Length"));
                return Err(if both || minor == 0 {
                    Status::BAD_REQUEST
                } else {
                    Status::NOT_IMPLEMENTED
                });
            } else if is("Connection") {
                for option in text()?.split(',').map(str::trim) {
                    closes |= option.eq_ignore_ascii_case("close");
                    self.keep_alive |= option.eq_ignore_ascii_case("keep-alive");
                }
            } else if is("Expect") {
                if !text()?.trim().eq_ignore_ascii_case("100-continue") {
                    return Err(Status::EXPECTATION_FAILED);
                }
                expects = true;
            } else if is("Range") {
                ranges += 1;
                // A range that is not understood counts as none.
                self.range = text().ok().and_then(Wanted::parse);
            } else if let Some(condition) = self.condition(field.name) {
                // A condition that is no text holds for nothing.
                condition.get_or_insert(text().unwrap_or(""));
            }
        }
        // One host in HTTP/1.1, at most one in HTTP/1.0.
        if hosts > 1 || (hosts == 0 && minor >= 1) {
            return Err(Status::BAD_REQUEST);
        }
        if ranges > 1 {
            self.range = None;
        }
        self.body = length.unwrap_or(0);
        if self.body > BODY_LIMIT {
            return Err(Status::CONTENT_TOO_LARGE);
        }
        // A client that waits for leave to send a body gets the answer instead, and may send
        // it nevertheless, or not.
        let is_unsure = expects && self.body > 0;
        self.keep_alive &= !closes && !is_unsure;
        Ok(())
    }

    /// Returns the condition that a field is.
    fn condition(&mut self, name: &str) -> Option<&mut Option<&'a str>> {
        let conditions = &mut self.conditions;
        [
            ("If-None-Match", &mut conditions.tag_is_not),
            ("If-Modified-Since", &mut conditions.modified_since),
            ("If-Range", &mut conditions.range_if),
            ("If-Match", &mut conditions.tag_is),
            ("If-Unmodified-Since", &mut conditions.unmodified_since),
        ]
        .into_iter()
        .find_map(|(known, condition)| name.eq_ignore_ascii_case(known).then_some(condition))
    }
}
