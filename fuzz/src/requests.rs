//! What the HTTP server reads: heads of requests, targets, conditions, ranges, levels of paths.

use corank_http::condition::Version;
use corank_http::level::Levels;
use corank_http::range::Wanted;
use corank_http::request::{Scanned, Scanner, parse};
use corank_http::{date, path};

/// A file for the conditions and ranges of requests.
const SIZE: u64 = 1000;

/// Reads the input as the head of a request, in pieces and as a whole.
///
/// # Panics
/// Panics if the pieces matter, or if a path leaves the site.
pub fn run(data: &[u8]) {
    let piece = 1 + data.first().map_or(0, |&byte| usize::from(byte));
    let mut in_pieces = Scanner::new();
    let mut scanned = Scanned::Incomplete;
    for end in (0..data.len()).step_by(piece).chain([data.len()]) {
        scanned = in_pieces.scan(&data[..end]);
        if scanned != Scanned::Incomplete {
            break;
        }
    }
    let whole = Scanner::new().scan(data);
    if let Scanned::Complete(end) = whole {
        assert_eq!(scanned, whole, "it depends on the pieces");
        request(&data[..end]);
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = date::parse(text, Some(0));
        let _ = Levels::new(32).add_all(text);
        if let Some(part) = Wanted::parse(text).and_then(|wanted| wanted.of(SIZE)) {
            assert!(part.start < part.end && part.end <= SIZE);
        }
        target(text);
    }
}

fn request(head: &[u8]) {
    if let Ok(request) = parse(head) {
        stays_in_the_site(&request.path);
        let _ = (request.conditions).judge(&Version::new(SIZE, 1), Some(0));
        if let Some(part) = request.range.and_then(|wanted| wanted.of(SIZE)) {
            assert!(part.start < part.end && part.end <= SIZE);
        }
    }
}

fn target(text: &str) {
    if let Ok(found) = path::of_target(text) {
        stays_in_the_site(&found);
        // What it was encoded from is found again.
        let again = path::encoded(&found).to_string();
        let again = path::of_target(&again).map(|path| path.into_owned());
        assert_eq!(again.as_deref(), Ok(&*found));
    }
}

fn stays_in_the_site(path: &str) {
    assert!(path.starts_with('/'), "{path:?}");
    assert!(!path.contains('\0'), "{path:?}");
    assert!(path.split('/').all(|part| part != ".."), "{path:?}");
}
