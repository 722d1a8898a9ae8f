//! Checking Promela models with spin: every interleaving of the modelled protocol, exhaustively.

use super::Context;
use super::outcome::Outcome;
use crate::repository;
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where models may lie.
const FOLDERS: [&str; 2] = ["core/tests", "spec/promela"];

/// Whether there is a model to check.
pub(super) fn exist() -> bool {
    !models().is_empty()
}

fn models() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = FOLDERS
        .iter()
        .filter_map(|folder| std::fs::read_dir(repository::path(folder)).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "pml"))
        .collect();
    found.sort();
    found
}

/// Checks each model; each is one test.
pub(super) fn check(context: &mut Context) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for model in models() {
        outcome.add(if holds(context, &model)? {
            Outcome::passed()
        } else {
            Outcome::failed()
        });
    }
    Ok(outcome)
}

/// Makes the verifier, compiles it and runs it.
fn holds(context: &mut Context, model: &Path) -> Result<bool> {
    let name = model.file_stem().context("a model has a name")?;
    let folder = repository::path("target/spin").join(name);
    std::fs::create_dir_all(&folder)?;
    let run = |context: &mut Context, program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&folder);
        if program == "spin" {
            command.arg(model);
        }
        context.command(&command)
    };
    if !run(context, "spin", &["-a"])?.success() {
        return Ok(false);
    }
    if !run(
        context,
        "gcc",
        &[
            "-O2",
            "-w",
            "-DMEMLIM=2048",
            "-DVECTORSZ=4096",
            "-o",
            "pan",
            "pan.c",
        ],
    )?
    .success()
    {
        return Ok(false);
    }
    let claims = std::fs::read_to_string(model)?.contains("ltl ");
    // Deadlocks and assertions without a claim; acceptance cycles with one.
    let arguments: &[&str] = if claims {
        &["-m1000000", "-a", "-f"]
    } else {
        &["-m1000000"]
    };
    let finished = run(context, "./pan", arguments)?;
    let complete = is_proof(&finished.output);
    if finished.success() && !complete {
        context.show(&format!(
            "{}: an error, or a search that was not complete:\n{}",
            model.display(),
            finished.tail(40)
        ));
    }
    Ok(finished.success() && complete)
}

/// Whether the verifier searched everything and found no error. It ends with status 0 in other cases as well.
fn is_proof(output: &str) -> bool {
    let errors = output
        .lines()
        .find_map(|line| line.split("errors: ").nth(1));
    let cut_short = [
        "max search depth too small",
        "Search not completed",
        "out of memory",
    ];
    errors.map(str::trim) == Some("0") && !cut_short.iter().any(|words| output.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_search_without_errors_is_a_proof() {
        let line =
            |errors: u32| format!("State-vector 20 byte, depth reached 11, errors: {errors}\n");
        assert!(is_proof(&line(0)));
        assert!(!is_proof(&line(1)));
        assert!(!is_proof(""));
        assert!(!is_proof(
            &("error: max search depth too small\n".to_string() + &line(0))
        ));
        assert!(!is_proof(
            &("Warning: Search not completed\n".to_string() + &line(0))
        ));
    }
}
