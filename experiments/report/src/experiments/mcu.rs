//! The experiments on a Cortex-M4: which targets they meet, and what their counts leave out.

use crate::document::Document;
use crate::experiment::{self, Experiment};
use crate::row::Row;
use crate::schedule::{Driver, Schedule};
use crate::table::{Table, figure};
use crate::verdict::Verdict;

/// The experiment as the report shows it.
pub(super) const SWITCH: Experiment = Experiment {
    name: "mcu-switch",
    summary: "Instructions per switch on a Cortex-M4",
    schedule: Schedule::Driver(Driver::McuSwitch),
    heading: "A switch on a Cortex-M4",
    about: ABOUT_SWITCH,
    tables: |document| Ok(vec![experiment::rows_table(document), exception_model()]),
    verdicts: |document| Ok(switch_verdicts(document)),
    ..Experiment::PLAIN
};

/// The experiment as the report shows it.
pub(super) const SIZE: Experiment = Experiment {
    name: "mcu-size",
    summary: "Code and data on a Cortex-M4",
    schedule: Schedule::Driver(Driver::McuSize),
    heading: "Code and RAM on a Cortex-M4",
    about: ABOUT_SIZE,
    verdicts: |document| Ok(size_verdicts(document)),
    ..Experiment::PLAIN
};

const ABOUT_SWITCH: &str = "Instructions per switch in QEMU, the loop around it included. Instructions are not cycles: \
    exception entry and exit, flash wait states and the pipeline are not in these numbers.";
const ABOUT_SIZE: &str = "The switching firmware of each model: two tasks that toggle a pin and yield, with a vector table of the core's exceptions alone. \
    What one more costs is the difference between two such firmwares.";

/// The C++ library.
const CORANK: &str = "corank";
const FREERTOS: &str = "freertos";

/// Returns the largest median of the rows that `wanted` chooses, and where it is.
fn largest(document: &Document, wanted: impl Fn(&Row) -> bool) -> (Option<f64>, String) {
    let worst = document
        .rows
        .iter()
        .filter(|row| wanted(row))
        .max_by(|one, other| one.median.total_cmp(&other.median));
    (
        worst.map(|row| row.median),
        worst.map(place).unwrap_or_default(),
    )
}

/// Returns compiler, optimisation and number of tasks of a row.
fn place(row: &Row) -> String {
    let mut words: Vec<String> = ["compiler", "opt"]
        .iter()
        .filter_map(|name| row.text(name).map(str::to_string))
        .collect();
    if let Some(tasks) = row.number("tasks") {
        words.push(format!("{tasks} tasks"));
    }
    words.join(", ")
}

/// Returns the targets of `mcu-switch`.
pub(crate) fn switch_verdicts(document: &Document) -> Vec<Verdict> {
    let (measured, at) = largest(document, |row| row.model == CORANK);
    let of =
        |tasks: f64| move |row: &Row| row.model == CORANK && row.number("tasks") == Some(tasks);
    let growth = largest(document, of(64.0))
        .0
        .zip(largest(document, of(2.0)).0);
    vec![
        Verdict {
            claim: "instructions per switch through the scheduler".to_string(),
            limit: 32.0,
            measured,
            at,
        },
        Verdict {
            claim: "instructions per switch at 64 tasks / at 2".to_string(),
            limit: 1.0,
            measured: growth.map(|(many, few)| many / few),
            at: String::new(),
        },
    ]
}

/// Returns the targets of `mcu-size`.
pub(crate) fn size_verdicts(document: &Document) -> Vec<Verdict> {
    let part = |name: &str, claim: &str, limit: f64| {
        let (measured, at) = largest(document, |row| {
            row.model == CORANK && row.text("part") == Some(name)
        });
        Verdict {
            claim: claim.to_string(),
            limit,
            measured,
            at,
        }
    };
    let mut verdicts = vec![
        part(
            "first-coroutine",
            "bytes of code for the first coroutine",
            700.0,
        ),
        part("next-call", "bytes of code for each further call", 56.0),
        part(
            "ram-per-coroutine",
            "bytes of RAM per coroutine beside its locals",
            40.0,
        ),
    ];
    for (what, vectors, parts) in [
        (
            "flash",
            "the core's 16 vectors alone",
            &["text", "data"][..],
        ),
        (
            "flash and RAM",
            "the core's 16 vectors alone",
            &["text", "data", "bss"],
        ),
        (
            "flash",
            "those of the chip's 82 devices as well",
            &["flash-all-vectors"],
        ),
    ] {
        // The same compiler and optimisation on both sides; the worst of them counts.
        let worst = builds(document)
            .filter_map(|(compiler, opt)| {
                let sum = |model: &str| -> Option<f64> {
                    let bytes = |part: &&str| size(document, model, part, &compiler, &opt);
                    parts.iter().map(bytes).sum()
                };
                Some((sum(CORANK)? / sum(FREERTOS)?, format!("{compiler}, {opt}")))
            })
            .max_by(|one, other| one.0.total_cmp(&other.0));
        verdicts.push(Verdict {
            claim: format!("{what} of the switching firmware / of FreeRTOS's, both with {vectors}"),
            limit: 0.5,
            measured: worst.as_ref().map(|(ratio, _)| *ratio),
            at: worst.map(|(_, at)| at).unwrap_or_default(),
        });
    }
    verdicts
}

