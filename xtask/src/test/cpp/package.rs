//! Tests of the C++ library as another project uses it: installed or fetched, with the template,
//! with both compilers, with and without optimisation.

use super::super::Context;
use super::super::outcome::Outcome;
use super::depend;
use crate::cpp;
use crate::process;
use crate::repository;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A project that is built, with its compiler, its way to the library, and its level of
/// optimisation.
struct Project {
    compiler: &'static str,
    installed: bool,
    build_type: &'static str,
}

const PROJECTS: [Project; 4] = [
    Project {
        compiler: "gcc",
        installed: true,
        build_type: "MinSizeRel",
    },
    Project {
        compiler: "clang",
        installed: true,
        build_type: "Debug",
    },
    Project {
        compiler: "gcc",
        installed: false,
        build_type: "Debug",
    },
    Project {
        compiler: "clang",
        installed: false,
        build_type: "Release",
    },
];

/// Targets of the project that print `sum 42`, with their boards.
const PROGRAMS: [(&str, &str); 3] = [
    ("fits", "mps2-an386"),
    ("own-script", "mps2-an386"),
    ("lto", "lm3s6965"),
];

/// Targets of the project that must fail to build, and a text of the error message.
const REFUSED: [(&str, &str); 3] = [
    ("too-large", "counts"),
    ("no-stack", "too little RAM is left for the stack"),
    ("over-budget", "more than the budget of 64"),
];

/// Installs the package, builds and runs the projects and the installed template.
pub(super) fn check(context: &mut Context) -> Result<Outcome> {
    let prefix = install(context)?;
    let outside = std::env::temp_dir().join(format!("corank-outside-{}", std::process::id()));
    let mut outcome = Outcome::default();
    for project in &PROJECTS {
        let result = build(context, &outside, &prefix, project);
        // Nothing is left behind, however it ends.
        std::fs::remove_dir_all(&outside)?;
        outcome.add(result?);
    }
    outcome.add(installs_no_build(context, &prefix));
    for preset in ["gcc", "clang"] {
        let result = template(context, &prefix, &outside, preset);
        std::fs::remove_dir_all(&outside)?;
        outcome.add(result?);
    }
    outcome.add(depend::check(context, &prefix)?);
    outcome.add(depend::conan(context)?);
    Ok(outcome)
}

/// A file in the template's build folder.
const MARK: &str = "built-by-the-test";

/// Runs `cmake --install` into a separate folder, and returns that folder.
fn install(context: &mut Context) -> Result<PathBuf> {
    let folder = repository::path("target/cpp/install");
    let prefix = folder.join("prefix");
    if prefix.exists() {
        std::fs::remove_dir_all(&prefix)?;
    }
    // The template of a developer who has built it in place.
    let built = repository::path(cpp::FOLDER).join("template/build");
    std::fs::create_dir_all(&built)?;
    std::fs::write(built.join(MARK), "")?;
    let mut configure = Command::new("cmake");
    configure
        .args(["-G", "Ninja", "-S"])
        .arg(repository::path(cpp::FOLDER))
        .arg("-B")
        .arg(&folder)
        // The options reuse what the tests were built with.
        .args(["-DCORANK_TESTS=OFF", "-DCORANK_FRAMES_PROFILE=dev"]);
    let mut install = Command::new("cmake");
    install
        .arg("--install")
        .arg(&folder)
        .arg("--prefix")
        .arg(&prefix);
    for command in [configure, install] {
        let finished = context.command(&command)?;
        ensure!(
            finished.success(),
            "`{}` failed:\n{}",
            process::describe(&command),
            finished.tail(20)
        );
    }
    std::fs::remove_file(built.join(MARK))?;
    Ok(prefix)
}

