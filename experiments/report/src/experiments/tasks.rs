//! Experiments `a` and `b`: tasks that take turns, as coroutines and as threads, beside the papers.

mod comparison;
mod parts;

use crate::chart;
use crate::document::Document;
use crate::experiment::Experiment;
use crate::schedule::Schedule;
use crate::table::Table;
use crate::verdict::Verdict;
use anyhow::Result;
use comparison::{Comparison, THREAD_BLOCK, THREAD_YIELD, comparisons};

/// The turn that passes through one shared variable.
pub(super) const TURN: Experiment = Experiment {
    name: "a",
    summary: "A turn passes through one shared variable: coroutines against threads",
    schedule: Schedule::System(parts::turn),
    heading: "Experiment A: a turn passes through one shared variable",
    about: ABOUT_TURN,
    figures,
    tables,
    verdicts,
    ..Experiment::PLAIN
};

/// The pipes in series.
pub(super) const PIPES: Experiment = Experiment {
    name: "b",
    summary: "Tasks in series through pipes: coroutines against threads",
    schedule: Schedule::System(parts::pipes),
    heading: "Experiment B: tasks in series through pipes",
    about: ABOUT_PIPES,
    figures,
    tables,
    verdicts,
    ..Experiment::PLAIN
};

const ABOUT_TURN: &str = "Numbered tasks wait until a shared variable holds their number, then add one to it. No task calls the \
    kernel, except to wait. Time runs from before the first creation to after the last task has been joined. Lines show medians; \
    vertical bars the smallest and the largest run.";
const ABOUT_PIPES: &str = "Each of N tasks reads a message from its pipe, writes it to the next one and closes that. Time runs from \
    before the first creation to after the last task has been joined. Lines show medians; vertical bars the smallest and the \
    largest run.";

/// The number of tasks at which the targets for the ratios hold.
const LARGEST: f64 = 4000.0;

/// Returns each comparison's figure on both scales.
fn figures(document: &Document) -> Result<Vec<(String, String)>> {
    let mut figures = Vec::new();
    for comparison in comparisons(document)? {
        let name = chart::file_name(&comparison.title());
        figures.push((name.clone(), comparison.figure(false)?));
        figures.push((name + "-logarithmic", comparison.figure(true)?));
    }
    Ok(figures)
}

/// Returns a table for each comparison.
fn tables(document: &Document) -> Result<Vec<Table>> {
    let comparisons = comparisons(document)?;
    Ok(comparisons.iter().map(Comparison::table).collect())
}

/// Returns the targets of each comparison.
fn verdicts(document: &Document) -> Result<Vec<Verdict>> {
    let comparisons = comparisons(document)?;
    Ok(comparisons.iter().flat_map(of_comparison).collect())
}

fn of_comparison(comparison: &Comparison) -> Vec<Verdict> {
    let title = comparison.title();
    let at_largest = |model: &str, name: &str, limit: f64| Verdict {
        claim: format!("{title}: coroutines / {name} threads, at N {LARGEST}"),
        limit,
        measured: comparison.ratio(model, LARGEST),
        at: String::new(),
    };
    let mut verdicts = vec![never_slower(comparison)];
    match comparison.experiment() {
        "a" if comparison.in_order() => verdicts.push(at_largest(THREAD_YIELD, "yielding", 0.05)),
        "b" => {
            verdicts.push(at_largest(THREAD_YIELD, "yielding", 0.2));
            verdicts.push(at_largest(THREAD_BLOCK, "blocking", 0.5));
        }
        _ => {}
    }
    verdicts
}

/// Returns the target for the coroutines' largest ratio to either thread model, over all sizes.
fn never_slower(comparison: &Comparison) -> Verdict {
    let ratios = comparison.sizes().into_iter().flat_map(|n| {
        [(THREAD_YIELD, "yielding"), (THREAD_BLOCK, "blocking")]
            .into_iter()
            .filter_map(move |(model, name)| Some((comparison.ratio(model, n)?, n, name)))
    });
    let worst = ratios.max_by(|one, other| one.0.total_cmp(&other.0));
    Verdict {
        claim: format!(
            "{}: coroutines / either threads, at any N",
            comparison.title()
        ),
        limit: 1.0,
        measured: worst.map(|(ratio, ..)| ratio),
        at: worst
            .map(|(_, n, name)| format!("N {n}, {name}"))
            .unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::comparison::COROUTINE;
    use super::comparison::tests::document;
    use super::*;
    use crate::sample::{names, results};
    use crate::verdict;

    #[test]
    fn targets_are_met_or_missed_or_unknown() {
        let points = [
            (COROUTINE, 1, 200, 3.0),
            (THREAD_YIELD, 1, 200, 4.0),
            (THREAD_BLOCK, 1, 200, 2.0),
            (COROUTINE, 1, 4000, 30.0),
            (THREAD_YIELD, 1, 4000, 200.0),
        ];
        let verdicts = verdicts(&document("b", &points)).unwrap();
        assert_eq!(
            results(&verdicts),
            [
                (Some(1.5), Some(false), "N 200, blocking"),
                (Some(0.15), Some(true), ""),
                (None, None, ""),
            ]
        );
        let words: Vec<String> = verdict::table(&verdicts)
            .rows
            .into_iter()
            .map(|row| row[0].clone())
            .collect();
        assert_eq!(words, ["MISSED", "met", "not measured"]);
    }

    #[test]
    fn each_comparison_has_a_figure_on_both_scales() {
        let points = [(COROUTINE, 1, 4000, 30.0), (COROUTINE, 1, 200, 1.0)];
        let name = "experiment-b-1-byte-a-message-one-process";
        assert_eq!(
            names(&figures(&document("b", &points)).unwrap()),
            [name.to_string(), format!("{name}-logarithmic")]
        );
    }
}
