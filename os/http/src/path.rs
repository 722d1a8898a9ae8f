//! From a request's target to the path of a file.
use alloc::borrow::Cow;
use core::fmt;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::answer::Status;

/// What is encoded in a reference: all that may not stand in a path, and what would end it or begin
/// another form of reference.
const REFERENCE: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'&')
    .add(b'\'')
    .add(b':')
    .add(b';')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Returns the path that a target in origin form or absolute form names, without its query,
/// decoded.
///
/// It begins with `/`, has no part that is `.` or `..`, and no control character: below whatever
/// directory it is put, it stays there.
///
/// # Errors
/// [`Status::BAD_REQUEST`] if it has another form, would leave the site, or is no UTF-8 when
/// decoded.
pub fn of_target(target: &str) -> Result<Cow<'_, str>, Status> {
    let path = origin_form(target).ok_or(Status::BAD_REQUEST)?;
    let path = path.split(['?', '#']).next().unwrap_or(path);
    // Decoded once, part by part. So an encoded separator does not separate, and no file has one in
    // its name.
    for part in path.split('/') {
        let part = decode(part)?;
        let is_dots = part == "." || part == "..";
        if is_dots || part.contains('/') || part.contains(|char: char| char.is_control()) {
            return Err(Status::BAD_REQUEST);
        }
    }
    decode(path)
}

fn decode(text: &str) -> Result<Cow<'_, str>, Status> {
    // A sign without two digits behind it would be left as it is: that is no encoding.
    let mut rest = text;
    while let Some((_, behind)) = rest.split_once('%') {
        let digits = behind.as_bytes().first_chunk::<2>();
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            return Err(Status::BAD_REQUEST);
        }
        rest = behind;
    }
    percent_decode_str(text)
        .decode_utf8()
        .map_err(|_| Status::BAD_REQUEST)
}

/// Returns the part of a target that begins with `/`; `None` if there is none.
fn origin_form(target: &str) -> Option<&str> {
    if target.starts_with('/') {
        return Some(target);
    }
    let scheme = target.get(..7)?;
    if !scheme.eq_ignore_ascii_case("http://") {
        return None;
    }
    let rest = &target[7..];
    match rest.find(['/', '?', '#']) {
        // Without a host it is invalid.
        Some(0) => None,
        Some(start) if rest.as_bytes()[start] == b'/' => Some(&rest[start..]),
        _ => (!rest.is_empty()).then_some("/"),
    }
}

/// Returns a path, or one part of it, as it stands in a reference.
#[must_use]
pub fn encoded(path: &str) -> impl fmt::Display + '_ {
    utf8_percent_encode(path, REFERENCE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn targets_become_paths() {
        for (target, path) in [
            ("/", "/"),
            ("/a/b.txt", "/a/b.txt"),
            ("/a%20b/%C3%BC?query=/../x", "/a b/ü"),
            ("/a//b/", "/a//b/"),
            ("/a.b/..c/...", "/a.b/..c/..."),
            ("http://host:80/a?b", "/a"),
            ("HTTP://host", "/"),
            ("http://host?x/y", "/"),
            ("/%25", "/%"),
            ("/%2525", "/%25"),
        ] {
            assert_eq!(of_target(target).as_deref(), Ok(path), "{target}");
        }
    }

    #[test]
    fn nothing_leaves_the_site() {
        for target in [
            "",
            "*",
            "a",
            "//../x",
            "/..",
            "/../etc",
            "/a/../b",
            "/a/.",
            "/./",
            "/%2e%2e/x",
            "/%2E./x",
            "/a/%2e%2e",
            "/a%2fb",
            "/a%2f..%2fb",
            "/%00",
            "/a%0d%0ab",
            "/%7f",
            "/%c2%85",
            "/%",
            "/%2",
            "/%zz",
            "/%+1",
            "/%ff",
            "/%c3",
            "host:80",
            "http://",
            "http:///a",
            "https://host/",
            "http:/a",
            "ü",
        ] {
            assert_eq!(of_target(target), Err(Status::BAD_REQUEST), "{target}");
        }
    }

    #[test]
    fn references_are_read_back() {
        let name = "a b&c<d>'e\"f?g#h%i:j;k[l]m\\ü";
        let encoded = encoded(name).to_string();
        assert!(encoded.bytes().all(|byte| byte.is_ascii_graphic()));
        assert!(!encoded.contains(['<', '>', '"', '\'', '&', '#', '?', ' ', ':']));
        let target = ["/", &encoded].concat();
        assert_eq!(of_target(&target).unwrap(), ["/", name].concat());
    }
}
