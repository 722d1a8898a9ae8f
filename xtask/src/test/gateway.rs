//! Tests of the sensor gateway in `cpp/edge/gateway`, under sanitizers.

use super::Context;
use super::outcome::Outcome;
use crate::cpp;
use crate::repository;
use anyhow::Result;
use std::process::Command;

pub(super) const HOME: &str = "cpp/edge/gateway";

/// What `docs/gateway.md` tells to build, and how. With all optimisations compilers see more, and
/// warnings are errors.
const SERVICE: (&str, [&str; 2]) = ("edge-gcc", ["corank-gateway", "corank-sensor"]);
/// Datagrams for the fuzz target to begin with.
const CORPUS: &str = "cpp/edge/gateway/tests/corpus";
/// How many it tries; always the same ones.
const FUZZED: [&str; 3] = ["-runs=100000", "-max_len=1024", "-seed=1"];

/// Both compilers: what needs no sockets, any bytes as datagrams, and the programs themselves with
/// sensors, files and a broker. Then the build that users make.
pub(super) fn tests(context: &mut Context) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for folder in cpp::build_all(&["gcc", "clang"], "gateway-checks", &mut context.progress)? {
        let programs = folder.join("edge/gateway/tests");
        for suite in ["gateway-tests", "gateway-system-tests"] {
            outcome.add(Outcome::of_googletest(
                &context.command(&Command::new(programs.join(suite)))?,
            ));
        }
        outcome.add(fuzz(context, Command::new(programs.join("gateway-fuzz")))?);
    }
    let (preset, programs) = SERVICE;
    for program in programs {
        cpp::build(preset, program, &mut context.progress)?;
        outcome.add(Outcome::passed());
    }
    Ok(outcome)
}

/// What the fuzzer finds it keeps in the first of its folders, which is empty at first: so it does
/// the same each time.
fn fuzz(context: &mut Context, mut program: Command) -> Result<Outcome> {
    let found = repository::path("target/gateway-fuzz");
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
