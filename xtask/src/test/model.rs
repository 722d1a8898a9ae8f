//! Checking Promela models with spin: every interleaving of the modelled protocol, exhaustively.
//!
//! The first comment of a model says how to check it. A line `spin:` and a line `gcc:` have the
//! options of each, and a line `pan:` those of one run of the verifier. A line `broken:` has
//! options for spin that take something out of the protocol. Then the first run has to find an
//! error. Each run is one test.

use super::Context;
use super::outcome::Outcome;
use crate::repository;
use anyhow::{Context as _, Result};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders with models.
const FOLDERS: [&str; 2] = ["spec/promela", "core/tests"];

/// Tests whether there is a model to check.
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

/// Checks each model.
pub(super) fn check(context: &mut Context) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for model in models() {
        let recipe = Recipe::of(&std::fs::read_to_string(&model)?)
            .with_context(|| format!("{} does not say how to check it", model.display()))?;
        outcome.add(recipe.check(context, &model)?);
    }
    Ok(outcome)
}

/// How a model is checked: the options of each program.
#[derive(Debug, PartialEq, Eq)]
struct Recipe {
    spin: Vec<String>,
    gcc: Vec<String>,
    /// The options of each run of the verifier.
    pan: Vec<Vec<String>>,
    /// Options for spin with which the model is wrong.
    broken: Vec<Vec<String>>,
}

/// A way to make a verifier of a model.
enum Way<'a> {
    Whole,
    /// The model is broken by these options for spin.
    Broken(&'a Vec<String>),
}

impl Recipe {
    /// Reads the first comment of a model.
    ///
    /// Returns `None` if it has no run of the verifier.
    fn of(model: &str) -> Option<Self> {
        let (comment, _) = model.split_once("*/")?;
        let lines = |program: &str| -> Vec<Vec<String>> {
            let options = |line: &str| line.split_whitespace().map(str::to_string).collect();
            let lines = comment
                .lines()
                .map(|line| line.trim_start_matches(['/', '*', ' ']));
            lines
                .filter_map(|line| line.strip_prefix(program)?.strip_prefix(':'))
                .map(options)
                .collect()
        };
        let recipe = Self {
            spin: lines("spin").concat(),
            gcc: lines("gcc").concat(),
            pan: lines("pan"),
            broken: lines("broken"),
        };
        (!recipe.pan.is_empty()).then_some(recipe)
    }

    /// Makes the verifier, compiles it, and runs it as often as the model asks.
    ///
    /// Then it does the same for each way to break the model.
    fn check(&self, context: &mut Context, model: &Path) -> Result<Outcome> {
        let folder =
            repository::path("target/spin").join(model.file_stem().context("a model has a name")?);
        let mut ways: Vec<Way> = self.broken.iter().map(Way::Broken).collect();
        // The whole model comes first, because it takes longest.
        ways.insert(0, Way::Whole);
        context.side_by_side(&ways, |way, context| match way {
            Way::Whole => self.holds(context, model, &folder.join("whole")),
            Way::Broken(options) => {
                let folder = folder.join(options.concat());
                self.finds_an_error(context, model, &folder, options)
            }
        })
    }

    /// Tests that every run of the verifier proves the model.
    fn holds(&self, context: &mut Context, model: &Path, folder: &Path) -> Result<Outcome> {
        if !self.compile(context, model, folder, &[])? {
            return Ok(Outcome::failed());
        }
        context.side_by_side(&self.pan, |options, context| {
            let finished = context.command(&command(folder, "./pan", options, &[]))?;
            let holds = finished.success() && is_proof(&finished.output);
            if finished.success() && !holds {
                let how = options.join(" ");
                context.show(&format!(
                    "./pan {how}: no proof; it printed:\n{}",
                    finished.tail(40)
                ));
            }
            Ok(if holds {
                Outcome::passed()
            } else {
                Outcome::failed()
            })
        })
    }

    /// Tests that, with these options, the verifier's first run finds an error.
    fn finds_an_error(
        &self,
        context: &mut Context,
        model: &Path,
        folder: &Path,
        options: &[String],
    ) -> Result<Outcome> {
        if !self.compile(context, model, folder, options)? {
            return Ok(Outcome::failed());
        }
        let pan = command(folder, "./pan", &self.pan[0], &[]);
        let found = errors(&context.command(&pan)?.output);
        Ok(if found.is_some_and(|found| found > 0) {
            Outcome::passed()
        } else {
            let how = options.join(" ");
            context.show(&format!("{}: no error with {how}", model.display()));
            Outcome::failed()
        })
    }

    /// Makes and compiles the verifier, with more options for spin.
    ///
    /// Returns `false` if that fails.
    fn compile(
        &self,
        context: &mut Context,
        model: &Path,
        folder: &Path,
        more: &[String],
    ) -> Result<bool> {
        std::fs::create_dir_all(folder)?;
        let spin = [&self.spin, more].concat();
        let spin = command(folder, "spin", &spin, &[model.as_os_str()]);
        let pan = ["-o", "pan", "pan.c"].map(OsStr::new);
        let gcc = command(folder, "gcc", &self.gcc, &pan);
        Ok(context.command(&spin)?.success() && context.command(&gcc)?.success())
    }
}

fn command(folder: &Path, program: &str, options: &[String], last: &[&OsStr]) -> Command {
    let mut command = Command::new(program);
    command.args(options).args(last).current_dir(folder);
    command
}

/// Returns the number of errors that the verifier reports, if it reports one.
fn errors(output: &str) -> Option<u32> {
    let count = output
        .lines()
        .find_map(|line| line.split("errors: ").nth(1));
    count?.trim().parse().ok()
}

/// Tests whether the verifier searched everything and found no error.
///
/// It also ends with status 0 in other cases.
fn is_proof(output: &str) -> bool {
    let cut_short = [
        "max search depth too small",
        "Search not completed",
        "out of memory",
    ];
    errors(output) == Some(0) && !cut_short.iter().any(|words| output.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_comment_is_the_recipe() {
        let model = "/* A protocol.\n *\n * spin: -a\n * gcc: -O2 -DNFAIR=4\n * pan: -a -f\n * pan: -noclaim\n * broken: -DX\n */\n/* pan: -x */";
        let recipe = Recipe::of(model).unwrap();
        assert_eq!(recipe.spin, ["-a"]);
        assert_eq!(recipe.gcc, ["-O2", "-DNFAIR=4"]);
        assert_eq!(recipe.pan, [vec!["-a", "-f"], vec!["-noclaim"]]);
        assert_eq!(recipe.broken, [vec!["-DX"]]);
        assert_eq!(Recipe::of("/* A protocol. */"), None);
    }

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
