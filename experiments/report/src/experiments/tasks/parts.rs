//! The points that experiments `a` and `b` measure, and how often.
//!
//! AsyncOS goes from 200 tasks to 4000 in steps of 200. A quick run has the points that AsyncOS
//! prints as numbers.

use crate::schedule::Part;

/// Both sides of the comparison, as the results name them.
const MODELS: &[&str] = &["coroutine", "thread-yield", "thread-block"];
/// Bytes of a message in experiment `b`.
const SIZES: (&str, &[&str]) = ("bytes", &["1", "256", "4096"]);
/// Orders of the turns in experiment `a`.
const IN_ORDER: (&str, &[&str]) = ("order", &["in-order"]);
const SHUFFLED: (&str, &[&str]) = ("order", &["shuffled"]);

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

/// Returns the steps of 200 up to this number of tasks.
fn steps(last: u32) -> Vec<u32> {
    (200..=last).step_by(200).collect()
}

/// Returns the parts of experiment `a`.
pub(super) fn turn(quick: bool) -> Vec<Part> {
    if quick {
        vec![
            tasks(&[200, 800, 1000, 4000], IN_ORDER, 1, 3),
            tasks(&[200, 1000], SHUFFLED, 1, 3),
        ]
    } else {
        vec![
            tasks(&steps(4000), IN_ORDER, 1, 5),
            tasks(&steps(1000), SHUFFLED, 1, 5),
            tasks(&[200, 1000, 2000], IN_ORDER, 4, 5),
        ]
    }
}

/// Returns the parts of experiment `b`.
pub(super) fn pipes(quick: bool) -> Vec<Part> {
    if quick {
        vec![tasks(&[200, 400, 4000], SIZES, 1, 3)]
    } else {
        vec![
            tasks(&steps(4000), SIZES, 1, 5),
            tasks(&[200, 1000, 2000], SIZES, 4, 5),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_those_of_the_program() {
        let part = &turn(true)[1];
        assert_eq!(
            part.arguments.join(" "),
            "--models coroutine,thread-yield,thread-block --n 200,1000 --order shuffled --processes 1 --runs 3"
        );
        assert_eq!(part.rows, 18);
    }

    #[test]
    fn a_whole_run_has_the_papers_points() {
        let steps: Vec<String> = (1..=20).map(|step| (200 * step).to_string()).collect();
        for parts in [turn(false), pipes(false)] {
            assert_eq!(
                parts[0].arguments[2..4],
                ["--n".to_string(), steps.join(",")]
            );
        }
        assert_eq!(pipes(false)[0].rows, 20 * 3 * 3 * 5);
    }
}
