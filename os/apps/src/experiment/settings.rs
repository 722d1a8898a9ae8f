//! The experiments' command line.
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::{Experiment, Point};

/// Settings that the command line asks for: every combination of the lists, `runs` times.
#[derive(Clone, Debug)]
pub struct Settings {
    models: Vec<String>,
    n: Vec<usize>,
    parameters: Vec<String>,
    processes: Vec<usize>,
    runs: usize,
}

/// Reason why the command line can't be followed, and its correct form.
#[derive(Clone, Debug)]
pub struct Usage {
    problem: String,
    experiment: &'static str,
    parameter: &'static str,
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, parameter) = (self.experiment, self.parameter);
        writeln!(f, "experiment-{name}: {}", self.problem)?;
        writeln!(
            f,
            "usage: experiment-{name} [MODELS [N [{parameter} [RUNS]]]] [--processes P]"
        )?;
        writeln!(
            f,
            "   or: experiment-{name} [--models MODELS] [--n N] [--{parameter} …] [--runs RUNS] [--processes P]"
        )?;
        write!(
            f,
            "Each but RUNS may be a list, with commas. MODELS: coroutine,thread-yield,thread-block"
        )
    }
}

impl Settings {
    /// Reads the program's arguments.
    ///
    /// # Errors
    /// An option is unknown, lacks its value or has one that isn't a number.
    pub fn from_arguments<E: Experiment>() -> Result<Self, Usage> {
        Self::parse::<E>(corank_user::arguments().skip(1)).map_err(|problem| Usage {
            problem,
            experiment: E::NAME,
            parameter: E::PARAMETER,
        })
    }

    fn parse<E: Experiment>(
        mut arguments: impl Iterator<Item = &'static str>,
    ) -> Result<Self, String> {
        let mut settings = Self {
            models: list("coroutine,thread-yield,thread-block"),
            n: [200].into(),
            parameters: list(E::DEFAULTS),
            processes: [1].into(),
            runs: 1,
        };
        let mut positions = ["models", "n", E::PARAMETER, "runs"].into_iter();
        while let Some(argument) = arguments.next() {
            let (name, value) = match argument.strip_prefix("--") {
                Some(name) => (
                    name,
                    arguments
                        .next()
                        .ok_or_else(|| alloc::format!("--{name} needs a value"))?,
                ),
                None => (
                    positions
                        .next()
                        .ok_or_else(|| alloc::format!("one argument too many: {argument}"))?,
                    argument,
                ),
            };
            match name {
                "models" => settings.models = list(value),
                "n" => settings.n = numbers(value)?,
                "processes" => settings.processes = numbers(value)?,
                "runs" => settings.runs = number(value)?,
                _ if name == E::PARAMETER => settings.parameters = list(value),
                _ => return Err(alloc::format!("there is no option --{name}")),
            }
        }
        Ok(settings)
    }

    /// Returns every run in the order in which they happen.
    ///
    /// The models take turns, and each run begins with another model.
    #[must_use]
    pub fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for parameter in &self.parameters {
            for &processes in &self.processes {
                for &n in &self.n {
                    for (run, turn) in (0..self.runs)
                        .flat_map(|run| (0..self.models.len()).map(move |turn| (run, turn)))
                    {
                        let model = self.models[(run + turn) % self.models.len()].clone();
                        points.push(Point {
                            model,
                            n,
                            parameter: parameter.clone(),
                            processes,
                            run,
                        });
                    }
                }
            }
        }
        points
    }
}

fn list(text: &str) -> Vec<String> {
    text.split(',')
        .filter(|item| !item.is_empty())
        .map(ToOwned::to_owned)
        .collect()
}

fn number(text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| alloc::format!("{text} is not a number"))
}

fn numbers(text: &str) -> Result<Vec<usize>, String> {
    list(text).iter().map(|item| number(item)).collect()
}
