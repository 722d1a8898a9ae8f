//! Who may show which levels.
//!
//! A line of the configuration has a user, a group or everyone, and a range of levels:
//!
//! ```text
//! user  alice   0-63
//! group servers 16-63
//! all           32-63
//! ```
//!
//! What is behind `#` is a comment. A process has the levels of all lines that fit it.

use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// The granted levels, in the order of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Grants(Vec<Grant>);

#[derive(Debug, PartialEq, Eq)]
struct Grant {
    to: Subject,
    levels: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum Subject {
    User(u32),
    Group(u32),
    All,
}

/// A process that asks for a page, as the kernel names it.
pub(crate) struct Asking {
    pub(crate) user: u32,
    pub(crate) groups: Vec<u32>,
}

impl Grants {
    /// Reads a configuration. Without the file, only root is granted levels, and all of them.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        match fs::read_to_string(file) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.kind() == ErrorKind::NotFound => Self::parse("user 0 0-63"),
            Err(error) => Err(error.into()),
        }
    }

    fn parse(text: &str) -> Result<Self> {
        let mut grants = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let (to, levels) = match words[..] {
                [] => continue,
                ["user", name, levels] => (id(name, "/etc/passwd").map(Subject::User), levels),
                ["group", name, levels] => (id(name, "/etc/group").map(Subject::Group), levels),
                ["all", levels] => (Ok(Subject::All), levels),
                _ => bail!("line {number}: use `user NAME A-B`, `group NAME A-B` or `all A-B`"),
            };
            grants.push(Grant {
                to: to.with_context(|| format!("line {number}"))?,
                levels: range(levels).with_context(|| format!("line {number}"))?,
            });
        }
        Ok(Self(grants))
    }

    /// Returns the levels that a process may show, one bit each.
    pub(crate) fn of(&self, asking: &Asking) -> u64 {
        let fits = |grant: &&Grant| match grant.to {
            Subject::User(user) => user == asking.user,
            Subject::Group(group) => asking.groups.contains(&group),
            Subject::All => true,
        };
        let levels = self.0.iter().filter(fits).map(|grant| grant.levels);
        levels.fold(0, |all, levels| all | levels)
    }
}

/// Returns the number of a user or group, which has its name in the first field of a line of
/// `file`, and its number in the third.
fn id(name: &str, file: &str) -> Result<u32> {
    if let Ok(id) = name.parse() {
        return Ok(id);
    }
    let text = fs::read_to_string(file).with_context(|| file.to_string())?;
    let fields = text.lines().map(|line| line.split(':'));
    let mut entries = fields.filter_map(|mut line| Some((line.next()?, line.nth(1)?)));
    let entry = entries.find(|entry| entry.0 == name);
    let (_, id) = entry.with_context(|| format!("{file} has no {name}"))?;
    Ok(id.parse()?)
}

/// Returns a range of levels as bits.
fn range(text: &str) -> Result<u64> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u32, u32) = (first.parse()?, last.parse()?);
    ensure!(
        first <= last && last < 64,
        "{text} is no range of levels from 0 to 63"
    );
    Ok(u64::MAX >> (63 - last) & u64::MAX << first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(user: u32, groups: &[u32]) -> Asking {
        Asking {
            user,
            groups: groups.to_vec(),
        }
    }

    #[test]
    fn a_process_has_the_levels_of_all_lines_that_fit() {
        let text = "# levels\nuser root 0-3 # urgent\ngroup 7 16-17\n\nall 63\n";
        let grants = Grants::parse(text).unwrap();
        assert_eq!(grants.of(&asking(0, &[])), 0b1111 | 1 << 63);
        assert_eq!(grants.of(&asking(1000, &[1000, 7])), 0b11 << 16 | 1 << 63);
        assert_eq!(grants.of(&asking(1000, &[1000])), 1 << 63);
    }

    #[test]
    fn without_a_file_root_alone_has_levels() {
        let grants = Grants::read(Path::new("/there/is/none")).unwrap();
        assert_eq!(grants.of(&asking(0, &[])), u64::MAX);
        assert_eq!(grants.of(&asking(1, &[0])), 0);
    }

    #[test]
    fn a_line_that_says_nothing_is_an_error_with_its_number() {
        for bad in [
            "user root",
            "user root 3-2",
            "user root 0-64",
            "levels 0-3",
            "user no-such-user 0-3",
            "all x",
        ] {
            let error = Grants::parse(&format!("\n{bad}")).unwrap_err();
            assert!(format!("{error:#}").starts_with("line 2"), "{error:#}");
        }
    }
}
