//! Common code of the tests of all experiments' pages: documents made up, and what is shown of
//! them.

use crate::document::Document;
use crate::verdict::Verdict;
use serde_json::{Value, json};

/// Returns a document of these rows.
pub(crate) fn document(experiment: &str, rows: &[Value]) -> Document {
    let document = json!({
        "experiment": experiment, "commit": "c", "host": {}, "settings": {}, "rows": rows
    });
    serde_json::from_value(document).unwrap()
}

/// Returns the names of figures.
pub(crate) fn names(figures: &[(String, String)]) -> Vec<&str> {
    figures.iter().map(|(name, _)| name.as_str()).collect()
}

/// Returns what was measured for each target, whether it is met, and where that was.
pub(crate) fn results(verdicts: &[Verdict]) -> Vec<(Option<f64>, Option<bool>, &str)> {
    (verdicts.iter())
        .map(|verdict| (verdict.measured, verdict.met(), verdict.at.as_str()))
        .collect()
}
