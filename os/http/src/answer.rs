//! Statuses, and heads of answers.
use alloc::vec::Vec;
use core::fmt::{self, Display, Write};

use crate::date;

/// The outcome of a request: three digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(u16);

/// Declares the statuses with their numbers and their phrases.
macro_rules! statuses {
    ($($name:ident = $number:literal $phrase:literal;)*) => {
        impl Status {
            $(#[doc = $phrase] pub const $name: Self = Self($number);)*

            /// Returns what the number means, in English.
            #[must_use]
            pub fn phrase(self) -> &'static str {
                match self.0 {
                    $($number => $phrase,)*
                    _ => "",
                }
            }
        }
    };
}

statuses! {
    OK = 200 "OK";
    PARTIAL_CONTENT = 206 "Partial Content";
    MOVED_PERMANENTLY = 301 "Moved Permanently";
    NOT_MODIFIED = 304 "Not Modified";
    BAD_REQUEST = 400 "Bad Request";
    NOT_FOUND = 404 "Not Found";
    METHOD_NOT_ALLOWED = 405 "Method Not Allowed";
    REQUEST_TIMEOUT = 408 "Request Timeout";
    PRECONDITION_FAILED = 412 "Precondition Failed";
    CONTENT_TOO_LARGE = 413 "Content Too Large";
    URI_TOO_LONG = 414 "URI Too Long";
    RANGE_NOT_SATISFIABLE = 416 "Range Not Satisfiable";
    EXPECTATION_FAILED = 417 "Expectation Failed";
    HEAD_TOO_LARGE = 431 "Request Header Fields Too Large";
    INTERNAL_SERVER_ERROR = 500 "Internal Server Error";
    NOT_IMPLEMENTED = 501 "Not Implemented";
    SERVICE_UNAVAILABLE = 503 "Service Unavailable";
    VERSION_NOT_SUPPORTED = 505 "HTTP Version Not Supported";
}

impl Status {
    /// Returns the number.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }
}

impl Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.phrase())
    }
}

/// The head of an answer, written piece by piece.
///
/// Whatever it is given, it stays one head: a line break in a value ends the value.
#[derive(Debug)]
#[must_use = "a head needs its end"]
pub struct Head<'a>(&'a mut Vec<u8>);

impl<'a> Head<'a> {
    /// Begins a head behind what is in `bytes`: the status and, if the time is known, the date.
    pub fn new(bytes: &'a mut Vec<u8>, status: Status, now: Option<i64>) -> Self {
        let mut head = Self(bytes);
        head.line(format_args!("HTTP/1.1 {status}"));
        if let Some(now) = now.and_then(date::format) {
            head = head.field("Date", now);
        }
        head
    }

    /// Adds another field.
    pub fn field(mut self, name: &str, value: impl Display) -> Self {
        self.line(format_args!("{name}: {value}"));
        self
    }

    /// Writes whether the connection goes on, and the end of the head.
    ///
    /// `length` is the length of the body; `None` where an answer has no body at all. The body goes
    /// behind what is in the result.
    pub fn end(mut self, length: Option<u64>, keep_alive: bool) -> &'a mut Vec<u8> {
        if let Some(length) = length {
            self = self.field("Content-Length", length);
        }
        let connection = if keep_alive { "keep-alive" } else { "close" };
        let bytes = self.field("Connection", connection).0;
        bytes.extend(b"\r\n");
        bytes
    }

    fn line(&mut self, text: fmt::Arguments<'_>) {
        let mut line = Line(self.0);
        // Writing into a vector does not fail.
        let _ = line.write_fmt(text);
        self.0.extend(b"\r\n");
    }
}

/// Text without line breaks.
struct Line<'a>(&'a mut Vec<u8>);

impl Write for Line<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0
            .extend(text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_its_status_and_fields() {
        let mut bytes = Vec::new();
        Head::new(&mut bytes, Status::OK, Some(784_111_777))
            .field("Allow", "GET")
            .end(Some(5), true);
        assert_eq!(
            core::str::from_utf8(&bytes).unwrap(),
            "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nAllow: GET\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n"
        );
        bytes.clear();
        Head::new(&mut bytes, Status::NOT_MODIFIED, None).end(None, false);
        assert_eq!(
            bytes,
            b"HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn a_value_cannot_become_a_line() {
        let mut bytes = Vec::new();
        Head::new(&mut bytes, Status::OK, None)
            .field("Location", "/a\r\nSet-Cookie: b")
            .end(Some(0), false);
        let text = core::str::from_utf8(&bytes).unwrap();
        assert!(text.contains("Location: /aSet-Cookie: b\r\n"));
    }
}
