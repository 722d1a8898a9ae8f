//! How urgent a request is: by its path.
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// The least urgent level.
const LAST: u8 = 63;

/// Rules that give levels to paths.
///
/// The longest prefix counts, in whole parts of the path. Upper and lower case are alike, and empty
/// parts are none, as in the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    rules: Vec<(String, u8)>,
    other: u8,
}

/// Returns the parts of a path.
fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

/// Returns how many parts a prefix has, if `path` begins with them all.
fn matched(prefix: &str, path: &str) -> Option<usize> {
    let mut path = parts(path);
    let mut count = 0;
    for part in parts(prefix) {
        if !path.next()?.eq_ignore_ascii_case(part) {
            return None;
        }
        count += 1;
    }
    Some(count)
}

/// A rule that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRule(String);

impl fmt::Display for BadRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no rule: write a path and a level from 0, the most urgent, to 63, as in /urgent=4",
            self.0
        )
    }
}

impl core::error::Error for BadRule {}

impl Levels {
    /// Creates an empty set of rules: every path has the level `other`.
    #[must_use]
    pub fn new(other: u8) -> Self {
        Self {
            rules: Vec::new(),
            other: other.min(LAST),
        }
    }

    /// Gives another level to paths without a rule; what is more than 63 counts as 63.
    pub fn set_other(&mut self, other: u8) {
        self.other = other.min(LAST);
    }

    /// Adds a rule, `PREFIX=LEVEL`.
    ///
    /// It replaces one for the same prefix.
    ///
    /// # Errors
    /// It has another form.
    pub fn add(&mut self, rule: &str) -> Result<(), BadRule> {
        let bad = || BadRule(rule.to_string());
        let (prefix, level) = rule.rsplit_once('=').ok_or_else(bad)?;
        let prefix = prefix.trim();
        let level: u8 = level.trim().parse().map_err(|_| bad())?;
        if !prefix.starts_with('/') || level > LAST {
            return Err(bad());
        }
        let is_same =
            |other: &str| matched(prefix, other).is_some() && matched(other, prefix).is_some();
        self.rules.retain(|(other, _)| !is_same(other));
        self.rules.push((prefix.to_string(), level));
        Ok(())
    }

    /// Adds the rules of a file: one on each line; empty lines, and those that begin with `#`, say
    /// nothing.
    ///
    /// # Errors
    /// A line is no rule. Those above it have been added.
    pub fn add_all(&mut self, text: &str) -> Result<(), BadRule> {
        text.lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .try_for_each(|line| self.add(line))
    }

    /// Returns the level of a path.
    ///
    /// O(rules).
    #[must_use]
    pub fn of(&self, path: &str) -> u8 {
        let matching = (self.rules.iter())
            .filter_map(|(prefix, level)| Some((matched(prefix, path)?, *level)));
        matching
            .max_by_key(|(parts, _)| *parts)
            .map_or(self.other, |(_, level)| level)
    }

    /// Returns the most urgent level that a path may have.
    #[must_use]
    pub fn most_urgent(&self) -> u8 {
        let levels = self.rules.iter().map(|(_, level)| *level);
        levels.fold(self.other, u8::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_counts() {
        let mut levels = Levels::new(32);
        levels
            .add_all("# levels\n\n/urgent = 4\n/bulk/=60\n  /bulk/index.html=10\n/a=b=7\n")
            .unwrap();
        for (path, level) in [
            ("/", 32),
            ("/urgent", 4),
            ("/URGENT/x", 4),
            ("//urgent//x", 4),
            ("/urgently", 32),
            ("/bulk/x/y", 60),
            ("/bulk/index.html", 10),
            ("/a=b/c", 7),
            ("/ü", 32),
        ] {
            assert_eq!(levels.of(path), level, "{path}");
        }
        assert_eq!(levels.most_urgent(), 4);
        levels.add("/Urgent=40").unwrap();
        assert_eq!(levels.of("/urgent/x"), 40);
        levels.add("/=5").unwrap();
        assert_eq!((levels.of("/x"), levels.most_urgent()), (5, 5));
    }

    #[test]
    fn malformed_rules_are_refused() {
        for rule in [
            "", "=", "/a", "/a=", "/a=64", "/a=-1", "/a=x", "a=1", "/a=1=", "/a 1",
        ] {
            let error = Levels::new(0).add(rule).unwrap_err().to_string();
            assert!(
                error.starts_with(&alloc::format!("`{rule}` is no rule")),
                "{error}"
            );
        }
    }
}
