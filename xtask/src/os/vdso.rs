//! Building and checking the shared scheduler's image.

use super::build::binaries;
use crate::progress::Progress;
use crate::repository;
use crate::toolchain::{BareMetal, Target};
use anyhow::{Context, Result, anyhow};
use corank_abi::vdso::{BASE, SYMBOL, VERSION};
use corank_image::{Image, Rights, find};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package and its binary.
const NAME: &str = "corank-vdso";

/// The feature of its package that gives the image a variable, for a test.
pub(crate) const WITH_A_VARIABLE: &str = "alternating";

/// Flags that make the compiler lay out Rust's own types in another order, with a fixed seed.
const SHUFFLED: &str = r#"build.rustflags=["-Zrandomize-layout", "-Zlayout-seed=42"]"#;

/// Builds the image with these features of its package, and checks it as the kernel does.
pub(crate) fn build(
    toolchain: BareMetal,
    features: &[&str],
    progress: &mut Progress,
) -> Result<PathBuf> {
    let mut command = command(toolchain);
    command.args(["--features", &features.join(",")]);
    let image = link(command, progress)?;
    check(&image, features.contains(&WITH_A_VARIABLE))?;
    Ok(image)
}

/// Builds the image, in a separate folder, with the fields of Rust's own types in another order.
///
/// The kernel and the programs have the usual order. Types with C layout stay as they are.
pub(crate) fn build_shuffled(toolchain: BareMetal, progress: &mut Progress) -> Result<PathBuf> {
    let mut command = command(toolchain);
    command
        .args(["--target-dir", "target/shuffled"])
        .args(["--config", SHUFFLED])
        // The flags are not stable. The variable is set for the compiler alone: with it, cargo
        // would also build the standard library.
        .args(["--config", r#"env.RUSTC_BOOTSTRAP="1""#]);
    let image = link(command, progress)?;
    check(&image, false)?;
    Ok(image)
}

fn command(toolchain: BareMetal) -> Command {
    let mut command = toolchain.cargo(Target::RiscV, "rustc");
    command
        .args(["--release", "--package", NAME])
        .current_dir(repository::path("os"));
    command
}

fn link(command: Command, progress: &mut Progress) -> Result<PathBuf> {
    let image = binaries(command, &["-Crelocation-model=pic"], progress)?
        .into_iter()
        .find(|binary| binary.name == NAME)
        .with_context(|| format!("building os/vdso gave no binary named {NAME}"))?;
    Ok(image.path)
}

/// Checks an image as the kernel does.
///
/// It also checks that the image needs no memory in each process, unless it is one with a variable.
fn check(path: &Path, with_a_variable: bool) -> Result<()> {
    let file = std::fs::read(path).with_context(|| format!("can't read {}", path.display()))?;
    let wrong = |what: String| anyhow!("{} is not a good image: {what}", path.display());
    let image = Image::check(&file).map_err(|defect| wrong(defect.to_string()))?;
    match (
        image.pages().any(|rights| rights == Rights::Write),
        with_a_variable,
    ) {
        (true, false) => return Err(wrong("it has variables".to_string())),
        (false, true) => return Err(wrong("it has no variable".to_string())),
        _ => {}
    }
    let mut memory = vec![0; image.size()];
    image.load(&mut memory, BASE);
    match find(&memory, SYMBOL, VERSION) {
        Ok(_) => Ok(()),
        Err(error) => Err(wrong(format!("{error}: {SYMBOL} of {VERSION}"))),
    }
}

#[cfg(test)]
mod tests;
