//! The files that the server has.

use anyhow::Result;
use std::fs;
use std::path::Path;

/// A small file that is urgent.
pub(crate) const URGENT: &str = "/urgent/small.bin";
/// The same, not urgent.
pub(crate) const BULK: &str = "/bulk/small.bin";
/// The same, as little urgent as [`BULK`].
pub(crate) const EQUAL: &str = "/equal/small.bin";
/// A file that takes many pieces.
pub(crate) const LARGE: &str = "/bulk/large.bin";
/// Some pieces, and a part of one.
pub(crate) const MIDDLE: &str = "/a file in the middle.bin";
/// [`MIDDLE`] as a target.
pub(crate) const MIDDLE_TARGET: &str = "/a%20file%20in%20the%20middle.bin";
/// Number of files that a page refers to.
pub(crate) const ASSETS: usize = 24;

/// Returns all files, and how long they are.
pub(crate) fn files() -> Vec<(String, usize)> {
    let mut files = vec![
        ("/index.html".to_string(), 300),
        ("/empty.txt".into(), 0),
        (URGENT.into(), 200),
        (BULK.into(), 200),
        (EQUAL.into(), 200),
        (LARGE.into(), 2_000_001),
        (MIDDLE.into(), 40_000),
        ("/page/index.html".into(), 1000),
    ];
    files.extend((0..ASSETS).map(|number| (asset(number), 100 + 700 * number)));
    files
}

/// Returns the path of a file that the page refers to.
pub(crate) fn asset(number: usize) -> String {
    let end = ["css", "js", "png", "svg"][number % 4];
    format!("/page/assets/{number}.{end}")
}

/// Returns the content of a file.
pub(crate) fn content(path: &str) -> Vec<u8> {
    let found = files().into_iter().find(|(name, _)| name == path);
    let (_, length) = found.unwrap_or_else(|| panic!("there is no file {path}"));
    let seed = path
        .bytes()
        .fold(7_usize, |sum, byte| sum * 31 + usize::from(byte));
    (0..length)
        .map(|place| ((place + seed).wrapping_mul(2_654_435_761) >> 16) as u8)
        .collect()
}

/// Writes all files below a folder, and the server's rules as `levels.txt`.
pub(crate) fn make(folder: &Path) -> Result<()> {
    for (path, _) in files() {
        let file = folder.join(path.trim_start_matches('/'));
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(file, content(&path))?;
    }
    fs::create_dir_all(folder.join("list"))?;
    for number in 0..20 {
        fs::write(folder.join(format!("list/file {number} & more.txt")), "x")?;
    }
    fs::write(
        folder.join("levels.txt"),
        "# how urgent paths are\n/urgent = 4\n/bulk = 60\n/equal = 60\n",
    )?;
    Ok(())
}
