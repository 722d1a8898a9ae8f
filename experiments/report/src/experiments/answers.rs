//! The common part of both experiments with the TCP server: answers that are late, wrong or lost.

use crate::document::Document;
use crate::verdict::Verdict;

/// Answers with wrong bytes or without a request, and requests without an answer.
const FAULTS: [&str; 2] = ["wrong-answers", "lost-answers"];

/// The metrics of a point in tables: latencies in milliseconds, and counts of answers. Each with
/// its column's title.
pub(crate) const SHOWN: [(&str, &str); 7] = [
    ("latency-mean", "mean"),
    ("latency-p50", "p50"),
    ("latency-p99", "p99"),
    ("jitter", "jitter"),
    ("late-answers", "late"),
    ("wrong-answers", "wrong"),
    ("lost-answers", "lost"),
];

/// Returns the target that no answer is wrong or lost, in any run.
pub(crate) fn verdict(document: &Document) -> Verdict {
    let counted: Vec<f64> = (document.rows.iter())
        .filter(|row| FAULTS.contains(&&*row.metric))
        .flat_map(|row| row.runs.iter().copied())
        .collect();
    Verdict {
        claim: "TCP server: wrong and lost answers, in all runs".to_string(),
        limit: 0.0,
        measured: (!counted.is_empty()).then(|| counted.iter().sum()),
        at: String::new(),
    }
}

/// Returns every value of a parameter, ascending.
pub(crate) fn values(document: &Document, parameter: &str) -> Vec<f64> {
    let mut values: Vec<f64> = (document.rows.iter())
        .filter_map(|row| row.number(parameter))
        .collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{experiments, sample};
    use serde_json::json;

    #[test]
    fn one_wrong_or_lost_answer_in_one_run_counts() {
        let row = |metric, runs: [f64; 3]| json!({"model": "m", "harts": 1, "metric": metric, "unit": "requests", "runs": runs, "median": 0.0});
        let rows = [
            row("wrong-answers", [0.0, 1.0, 0.0]),
            row("lost-answers", [0.0, 0.0, 2.0]),
            row("late-answers", [9.0, 9.0, 9.0]),
        ];
        for experiment in ["tcp-models", "tcp-priority"] {
            let document = sample::document(experiment, &rows);
            let verdicts = experiments::of(&document)
                .unwrap()
                .verdicts(&document)
                .unwrap();
            let found = verdicts.iter().find(|found| found.claim.contains("wrong"));
            let found = found.unwrap();
            assert_eq!((found.measured, found.met()), (Some(3.0), Some(false)));
        }
        assert_eq!(verdict(&sample::document("tcp-models", &[])).met(), None);
    }
}
