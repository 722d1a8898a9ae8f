//! Which of the project's targets the measured figures meet.

use crate::compare::{self, Comparison, THREAD_BLOCK, THREAD_YIELD};
use crate::document::Document;
use crate::edge;
use crate::firmware;
use crate::gateway;
use crate::global;
use crate::latency;
use crate::levels;
use crate::machine;
use crate::scheduler;
use crate::server;
use crate::table::{Table, figure};
use anyhow::Result;

/// The number of tasks at which the targets for the ratios hold.
const LARGEST: f64 = 4000.0;

/// One target and what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What is wanted.
    pub claim: String,
    /// The largest value that is good enough.
    pub limit: f64,
    /// What was measured; `None` if this run did not measure it.
    pub measured: Option<f64>,
    /// Where the value was found, if there is a choice.
    pub at: String,
}

impl Verdict {
    /// The verdict of a run that something disturbed, which `disturbance` tells of: a target that was missed is missed all the same, but
    /// one that was met may have been met by chance, so that counts as not measured. Both say what was disturbed.
    #[must_use]
    pub(crate) fn disturbed(mut self, disturbance: Option<String>) -> Self {
        let Some(disturbance) = disturbance else {
            return self;
        };
        let met = self.measured.filter(|_| self.met() == Some(true));
        if let Some(measured) = met {
            self.measured = None;
            self.at = format!("{}, but {disturbance}", figure(measured));
        } else {
            let kept = std::mem::take(&mut self.at);
            let words = [disturbance, kept].into_iter();
            let words: Vec<String> = words.filter(|words| !words.is_empty()).collect();
            self.at = words.join("; ");
        }
        self
    }

    /// Whether the target is met; `None` if it was not measured.
    pub fn met(&self) -> Option<bool> {
        self.measured.map(|measured| measured <= self.limit)
    }

    /// The limit, to be read.
    pub fn limit(&self) -> String {
        // A ratio of whole numbers may have no end.
        let rounded = format!("{:.4}", self.limit);
        let shown = rounded.trim_end_matches('0').trim_end_matches('.');
        shown.to_string()
    }

    /// `met`, `MISSED` or `not measured`.
    pub fn word(&self) -> &'static str {
        match self.met() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "not measured",
        }
    }
}

/// The targets of a document's experiment; empty if it has none.
///
/// # Errors
/// As [`compare::comparisons`].
pub fn verdicts(document: &Document) -> Result<Vec<Verdict>> {
    Ok(match document.experiment.as_str() {
        "a" | "b" => compare::comparisons(document)?
            .iter()
            .flat_map(of_comparison)
            .collect(),
        "core" => scheduler::verdicts(document),
        "edge" => edge::verdicts(document),
        "gateway" => gateway::verdicts(document),
        "linux-latency" => latency::verdicts(document),
        "global" => global::verdicts(document),
        "linux-machine" => machine::verdicts(document),
        "tcp-models" => server::verdicts(document),
        "tcp-priority" => levels::verdicts(document),
        "mcu-switch" => firmware::switch_verdicts(document),
        "mcu-size" => firmware::size_verdicts(document),
        _ => Vec::new(),
    })
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

/// The coroutines' largest ratio to either thread model, over all sizes.
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

/// The verdicts as a table.
pub fn table(verdicts: &[Verdict]) -> Table {
    let mut table = Table::new("Targets", &["result", "measured", "at most", "what"]);
    for verdict in verdicts {
        let place = if verdict.at.is_empty() {
            String::new()
        } else {
            format!(" ({})", verdict.at)
        };
        table.push(vec![
            verdict.word().to_string(),
            verdict.measured.map(figure).unwrap_or_default(),
            verdict.limit(),
            format!("{}{place}", verdict.claim),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::COROUTINE;
    use crate::compare::tests::document;
    use crate::sample::results;

    #[test]
    fn a_disturbance_hides_no_miss_and_proves_nothing() {
        let verdict = |measured| Verdict {
            claim: "one / other".into(),
            limit: 1.5,
            measured,
            at: "third 2.0".into(),
        };
        let disturbed = |measured| {
            let why = "others had 9 % of the time".to_string();
            let verdict = verdict(measured).disturbed(Some(why));
            (verdict.word(), verdict.measured, verdict.at)
        };
        let said = "others had 9 % of the time; third 2.0".to_string();
        assert_eq!(disturbed(Some(1.6)), ("MISSED", Some(1.6), said.clone()));
        assert_eq!(disturbed(None), ("not measured", None, said));
        let said = "1.50, but others had 9 % of the time".to_string();
        assert_eq!(disturbed(Some(1.5)), ("not measured", None, said));
        assert_eq!(verdict(Some(1.5)).disturbed(None), verdict(Some(1.5)));
    }

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
        let words: Vec<String> = table(&verdicts)
            .rows
            .into_iter()
            .map(|row| row[0].clone())
            .collect();
        assert_eq!(words, ["MISSED", "met", "not measured"]);
    }
}
