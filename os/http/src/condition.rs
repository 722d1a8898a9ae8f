//! Requests that depend on what the client has already (RFC 9110, section 13).
use alloc::format;
use alloc::string::String;

use crate::date;

/// What distinguishes one state of a file from another one.
///
/// The dates of a FAT file system have two seconds' resolution, so the tag is a weak one: the file
/// may have changed twice in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The entity tag, as it stands in `ETag`.
    pub tag: String,
    /// When the file was last changed, in seconds since 1970; `None` if it is not known.
    pub modified: Option<i64>,
}

impl Version {
    /// Returns the version of a file of this size, changed then; 0 if the time is not known.
    #[must_use]
    pub fn new(size: u64, modified: i64) -> Self {
        Self {
            tag: format!("W/\"{modified:x}-{size:x}\""),
            modified: (modified > 0).then_some(modified),
        }
    }
}

/// The conditions of a request, from its fields.
///
/// Of a field that stands there more than once the first one counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions<'a> {
    /// `If-Match`
    pub tag_is: Option<&'a str>,
    /// `If-Unmodified-Since`
    pub unmodified_since: Option<&'a str>,
    /// `If-None-Match`
    pub tag_is_not: Option<&'a str>,
    /// `If-Modified-Since`
    pub modified_since: Option<&'a str>,
    /// `If-Range`
    pub range_if: Option<&'a str>,
}

/// What becomes of a request under its conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The file is sent; a part of it only if that is allowed.
    Send {
        /// A range may be served.
        in_parts: bool,
    },
    /// The client has it already.
    NotModified,
    /// The client wants it in another state only.
    Failed,
}

impl Conditions<'_> {
    /// Judges a file that is there, in the order of RFC 9110, section 13.2.2, for a method that
    /// only reads.
    ///
    /// `now` is the time, if it is known.
    #[must_use]
    pub fn judge(&self, version: &Version, now: Option<i64>) -> Verdict {
        let since = |field: &str| Some((version.modified?, date::parse(field, now)?));
        if let Some(tags) = self.tag_is {
            // A weak tag proves nothing.
            if tags.trim() != "*" {
                return Verdict::Failed;
            }
        } else if let Some((modified, limit)) = self.unmodified_since.and_then(since)
            && modified > limit
        {
            return Verdict::Failed;
        }
        if let Some(tags) = self.tag_is_not {
            if contains(tags, &version.tag) {
                return Verdict::NotModified;
            }
        } else if let Some((modified, known)) = self.modified_since.and_then(since)
            && modified <= known
        {
            return Verdict::NotModified;
        }
        Verdict::Send {
            in_parts: self
                .range_if
                .is_none_or(|field| proves(field, version, now)),
        }
    }
}

/// Tests whether a list of tags has this one; both may be weak.
fn contains(list: &str, tag: &str) -> bool {
    fn opaque(tag: &str) -> &str {
        tag.strip_prefix("W/").unwrap_or(tag)
    }
    list.trim() == "*" || list.split(',').any(|one| opaque(one.trim()) == opaque(tag))
}

/// Tests whether what stands in `If-Range` proves that the client has a part of this very file.
///
/// Its date does once the file's last change is old enough that no second change can have had the
/// same date. A weak tag does not.
fn proves(field: &str, version: &Version, now: Option<i64>) -> bool {
    /// Seconds.
    const LONG_AGO: i64 = 60;
    match (version.modified, date::parse(field.trim(), now), now) {
        (Some(modified), Some(known), Some(now)) => modified == known && now - modified >= LONG_AGO,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT.
    const CHANGED: i64 = 784_111_777;
    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const SEND: Verdict = Verdict::Send { in_parts: true };
    const WHOLE: Verdict = Verdict::Send { in_parts: false };

    fn judge(conditions: Conditions<'_>) -> Verdict {
        conditions.judge(&Version::new(0x64, CHANGED), Some(CHANGED + 1000))
    }

    #[test]
    fn a_current_copy_is_not_sent_again() {
        let tag = Version::new(0x64, CHANGED).tag;
        assert_eq!(tag, "W/\"2ebc98a1-64\"");
        let tag_is_not = |tags| {
            judge(Conditions {
                tag_is_not: Some(tags),
                ..Conditions::default()
            })
        };
        assert_eq!(tag_is_not(&tag), Verdict::NotModified);
        assert_eq!(tag_is_not("\"2ebc98a1-64\""), Verdict::NotModified);
        assert_eq!(
            tag_is_not("\"a\", W/\"2ebc98a1-64\" ,\"b\""),
            Verdict::NotModified
        );
        assert_eq!(tag_is_not("*"), Verdict::NotModified);
        assert_eq!(tag_is_not("\"2ebc98a1-65\""), SEND);
        assert_eq!(tag_is_not(""), SEND);
        let modified_since = |date| {
            judge(Conditions {
                modified_since: Some(date),
                ..Conditions::default()
            })
        };
        assert_eq!(modified_since(DATE), Verdict::NotModified);
        assert_eq!(modified_since(BEFORE), SEND);
        assert_eq!(modified_since("nonsense"), SEND);
        // The tag counts, not the date.
        let both = Conditions {
            tag_is_not: Some("\"other\""),
            modified_since: Some(DATE),
            ..Conditions::default()
        };
        assert_eq!(judge(both), SEND);
    }

    #[test]
    fn a_changed_file_fails_its_precondition() {
        let tag_is = |tags| {
            judge(Conditions {
                tag_is: Some(tags),
                ..Conditions::default()
            })
        };
        assert_eq!(tag_is("*"), SEND);
        assert_eq!(tag_is("W/\"2ebc98a1-64\""), Verdict::Failed);
        let unmodified_since = |date| {
            judge(Conditions {
                unmodified_since: Some(date),
                ..Conditions::default()
            })
        };
        assert_eq!(unmodified_since(DATE), SEND);
        assert_eq!(unmodified_since(BEFORE), Verdict::Failed);
    }

    #[test]
    fn parts_of_the_same_file_only() {
        let range_if = |field| {
            judge(Conditions {
                range_if: Some(field),
                ..Conditions::default()
            })
        };
        assert_eq!(range_if(DATE), SEND);
        assert_eq!(range_if(BEFORE), WHOLE);
        assert_eq!(range_if("W/\"2ebc98a1-64\""), WHOLE);
        let soon = Conditions {
            range_if: Some(DATE),
            ..Conditions::default()
        };
        assert_eq!(
            soon.judge(&Version::new(1, CHANGED), Some(CHANGED + 1)),
            WHOLE
        );
        assert_eq!(soon.judge(&Version::new(1, CHANGED), None), WHOLE);
    }

    #[test]
    fn a_file_without_a_date_is_always_sent() {
        let version = Version::new(1, 0);
        let conditions = Conditions {
            modified_since: Some(DATE),
            ..Conditions::default()
        };
        assert_eq!(conditions.judge(&version, None), SEND);
    }
}
