//! Building and checking the shared scheduler's image.

use super::build::binaries;
use crate::progress::Progress;
use crate::repository;
use crate::toolchain::{BareMetal, Target};
use anyhow::{Context, Result, anyhow};
use corank_abi::vdso::{BASE, SYMBOL, VERSION};
use corank_image::{Image, Rights, find};
use std::path::{Path, PathBuf};

/// The package and its binary.
const NAME: &str = "corank-vdso";

/// Builds the image with these features of its package, and checks it as the kernel does.
pub(crate) fn build(
    toolchain: BareMetal,
    features: &[&str],
    progress: &mut Progress,
) -> Result<PathBuf> {
    let mut command = toolchain.cargo(Target::RiscV, "rustc");
    command
        .args(["--release", "--package", NAME])
        .args(["--features", &features.join(",")])
        .current_dir(repository::path("os"));
    let image = binaries(command, &["-Crelocation-model=pic"], progress)?
        .into_iter()
        .find(|binary| binary.name == NAME)
        .with_context(|| format!("building os/vdso gave no binary named {NAME}"))?;
    check(&image.path)?;
    Ok(image.path)
}

/// What the kernel asks of an image, and that it needs no memory in each process.
fn check(path: &Path) -> Result<()> {
    let file = std::fs::read(path).with_context(|| format!("can't read {}", path.display()))?;
    let wrong = |what: String| anyhow!("{} is not a good image: {what}", path.display());
    let image = Image::check(&file).map_err(|defect| wrong(defect.to_string()))?;
    if image.pages().any(|rights| rights == Rights::Write) {
        return Err(wrong("it has variables".to_string()));
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
