//! The experiment's command line.
use alloc::string::String;

use corank_user::runtime::Global;

pub(crate) const USAGE: &str = "usage: experiment-global arrivals|timers|check|forger [--processes P] [--runs RUNS] [--within PERCENT] [--most INSTRUCTIONS]";

/// The part of the experiment that is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// Time for which more urgent coroutines wait for less urgent ones, woken from outside or by
    /// timers of their own.
    Inversion(Wake),
    /// The cost of the comparison, and the system calls that it makes.
    Check,
    /// Latency beside a process that forges its bitmap.
    Forger,
}

/// The source that makes the coroutines of a load ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Messages in pipes, from a process that is more urgent than all.
    Arrival,
    /// Timers of their own executor.
    Timer,
}

/// Settings that the command line asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) part: Part,
    pub(crate) processes: usize,
    /// The largest latency beside a forger that is no failure, in percent of that without one.
    pub(crate) within: Option<usize>,
    /// The most instructions that the comparison may take without being a failure.
    ///
    /// With this limit, a system call that the comparison makes is a failure too.
    pub(crate) most: Option<usize>,
    runs: usize,
}

impl Settings {
    /// Reads the program's arguments.
    ///
    /// # Errors
    /// A word is unknown, an option lacks its value, or a number isn't one from 1 up.
    pub(crate) fn from_arguments() -> Result<Self, String> {
        let mut arguments = corank_user::arguments().skip(1);
        let part = match arguments.next() {
            Some("arrivals") => Part::Inversion(Wake::Arrival),
            Some("timers") => Part::Inversion(Wake::Timer),
            Some("check") => Part::Check,
            Some("forger") => Part::Forger,
            other => {
                return Err(alloc::format!(
                    "there is no part {}",
                    other.unwrap_or("without a name")
                ));
            }
        };
        let mut settings = Self {
            part,
            processes: 2,
            within: None,
            most: None,
            runs: 1,
        };
        while let Some(name) = arguments.next() {
            let value = arguments
                .next()
                .ok_or_else(|| alloc::format!("{name} needs a value"))?;
            let number = value.parse().ok().filter(|&number: &usize| number > 0);
            let number = number.ok_or_else(|| alloc::format!("{value} is not a number from 1"))?;
            match name {
                "--processes" => settings.processes = number,
                "--within" => settings.within = Some(number),
                "--most" => settings.most = Some(number),
                "--runs" => settings.runs = number,
                _ => return Err(alloc::format!("there is no option {name}")),
            }
        }
        Ok(settings)
    }

    /// Returns every run with its number.
    ///
    /// The models take turns, and each run begins with another model.
    pub(crate) fn turns(&self) -> impl Iterator<Item = (usize, &'static Global)> {
        static MODELS: [Global; 2] = [Global::Relaxed, Global::Strict];
        (0..self.runs).flat_map(|run| (0..2).map(move |turn| (run, &MODELS[(run + turn) % 2])))
    }
}
