//! The points that experiment `global` measures, and how often.

use crate::schedule::Part;

/// The number of ways of global priority.
const GLOBALS: u64 = 2;

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
pub(super) fn parts(quick: bool) -> Vec<Part> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn global_priority_is_measured_where_instructions_are_counted() {
        let quick = parts(true);
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
        let whole = parts(false);
        assert_eq!(whole.iter().map(|part| part.harts).max(), Some(4));
    }
}