/// Returns the compilers and optimisations that FreeRTOS was measured with.
fn builds(document: &Document) -> impl Iterator<Item = (String, String)> + '_ {
    document
        .rows
        .iter()
        .filter(|row| row.model == FREERTOS && row.text("part") == Some("text"))
        .filter_map(|row| {
            Some((
                row.text("compiler")?.to_string(),
                row.text("opt")?.to_string(),
            ))
        })
}

fn size(document: &Document, model: &str, part: &str, compiler: &str, opt: &str) -> Option<f64> {
    document
        .rows
        .iter()
        .find(|row| {
            row.model == model
                && [("part", part), ("compiler", compiler), ("opt", opt)]
                    .iter()
                    .all(|(name, value)| row.text(name) == Some(value))
        })
        .map(|row| row.median)
}

/// Returns the cost of an exception in cycles, which no count of instructions shows.
///
/// FreeRTOS enters and leaves one per switch, coroutines none.
///
/// Entry: at most 12 cycles from an interrupt to the first instruction of its handler, with memory
/// without wait states (Arm Cortex-M4 Technical Reference Manual, DDI 0439B, section 3.9.1). Exit:
/// that section of issue B says twelve too. Arm's article 103489845 of 4 April 2019, "What is the
/// true interrupt latency of Cortex-M3 and Cortex-M4 for interrupt entry and exit?", says ten,
/// which favours FreeRTOS and is taken here. According to the same article a floating-point unit
/// may add up to 17 cycles to each; none are counted here.
pub(crate) fn exception_model() -> Table {
    let mut table = Table::new(
        "Exception entry and exit in cycles: a model, not a measurement (entry: Arm Cortex-M4 TRM, DDI 0439B, section 3.9.1; exit: Arm article 103489845)",
        &[
            "model",
            "exceptions per switch",
            "entry",
            "exit",
            "cycles beside the instructions",
        ],
    );
    for (model, exceptions) in [(FREERTOS, 1.0), (CORANK, 0.0)] {
        let (entry, exit) = (12.0, 10.0);
        table.push(vec![
            model.to_string(),
            figure(exceptions),
            figure(entry),
            figure(exit),
            figure(exceptions * (entry + exit)),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Sample, gather};
    use serde_json::{Map, json};

    fn document(experiment: &str, rows: &[(&str, serde_json::Value, f64)]) -> Document {
        let samples: Vec<Sample> = rows
            .iter()
            .map(|(model, parameters, value)| Sample {
                experiment: experiment.to_string(),
                model: model.to_string(),
                metric: "bytes".to_string(),
                unit: "bytes".to_string(),
                value: *value,
                run: None,
                parameters: parameters.as_object().cloned().unwrap_or_default(),
            })
            .collect();
        Document {
            experiment: experiment.to_string(),
            commit: String::new(),
            host: Map::new(),
            settings: Map::new(),
            rows: gather(experiment, &samples).unwrap(),
        }
    }

    #[test]
    fn the_slowest_switch_counts() {
        let rows = [
            (CORANK, json!({"tasks": 2, "levels": 1}), 28.0),
            (CORANK, json!({"tasks": 64, "levels": 1}), 33.0),
            (FREERTOS, json!({"tasks": 2, "levels": 1}), 60.0),
        ];
        let verdicts = switch_verdicts(&document("mcu-switch", &rows));
        assert_eq!(verdicts[0].measured, Some(33.0));
        assert_eq!(verdicts[0].met(), Some(false));
        assert!(verdicts[1].measured.unwrap() > 1.1);
    }

    #[test]
    fn firmware_is_compared_under_one_compiler() {
        let part =
            |name: &str, compiler: &str| json!({"part": name, "compiler": compiler, "opt": "O2"});
        let mut rows = Vec::new();
        for (model, compiler, text) in [
            (CORANK, "gcc", 900.0),
            (CORANK, "clang", 5000.0),
            (FREERTOS, "gcc", 2000.0),
        ] {
            for (name, bytes) in [("text", text), ("data", 0.0), ("bss", 100.0)] {
                rows.push((model, part(name, compiler), bytes));
            }
        }
        let verdicts = size_verdicts(&document("mcu-size", &rows));
        assert_eq!(verdicts[3].measured, Some(0.45));
        assert_eq!(verdicts[3].at, "gcc, O2");
        assert_eq!(verdicts[0].measured, None);
    }
}