fn build(
    context: &mut Context,
    outside: &Path,
    prefix: &Path,
    project: &Project,
) -> Result<Outcome> {
    std::fs::create_dir_all(outside)?;
    for file in std::fs::read_dir(repository::path("cpp/tests/package"))? {
        let file = file?;
        std::fs::copy(file.path(), outside.join(file.file_name()))?;
    }
    let folder = outside.join("build");
    let home = if project.installed {
        prefix.join("share/corank")
    } else {
        repository::path(cpp::FOLDER)
    };
    let toolchain = home.join(format!("cmake/arm-none-eabi-{}.cmake", project.compiler));
    let mut configure = Command::new("cmake");
    configure
        .args(["-G", "Ninja", "-S"])
        .arg(outside)
        .arg("-B")
        .arg(&folder)
        .arg("--toolchain")
        .arg(toolchain)
        .arg(format!("-DCMAKE_BUILD_TYPE={}", project.build_type))
        .arg(if project.installed {
            format!("-DCMAKE_PREFIX_PATH={}", prefix.display())
        } else {
            format!("-DCORANK_REPOSITORY={}", repository::path("").display())
        });
    let mut make = Command::new("cmake");
    make.arg("--build").arg(&folder);
    for command in [configure, make] {
        let finished = context.command(&command)?;
        if !finished.success() {
            return Ok(Outcome::failed());
        }
    }
    let mut outcome = Outcome::default();
    let sizes = std::fs::read_to_string(folder.join("fits-frames/corank_frames.inc"))?;
    let both = ["{\"add\", ", "{\"program\", "];
    let all_sizes = both.iter().all(|entry| sizes.contains(entry));
    for (target, board) in PROGRAMS {
        let firmware = folder.join(format!("{target}.elf"));
        let run = context.command(&cpp::qemu_board(board, &firmware, ""))?;
        if run.success() && run.output.contains("sum 42") && all_sizes {
            outcome.add(Outcome::passed());
        } else {
            context.show(&format!(
                "{target} printed {:?}; the frames of fits: {sizes}",
                run.output
            ));
            outcome.add(Outcome::failed());
        }
    }
    for (target, wanted) in REFUSED {
        let mut make = Command::new("cmake");
        make.arg("--build").arg(&folder).args(["--target", target]);
        let finished = process::capture(&make, context.limit, |_| {})?;
        if !finished.success() && finished.output.contains(wanted) {
            outcome.add(Outcome::passed());
        } else {
            context.show(&format!(
                "building `{target}` with {} ({}) must fail and say `{wanted}`:\n{}",
                project.compiler,
                project.build_type,
                finished.tail(20)
            ));
            outcome.add(Outcome::failed());
        }
    }
    Ok(outcome)
}

/// Builds and runs a copy of the installed template by its one command.
fn template(context: &mut Context, prefix: &Path, copy: &Path, preset: &str) -> Result<Outcome> {
    let mut command = Command::new("cp");
    command.arg("-r");
    command.arg(prefix.join("share/corank/template")).arg(copy);
    ensure!(
        context.command(&command)?.success(),
        "the template can't be copied"
    );
    let mut command = Command::new("cmake");
    command
        .args(["--workflow", "--preset", preset])
        .env_remove("CORANK")
        .current_dir(copy);
    let finished = context.command(&command)?;
    let said = finished
        .output
        .lines()
        .filter(|line| ["blink", "warm"].contains(line));
    if finished.success() && said.eq(["blink", "blink", "blink", "warm"]) {
        return Ok(Outcome::passed());
    }
    context.show(&format!(
        "the template with {preset}:\n{}",
        finished.tail(20)
    ));
    Ok(Outcome::failed())
}

/// Tests that what was built in the template is not installed.
fn installs_no_build(context: &mut Context, prefix: &Path) -> Outcome {
    let installed = prefix.join("share/corank/template/build");
    if !installed.exists() {
        return Outcome::passed();
    }
    context.show(&format!(
        "{} is no part of the package",
        installed.display()
    ));
    Outcome::failed()
}
