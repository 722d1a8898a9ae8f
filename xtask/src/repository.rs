//! Paths in the repository.

use crate::process;
use std::path::{Path, PathBuf};

/// Returns the repository's root folder.
pub(crate) fn root() -> &'static Path {
    // This crate lies directly below the root, and `cargo xtask` always builds it where it lies.
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask/ lies in the repository's root")
}

/// Returns the full path of a path from the repository's root.
pub(crate) fn path(inside: impl AsRef<Path>) -> PathBuf {
    root().join(inside)
}

/// Returns the folder to which `cargo xtask report` writes its page.
pub(crate) fn report_folder() -> PathBuf {
    path("target/report")
}

/// Returns the folder that keeps the last run of each experiment, as `NAME.json`.
pub(crate) fn data_folder() -> PathBuf {
    path("target/report/data")
}

/// Returns the commit that is checked out, with `+` behind it if files differ from it.
///
/// Returns `unknown` outside a git checkout.
pub(crate) fn commit() -> String {
    let root = root();
    let root = root.to_string_lossy();
    let git = |args: &[&str]| process::answer("git", &[&["-C", root.as_ref()], args].concat());
    match git(&["rev-parse", "HEAD"]) {
        None => "unknown".to_string(),
        Some(hash) => match git(&["status", "--porcelain"]) {
            Some(changes) if !changes.is_empty() => hash + "+",
            _ => hash,
        },
    }
}
