//! A kernel with sched_ext, from Debian's backports.
//!
//! Nothing of this computer's apt is changed: the list of sources, what is downloaded of them and
//! the packages lie in a folder of the stage.

use super::{first_line, folder};
use crate::process;
use crate::test::Context;
use anyhow::{Context as _, Result, ensure};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The suite that has kernels with sched_ext.
const SUITE: &str = "trixie-backports";
/// The kernel that is tested, if the suite has it; otherwise its newest.
const VERSION: &str = "7.0.13";
/// The environment variable for another one, `newest` or the beginning of a version.
const VARIABLE: &str = "CORANK_SCX_KERNEL";
/// What packages that hold a kernel alone begin and end with. Debian has them from 6.19 on.
const PACKAGE: (&str, &str) = ("linux-binary-", "-cloud-amd64");
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Returns a kernel, downloaded the first time.
pub(super) fn find(context: &mut Context) -> Result<PathBuf> {
    let wanted = std::env::var(VARIABLE).unwrap_or_else(|_| VERSION.to_string());
    let kept = folder("kernels")?.join(&wanted);
    if kept.exists() {
        return Ok(kept);
    }
    ensure!(
        process::find("apt-get").is_some() && process::find("dpkg-deb").is_some(),
        "this is no Debian system; a kernel with CONFIG_SCHED_CLASS_EXT, put at {}, is taken as well",
        kept.display()
    );
    let options = options()?;
    let apt = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(&options).args(arguments);
        command
    };
    succeed(context, &apt("apt-get", &["--quiet=2", "update"]))?;
    let list = apt("apt-cache", &["pkgnames", PACKAGE.0]);
    let list = succeed(context, &list)?;
    let package = choose(&list, &wanted).context("the suite has no such kernel")?;
    let mut download = apt("apt-get", &["--quiet=2", "download", &package]);
    let packages = folder("packages")?;
    succeed(context, download.current_dir(&packages))?;
    let unpacked = folder("unpacked")?;
    let archive = one_file(&packages, |name| name.starts_with(&package))?;
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("--extract").arg(archive).arg(&unpacked);
    succeed(context, &unpack)?;
    std::fs::rename(kernel_in(&unpacked)?, &kept)?;
    std::fs::remove_dir_all(unpacked)?;
    std::fs::remove_dir_all(packages)?;
    Ok(kept)
}

/// Returns the options for an apt of the stage's own, whose one source is the suite.
fn options() -> Result<Vec<OsString>> {
    ensure!(Path::new(KEYRING).exists(), "{KEYRING} is missing");
    // The archive from which this computer gets its packages.
    let format = "$(LABEL) $(REPO_URI)";
    let targets = process::answer("apt-get", &["indextargets", "--format", format]);
    let targets = targets.unwrap_or_default();
    let archive = (targets.lines()).find_map(|line| line.strip_prefix("Debian "));
    let archive = archive.context("apt has no lists of Debian here; type: apt-get update")?;
    let apt = folder("apt")?;
    for name in ["lists/partial", "cache/archives/partial", "none"] {
        std::fs::create_dir_all(apt.join(name))?;
    }
    let source = format!("deb [signed-by={KEYRING}] {archive} {SUITE} main\n");
    std::fs::write(apt.join("sources.list"), source)?;
    let places = [
        ("Dir::Etc::sourcelist", "sources.list"),
        ("Dir::Etc::sourceparts", "none"),
        ("Dir::State::lists", "lists"),
        ("Dir::Cache", "cache"),
    ];
    let options = places.iter().flat_map(|(option, place)| {
        let mut value = OsString::from(format!("{option}="));
        value.push(apt.join(place));
        ["--option".into(), value]
    });
    // What is downloaded lies in folders of this user.
    let user = first_line("id", &["-un"]).unwrap_or_default();
    let user = format!("APT::Sandbox::User={user}");
    Ok(options.chain(["--option".into(), user.into()]).collect())
}

/// Returns the package of the wanted version, or that of the newest.
fn choose(list: &str, wanted: &str) -> Option<String> {
    let version = |package: &str| -> Option<Vec<u32>> {
        let inside = package.strip_prefix(PACKAGE.0)?.strip_suffix(PACKAGE.1)?;
        let (numbers, _) = inside.split_once('+').unwrap_or((inside, ""));
        numbers
            .split('.')
            .map(|number| number.parse().ok())
            .collect()
    };
    let mut packages: Vec<(Vec<u32>, &str)> = (list.lines().map(str::trim))
        .filter_map(|package| Some((version(package)?, package)))
        .collect();
    packages.sort();
    let is_wanted = |package: &&(Vec<u32>, &str)| {
        let inside = &package.1[PACKAGE.0.len()..];
        let rest = inside.strip_prefix(wanted);
        rest.is_some_and(|rest| rest.starts_with(['.', '+', '-']))
    };
    let chosen = packages.iter().rfind(is_wanted);
    chosen
        .or(packages.last())
        .map(|(_, package)| package.to_string())
}

/// Returns the kernel of an unpacked package. Its place has changed in 7.1.
fn kernel_in(unpacked: &Path) -> Result<PathBuf> {
    let is_kernel = |name: &str| name.starts_with("vmlinuz");
    if let Ok(kernel) = one_file(&unpacked.join("boot"), is_kernel) {
        return Ok(kernel);
    }
    let modules = unpacked.join("usr/lib/modules");
    let version = one_file(&modules, |_| true)?;
    one_file(&version, is_kernel)
}

/// Returns an entry of a folder.
fn one_file(folder: &Path, is_it: impl Fn(&str) -> bool) -> Result<PathBuf> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let name = { names }.find(|name| is_it(name));
    let name = name.with_context(|| format!("{} has no such file", folder.display()))?;
    Ok(folder.join(name))
}

/// Runs a command, and returns what it printed.
fn succeed(context: &mut Context, command: &Command) -> Result<String> {
    context.progress.say(&process::describe(command));
    let finished = process::succeed(command, context.limit, |_| {})?;
    Ok(finished.output)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "linux-binary-7.0.9+deb13-cloud-amd64\nlinux-binary-7.0.13+deb13-amd64\n\
        linux-binary-7.0.13+deb13-cloud-amd64\nlinux-binary-6.19.6+deb13-cloud-amd64\n";

    #[test]
    fn the_wanted_kernel_is_chosen_or_the_newest() {
        let package = |version: &str| format!("linux-binary-{version}+deb13-cloud-amd64");
        assert_eq!(choose(LIST, "7.0.9"), Some(package("7.0.9")));
        assert_eq!(choose(LIST, "6.19"), Some(package("6.19.6")));
        assert_eq!(choose(LIST, "7.0.1"), Some(package("7.0.13")));
        assert_eq!(choose(LIST, "newest"), Some(package("7.0.13")));
        assert_eq!(choose("", "newest"), None);
    }
}
