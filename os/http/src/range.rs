//! Parts of files (RFC 9110, section 14). One range of bytes is served; a request for several
//! gets the whole file, as the standard allows.
use core::ops::Range;

/// Which part of a file a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// From one byte on, up to another one, that one included, or to the end.
    From(u64, Option<u64>),
    /// So many bytes at the end.
    Last(u64),
}

impl Wanted {
    /// Parses the value of the field `Range`.
    ///
    /// `None` if it is to be ignored: another unit, several ranges, or one that makes no sense.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        let (unit, range) = value.trim().split_once('=')?;
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return None;
        }
        let (first, last) = range.trim().split_once('-')?;
        match (first, last) {
            ("", count) => Some(Self::Last(number(count)?)),
            (first, "") => Some(Self::From(number(first)?, None)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::From(first, Some(last)))
            }
        }
    }

    /// Returns the bytes of a file of this size; `None` if it has none of them.
    #[must_use]
    pub fn of(self, size: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::From(first, last) => {
                first..last.map_or(size, |last| last.saturating_add(1)).min(size)
            }
            Self::Last(count) => size.saturating_sub(count)..size,
        };
        (range.start < range.end).then_some(range)
    }
}

/// Parses digits, and nothing else.
///
/// What is larger than any file counts as the largest number.
pub(crate) fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_understood() {
        let of = |value: &str, size| Wanted::parse(value).map(|wanted| wanted.of(size));
        assert_eq!(of("bytes=0-0", 10), Some(Some(0..1)));
        assert_eq!(of("bytes=2-5", 10), Some(Some(2..6)));
        assert_eq!(of("Bytes = 2-", 10), Some(Some(2..10)));
        assert_eq!(of("bytes=5-99999999999999999999999", 10), Some(Some(5..10)));
        assert_eq!(of("bytes=-3", 10), Some(Some(7..10)));
        assert_eq!(of("bytes=-30", 10), Some(Some(0..10)));
        assert_eq!(of("bytes=10-", 10), Some(None));
        assert_eq!(of("bytes=-0", 10), Some(None));
        assert_eq!(of("bytes=-1", 0), Some(None));
        assert_eq!(of("bytes=0-18446744073709551615", 10), Some(Some(0..10)));
    }

    #[test]
    fn other_ranges_are_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=5-2",
            "bytes=0-1,3-4",
            "items=0-1",
            "bytes=a-b",
            "bytes=+1-2",
            "bytes=--1",
            "bytes=1 - 2",
            "0-1",
        ] {
            assert_eq!(Wanted::parse(value), None, "{value}");
        }
    }
}
