//! Tests of the sensor gateway in `cpp/edge/gateway`, under sanitizers.

use super::Context;
use super::outcome::Outcome;
use crate::cpp;
use crate::repository;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) const FOLDER: &str = "cpp/edge/gateway";

/// The preset and the targets that `docs/gateway.md` names.
///
/// With all optimisations compilers find more, and warnings are errors.
const SERVICE: (&str, [&str; 2]) = ("edge-gcc", ["corank-gateway", "corank-sensor"]);
/// The folder of datagrams with which the fuzz target begins.
const CORPUS: &str = "cpp/edge/gateway/tests/corpus";
/// The number of datagrams that the fuzzer tries, their greatest length, and the seed.
///
/// It always tries the same ones.
const FUZZED: [&str; 3] = ["-runs=100000", "-max_len=1024", "-seed=1"];

/// A part of the stage.
type Part<'a> = dyn Fn(&mut Context) -> Result<Outcome> + Sync + 'a;

/// Runs all tests with both compilers, then the build that users make.
///
/// They are the tests without sockets, the fuzzer, which sends any bytes as datagrams, and the
/// programs themselves with sensors, files and a broker.
pub(super) fn tests(context: &mut Context) -> Result<Outcome> {
    let compilers = ["gcc", "clang"];
    let folders = cpp::build_all(&compilers, "gateway-checks", &mut context.progress)?;
    let built: Vec<(&str, PathBuf)> = compilers
        .into_iter()
        .zip(
            folders
                .iter()
                .map(|folder| folder.join("edge/gateway/tests")),
        )
        .collect();
    let mut outcome = context.side_by_side(&built, |(compiler, programs), context| {
        let mut outcome = suite(context, &programs.join("gateway-tests"))?;
        let fuzzer = Command::new(programs.join("gateway-fuzz"));
        outcome.add(fuzz(context, compiler, fuzzer)?);
        Ok(outcome)
    })?;
    // The programs wait most of the time, so a processor is left for the build.
    let rest: [&Part<'_>; 2] = [&|context| run_programs(context, &built), &build_service];
    outcome.add(context.side_by_side(&rest, |part, context| part(context))?);
    Ok(outcome)
}

/// Runs the programs with sensors, files and a broker.
///
/// One compiler's after the other's: the tests find ports that are free, and use them a moment
/// later.
fn run_programs(context: &mut Context, built: &[(&str, PathBuf)]) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for (_, programs) in built {
        outcome.add(suite(context, &programs.join("gateway-system-tests"))?);
    }
    Ok(outcome)
}

/// Makes the build that users make.
fn build_service(context: &mut Context) -> Result<Outcome> {
    let (preset, programs) = SERVICE;
    let mut outcome = Outcome::default();
    for program in programs {
        cpp::build(preset, program, &mut context.progress)?;
        outcome.add(Outcome::passed());
    }
    Ok(outcome)
}

/// Runs a program of GoogleTest.
fn suite(context: &mut Context, program: &Path) -> Result<Outcome> {
    let finished = context.command(&Command::new(program))?;
    Ok(Outcome::of_googletest(&finished))
}

/// Runs the fuzzer that this compiler has built.
///
/// It keeps what it finds in the first of its folders, which is empty at first. So it does the same
/// each time.
fn fuzz(context: &mut Context, compiler: &str, mut program: Command) -> Result<Outcome> {
    let found = repository::path("target/gateway-fuzz").join(compiler);
    if found.exists() {
        std::fs::remove_dir_all(&found)?;
    }
    std::fs::create_dir_all(&found)?;
    program
        .args(FUZZED)
        .arg(&found)
        .arg(repository::path(CORPUS))
        .current_dir(&found);
    Ok(Outcome::of_command(&context.command(&program)?))
}
