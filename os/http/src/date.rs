//! Dates in HTTP's form (RFC 9110, section 5.6.7). Times are whole seconds since 1970, UTC.
use alloc::string::String;

use jiff::fmt::{rfc2822::DateTimePrinter, strtime};
use jiff::{Timestamp, civil};

/// Formats a date as every answer writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
///
/// `None` for years that have no four digits.
#[must_use]
pub fn format(seconds: i64) -> Option<String> {
    let time = Timestamp::from_second(seconds).ok()?;
    DateTimePrinter::new()
        .timestamp_to_rfc9110_string(&time)
        .ok()
}

/// Parses a date as a request may have it.
///
/// It is in the form of [`format`](fn@format), or in one of the two obsolete ones. `now` says which
/// century a year of two digits is in.
#[must_use]
pub fn parse(text: &str, now: Option<i64>) -> Option<i64> {
    /// More than 50 years in the future is in the past.
    const FUTURE: i64 = 50 * 31_556_952;
    let read = |form: &str| -> Option<i64> {
        let parsed = strtime::parse(form, text).ok()?;
        let datetime: civil::DateTime = parsed.to_datetime().ok()?;
        let zoned = datetime.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
        Some(zoned.timestamp().as_second())
    };
    if let Some(seconds) = read("%a, %d %b %Y %H:%M:%S GMT") {
        return Some(seconds);
    }
    if let Some(seconds) = read("%A, %d-%b-%y %H:%M:%S GMT") {
        let is_past = now.is_some_and(|now| seconds > now + FUTURE);
        return Some(if is_past {
            // A century of 36,525 or 36,524 days: the same date, a hundred years before.
            before_a_century(seconds)?
        } else {
            seconds
        });
    }
    read("%a %b %e %H:%M:%S %Y")
}

fn before_a_century(seconds: i64) -> Option<i64> {
    let time = Timestamp::from_second(seconds).ok()?;
    let datetime = jiff::tz::TimeZone::UTC.to_datetime(time);
    let before = datetime.with().year(datetime.year() - 100).build().ok()?;
    let zoned = before.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(zoned.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms_of_the_standard_are_read() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(
                parse(text, Some(1_700_000_000)),
                Some(784_111_777),
                "{text}"
            );
        }
        assert_eq!(
            format(784_111_777).as_deref(),
            Some("Sun, 06 Nov 1994 08:49:37 GMT")
        );
    }

    #[test]
    fn two_digits_are_not_far_in_the_future() {
        let text = "Thursday, 01-Jan-60 00:00:00 GMT";
        let parsed = parse(text, Some(784_111_777));
        assert_eq!(
            parsed.and_then(format).as_deref(),
            Some("Fri, 01 Jan 1960 00:00:00 GMT")
        );
    }

    #[test]
    fn other_texts_are_no_dates() {
        for text in [
            "",
            "yesterday",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 32 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 25:49:37 GMT",
            "99999999999999999999",
        ] {
            assert_eq!(parse(text, Some(0)), None, "{text}");
        }
        assert_eq!(format(i64::MAX), None);
    }
}
