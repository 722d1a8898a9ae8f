//! The targets of `edge`.

use super::results::{Point, Results};
use super::{AUTO, COROUTINE, HAND, SEQUENTIAL};
use crate::document::Document;
use crate::verdict::Verdict;

/// Tests whether the run left out points; a quick one does, to end within its time.
fn leaves_out(document: &Document) -> bool {
    let left_out = document.settings.get("left-out");
    left_out
        .and_then(|points| points.as_array())
        .is_some_and(|points| !points.is_empty())
}

/// Returns the targets of `edge`.
///
/// What points that were left out could change counts as not measured.
pub(crate) fn verdicts(document: &Document) -> Vec<Verdict> {
    let partial = leaves_out(document);
    let results = Results::of(document);
    let points = results.points();
    let largest = points.iter().map(|point| point.bytes).fold(0.0, f64::max);
    // A hash table's size is a power of two and may be less.
    let at_largest =
        |point: &&Point| !partial && point.bytes == largest && point.layout == "scattered";
    let worst =
        |claim: &str, limit: f64, model: &str, base: &str, wanted: &dyn Fn(&Point) -> bool| {
            let found = points
                .iter()
                .filter(|point| wanted(point))
                .filter_map(|point| Some((results.ratio(point, model, base)?, point)))
                .max_by(|one, other| one.0.total_cmp(&other.0));
            verdict(claim, limit, found)
        };
    let best = |claim: &str, limit: f64, algorithm: &str| {
        let found = points
            .iter()
            .filter(|point| point.algorithm == algorithm)
            .flat_map(|point| ["coroutine", COROUTINE].map(|model| (point, model)))
            .filter_map(|(point, model)| Some((results.ratio(point, model, SEQUENTIAL)?, point)))
            .min_by(|one, other| one.0.total_cmp(&other.0));
        let mut found = verdict(claim, limit, found);
        if partial && found.met() == Some(false) {
            found.measured = None;
        }
        found
    };
    let leaves = |bytes: f64| {
        move |point: &Point| {
            at_largest(&point) && point.algorithm == "btree-scan" && point.leaf == Some(bytes)
        }
    };
    let lookups = |point: &Point| at_largest(&point) && point.algorithm == "btree-lookup";
    vec![
        worst(
            "scan of 64-byte leaves / sequential, largest size",
            1.0 / 4.0,
            COROUTINE,
            SEQUENTIAL,
            &leaves(64.0),
        ),
        worst(
            "scan of 256-byte leaves / sequential, largest size",
            1.0 / 2.0,
            COROUTINE,
            SEQUENTIAL,
            &leaves(256.0),
        ),
        worst(
            "lookups / sequential, largest size",
            1.0 / 3.0,
            COROUTINE,
            SEQUENTIAL,
            &lookups,
        ),
        worst(
            "lookups / absl::btree_map, largest size",
            1.0 / 2.0,
            COROUTINE,
            "absl",
            &lookups,
        ),
        worst(
            "SVM, i16, scattered / sequential, largest size",
            1.0 / 1.4,
            COROUTINE,
            SEQUENTIAL,
            &|point| at_largest(&point) && point.algorithm == "svm" && point.kind == "i16",
        ),
        worst(
            "coroutines / interleaved by hand, largest size, scattered",
            1.1,
            COROUTINE,
            HAND,
            &|point| at_largest(&point),
        ),
        worst(
            "automatic width / sequential, at any point",
            1.0 / 0.97,
            AUTO,
            SEQUENTIAL,
            &|_| true,
        )
        .disturbed(partial.then(|| "a quick run leaves out points".to_string())),
        best(
            "B+ tree / sequential at its best, the thesis's gain of 65 %",
            1.0 / 1.65,
            "btree-scan",
        ),
        best(
            "SVM / sequential at its best, the thesis's gain of 34 %",
            1.0 / 1.34,
            "svm",
        ),
        best(
            "normalisation / sequential at its best, the thesis's gain of 12.4 %",
            1.0 / 1.124,
            "norm",
        ),
        best(
            "convolution / sequential at its best, the thesis's gain of 15.5 %",
            1.0 / 1.155,
            "cnn",
        ),
    ]
}

fn verdict(claim: &str, limit: f64, found: Option<(f64, &Point)>) -> Verdict {
    Verdict {
        claim: claim.to_string(),
        limit: (limit * 1000.0).round() / 1000.0,
        measured: found.map(|(ratio, _)| ratio),
        at: found.map(|(_, point)| point.place()).unwrap_or_default(),
    }
}
