//! The points that the experiments in the operating system measure, and how often.

use super::Name;
use std::fmt;

/// Both sides of the comparison, as the results name them.
const MODELS: &[&str] = &["coroutine", "thread-yield", "thread-block"];

/// The number of ways of global priority.
const GLOBALS: u64 = 2;

/// One boot of the machine.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Part {
    /// The program's arguments.
    pub(super) arguments: Vec<String>,
    /// The number of rows that it prints.
    pub(super) rows: u64,
    /// Harts of the machine.
    pub(super) harts: u32,
    /// Whether it counts instructions, each of which takes a nanosecond.
    ///
    /// Then the host's speed does not matter.
    pub(super) counts: bool,
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            arguments, harts, ..
        } = self;
        write!(formatter, "{} on {harts} harts", arguments.join(" "))
    }
}

/// Returns a part with every combination of these lists, `runs` times, models in turn.
///
/// `parameter` names the experiment's own parameter and its values.
fn tasks(numbers: &[u32], parameter: (&str, &[&str]), processes: u32, runs: u32) -> Part {
    let list: Vec<String> = numbers.iter().map(u32::to_string).collect();
    let (name, values) = parameter;
    let options = [
        ("models", MODELS.join(",")),
        ("n", list.join(",")),
        (name, values.join(",")),
        ("processes", processes.to_string()),
        ("runs", runs.to_string()),
    ];
    let arguments = options
        .into_iter()
        .flat_map(|(name, value)| [format!("--{name}"), value])
        .collect();
    let points = MODELS.len() * numbers.len() * values.len();
    Part {
        arguments,
        rows: points as u64 * u64::from(runs),
        // AsyncOS does not say how many harts it has.
        harts: 1,
        counts: false,
    }
}

/// Returns a part of experiment `global`.
///
/// Each run of both models together prints `rows` rows.
fn global(part: &str, harts: u32, processes: u32, runs: u32, rows: u64) -> Part {
    let words = [
        part,
        "--processes",
        &processes.to_string(),
        "--runs",
        &runs.to_string(),
    ];
    Part {
        arguments: words.map(str::to_string).to_vec(),
        rows: rows * u64::from(runs),
        harts,
        counts: true,
    }
}

/// Returns the parts of experiment `global`.
///
/// If instructions are counted, harts take turns of milliseconds, which would hide times on several
/// harts. So a machine with several harts runs by the clock, except to count the check's
/// instructions.
fn globals(quick: bool) -> Vec<Part> {
    let (machines, runs): (&[u32], u32) = if quick { (&[1], 1) } else { (&[1, 2, 4], 3) };
    let mut parts = Vec::new();
    for &harts in machines {
        // More or fewer processes change little: shown on one hart.
        let processes: &[u32] = if quick || harts > 1 { &[4] } else { &[2, 4, 8] };
        for &processes in processes {
            // The longest inversion, and the total of all.
            for wakes in ["arrivals", "timers"] {
                parts.push(Part {
                    counts: harts == 1,
                    ..global(wakes, harts, processes, runs, 2 * GLOBALS)
                });
            }
        }
        // Instructions and calls of a process alone, beside a less urgent one and, with several
        // harts, beside one that is served. For strict priority there is also the difference.
        let beside = if harts > 1 { 3 } else { 2 };
        parts.push(global("check", harts, 1, 1, beside * (2 * GLOBALS + 1)));
        // Five kinds of claims. By the clock a median needs more runs, because a host with fewer
        // processors than harts decides each latency.
        let runs = if harts > 1 { 12 * runs } else { runs };
        parts.push(Part {
            counts: harts == 1,
            ..global("forger", harts, 1, runs, 5 * GLOBALS)
        });
    }
    parts
}

/// Returns the parts of an experiment.
///
/// In A and B AsyncOS goes from 200 tasks to 4000 in steps of 200. A quick run has the points that
/// AsyncOS prints as numbers.
pub(super) fn parts(name: Name, quick: bool) -> Vec<Part> {
    const SIZES: (&str, &[&str]) = ("bytes", &["1", "256", "4096"]);
    const IN_ORDER: (&str, &[&str]) = ("order", &["in-order"]);
    const SHUFFLED: (&str, &[&str]) = ("order", &["shuffled"]);
    let steps = |last: u32| (200..=last).step_by(200).collect::<Vec<u32>>();
    match (name, quick) {
        (Name::A, true) => vec![
            tasks(&[200, 800, 1000, 4000], IN_ORDER, 1, 3),
            tasks(&[200, 1000], SHUFFLED, 1, 3),
        ],
        (Name::A, false) => vec![
            tasks(&steps(4000), IN_ORDER, 1, 5),
            tasks(&steps(1000), SHUFFLED, 1, 5),
            tasks(&[200, 1000, 2000], IN_ORDER, 4, 5),
        ],
        (Name::B, true) => vec![tasks(&[200, 400, 4000], SIZES, 1, 3)],
        (Name::B, false) => vec![
            tasks(&steps(4000), SIZES, 1, 5),
            tasks(&[200, 1000, 2000], SIZES, 4, 5),
        ],
        (Name::Global, quick) => globals(quick),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_those_of_the_program() {
        let part = &parts(Name::A, true)[1];
        assert_eq!(
            part.arguments.join(" "),
            "--models coroutine,thread-yield,thread-block --n 200,1000 --order shuffled --processes 1 --runs 3"
        );
        assert_eq!(part.rows, 18);
    }

    #[test]
    fn a_whole_run_has_the_papers_points() {
        let steps: Vec<String> = (1..=20).map(|step| (200 * step).to_string()).collect();
        for name in [Name::A, Name::B] {
            let arguments = &parts(name, false)[0].arguments;
            assert_eq!(arguments[2..4], ["--n".to_string(), steps.join(",")]);
        }
        assert_eq!(parts(Name::B, false)[0].rows, 20 * 3 * 3 * 5);
    }

    #[test]
    fn global_priority_is_measured_where_instructions_are_counted() {
        let quick = parts(Name::Global, true);
        let said: Vec<String> = quick.iter().map(|part| part.arguments.join(" ")).collect();
        let expected = [
            "arrivals --processes 4 --runs 1",
            "timers --processes 4 --runs 1",
            "check --processes 1 --runs 1",
            "forger --processes 1 --runs 1",
        ];
        assert_eq!(said, expected);
        assert!(quick.iter().all(|part| part.counts && part.harts == 1));
        let rows: Vec<u64> = quick.iter().map(|part| part.rows).collect();
        assert_eq!(rows, [4, 4, 10, 10]);
        let whole = parts(Name::Global, false);
        assert_eq!(whole.iter().map(|part| part.harts).max(), Some(4));
    }
}
