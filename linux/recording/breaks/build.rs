//! Copies the core's sources and puts the breaks of `src/breaks.rs` into the copy.

#[path = "src/breaks.rs"]
#[allow(dead_code, reason = "what is said of a break is for the test")]
mod breaks;

use breaks::{BREAKS, HELPERS};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The core's sources, from the folder of this package.
const CORE: &str = "../../../core/src";

fn main() {
    println!("cargo::rerun-if-changed={CORE}");
    println!("cargo::rerun-if-changed=src/breaks.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo says it")).join("core");
    if let Err(error) = copy(Path::new(CORE), &out) {
        panic!("{CORE} cannot be copied: {error}");
    }
    for (number, it) in BREAKS.iter().enumerate() {
        let is_broken = format!("crate::broken::is({number})");
        change(&out.join(it.file), |text| {
            let start = text.find(it.after)? + it.after.len();
            let place = start + text[start..].find(it.was)?;
            let (before, rest) = text.split_at(place);
            let after = &rest[it.was.len()..];
            let broken = it.becomes.replace("BROKEN", &is_broken);
            Some(format!("{before}{broken}{after}"))
        })
        .unwrap_or_else(|| {
            panic!(
                "core/src/{} has no `{}` after `{}`: let the break `{}` in {} follow the code",
                it.file, it.was, it.after, it.name, "linux/recording/breaks/src/breaks.rs"
            )
        });
    }
    for (file, helper) in HELPERS {
        let _ = change(&out.join(file), |text| Some(format!("{text}\n{helper}")));
    }
    let _ = change(&out.join("lib.rs"), |text| Some(without_inner(text)));
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::write(&to, fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

/// Changes a file by `to`, which returns `None` if it finds nothing to change.
fn change(file: &Path, to: impl FnOnce(&str) -> Option<String>) -> Option<()> {
    let text = fs::read_to_string(file).ok()?;
    fs::write(file, to(&text)?).ok()
}

/// Leaves out the attributes and the documentation of a crate, which `include!` does not allow.
fn without_inner(text: &str) -> String {
    let mut in_attribute = false;
    let mut kept = String::new();
    for line in text.lines() {
        in_attribute |= line.starts_with("#![");
        if !in_attribute && !line.starts_with("//!") {
            kept += line;
            kept += "\n";
        }
        in_attribute &= !line.ends_with(']');
    }
    kept
}
