//! A program for this computer that depends on the C++ library in each way that its users know.

use super::super::Context;
use super::super::outcome::Outcome;
use crate::cpp;
use crate::process;
use crate::repository;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the program prints: the more urgent coroutine comes first.
const OUTPUT: [&str; 2] = ["urgent", "bulk"];

/// The folder in which Conan is installed and keeps its packages.
const CONAN: &str = "target/conan";

/// Builds and runs the program with the package installed at `prefix`.
///
/// It uses `find_package`, `FetchContent` and pkg-config.
pub(super) fn check(context: &mut Context, prefix: &Path) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for (name, compiler) in [
        ("find-package", "clang++-19"),
        ("fetch-content", "g++"),
        ("pkg-config", "g++"),
    ] {
        let folder = repository::path("target/cpp/host-package").join(name);
        let mut configure = Command::new("cmake");
        configure
            .args(["--fresh", "-G", "Ninja", "-S"])
            .arg(repository::path("cpp/tests/host-package"))
            .arg("-B")
            .arg(&folder)
            .arg(format!("-DCMAKE_CXX_COMPILER={compiler}"));
        match name {
            "fetch-content" => configure.arg(format!(
                "-DCORANK_REPOSITORY={}",
                repository::path("").display()
            )),
            "pkg-config" => configure
                .arg("-DCORANK_PKG_CONFIG=ON")
                .env("PKG_CONFIG_PATH", prefix.join("share/pkgconfig")),
            _ => configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())),
        };
        let mut make = Command::new("cmake");
        make.arg("--build").arg(&folder);
        outcome.add(builds_and_runs(
            context,
            &[configure, make],
            &folder.join("hello"),
        )?);
    }
    Ok(outcome)
}

fn builds_and_runs(context: &mut Context, builds: &[Command], program: &Path) -> Result<Outcome> {
    for build in builds {
        if !context.command(build)?.success() {
            return Ok(Outcome::failed());
        }
    }
    let run = context.command(&Command::new(program))?;
    if run.success() && run.output.lines().eq(OUTPUT) {
        return Ok(Outcome::passed());
    }
    context.show(&format!("{} printed {:?}", program.display(), run.tail(20)));
    Ok(Outcome::failed())
}

/// Packs the library with its recipe for Conan, and builds and runs the program with that package.
pub(super) fn conan(context: &mut Context) -> Result<Outcome> {
    let Some(conan) = find_conan(context)? else {
        return Ok(Outcome::skipped(
            "Conan's recipe needs Conan 2: pip install conan",
        ));
    };
    let command = |arguments: &[&str]| {
        let mut command = Command::new(&conan);
        command
            .args(arguments)
            .env("CONAN_HOME", repository::path(CONAN).join("home"));
        command
    };
    let profile = command(&["profile", "detect", "--force"]);
    if !context.command(&profile)?.success() {
        return Ok(Outcome::failed());
    }
    let mut create = command(&["create", "--settings:all", "compiler.cppstd=20"]);
    create.arg(repository::path(cpp::FOLDER)).arg(format!(
        "--conf:all=tools.cmake.cmake_layout:test_folder={}",
        repository::path(CONAN).join("test").display()
    ));
    let finished = context.command(&create)?;
    // The program's output is at the end, behind the command that ran it.
    let lines: Vec<&str> = finished.output.lines().map(str::trim_end).collect();
    let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    if finished.success() && lines.ends_with(&OUTPUT) {
        return Ok(Outcome::passed());
    }
    context.show(&format!("Conan's test said:\n{}", finished.tail(20)));
    Ok(Outcome::failed())
}

/// Returns the Conan in the search path, or one that pip installs below `target`.
///
/// Returns `None` if neither is available.
fn find_conan(context: &mut Context) -> Result<Option<PathBuf>> {
    if let Some(installed) = process::find("conan") {
        return Ok(Some(installed));
    }
    let folder = repository::path(CONAN).join("python");
    let conan = folder.join("bin/conan");
    if conan.exists() {
        return Ok(Some(conan));
    }
    let mut environment = Command::new("python3");
    environment.args(["-m", "venv"]).arg(&folder);
    let mut install = Command::new(folder.join("bin/pip"));
    install.args(["install", "--quiet", "conan>=2,<3"]);
    for command in [environment, install] {
        match process::capture(&command, context.limit, |_| {}) {
            Ok(finished) if finished.success() => {}
            _ => return Ok(None),
        }
    }
    Ok(conan.exists().then_some(conan))
}
