//! Paths.
use alloc::string::String;

/// Returns `path`, seen from the directory `from`, as an absolute path.
///
/// The result has no `.`, no `..` and no empty parts. `..` in the root is the root.
pub(crate) fn absolute(from: &str, path: &str) -> String {
    let mut result = String::new();
    let start = if path.starts_with('/') { "" } else { from };
    for part in start.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => result.truncate(result.rfind('/').unwrap_or(0)),
            name => {
                result.push('/');
                result.push_str(name);
            }
        }
    }
    if result.is_empty() {
        result.push('/');
    }
    result
}

/// Returns the directory that an absolute path lies in, and its name there.
///
/// Returns `None` for the root.
pub(super) fn split(path: &str) -> Option<(&str, &str)> {
    path.rsplit_once('/').filter(|(_, name)| !name.is_empty())
}
