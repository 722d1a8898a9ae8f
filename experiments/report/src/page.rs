//! One HTML file with everything: targets, figures, tables, and where the numbers come from.

use crate::compare::{self, Comparison};
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
use crate::table::{Table, escape, figure};
use crate::verdict::{self, Verdict};
use anyhow::Result;
use serde_json::{Map, Value};

/// The page's own rules; nothing is loaded from elsewhere.
const STYLE: &str = include_str!("page.css");

/// The page for these documents, complete in itself.
///
/// # Errors
/// When a document's rows can't be shown: see [`compare::comparisons`].
pub fn page(documents: &[Document]) -> Result<String> {
    let mut verdicts = Vec::new();
    let mut sections = String::new();
    for document in documents {
        verdicts.extend(verdict::verdicts(document)?);
        sections += &section(document)?;
    }
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Corank: measured</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>Corank: measured</h1>\n{}{sections}</body>\n</html>\n",
        targets(&verdicts)
    ))
}

/// The targets with a mark each.
fn targets(verdicts: &[Verdict]) -> String {
    if verdicts.is_empty() {
        return String::new();
    }
    let row = |verdict: &Verdict| {
        let (class, mark) = match verdict.met() {
            Some(true) => ("met", "✓"),
            Some(false) => ("missed", "✗"),
            None => ("unknown", "–"),
        };
        format!(
            "<tr class=\"{class}\"><td>{mark} {}</td><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td>{}</td></tr>\n",
            verdict.word(),
            escape(&verdict.claim),
            verdict.limit(),
            verdict.measured.map(figure).unwrap_or_default(),
            escape(&verdict.at)
        )
    };
    let rows: String = verdicts.iter().map(row).collect();
    format!(
        "<h2>Targets</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>result</th><th>target</th><th class=\"number\">at most</th>\
         <th class=\"number\">measured</th><th>at</th></tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    )
}

/// Every figure of a document, each with a name that can be a file's.
///
/// # Errors
/// As [`page`].
pub fn figures(document: &Document) -> Result<Vec<(String, String)>> {
    let mut figures = Vec::new();
    match document.experiment.as_str() {
        "a" | "b" => {
            for comparison in compare::comparisons(document)? {
                let name = file_name(&comparison.title());
                figures.push((name.clone(), comparison.figure(false)?));
                figures.push((name + "-logarithmic", comparison.figure(true)?));
            }
        }
        "core" => figures = scheduler::figures(document)?,
        "edge" => figures = edge::figures(document)?,
        "gateway" => figures = gateway::figures(document)?,
        "global" => figures = global::figures(document)?,
        "linux-latency" => figures = latency::figures(document)?,
        "linux-machine" => figures = machine::figures(document)?,
        "tcp-models" => figures = server::figures(document)?,
        "tcp-priority" => figures = levels::figures(document)?,
        _ => {}
    }
    Ok(figures)
}

/// The tables of a document's page.
///
/// # Errors
/// As [`page`].
pub fn tables(document: &Document) -> Result<Vec<Table>> {
    Ok(match document.experiment.as_str() {
        "a" | "b" => compare::comparisons(document)?
            .iter()
            .map(Comparison::table)
            .collect(),
        "core" => scheduler::tables(document),
        "edge" => edge::tables(document),
        "gateway" => gateway::tables(document),
        "tcp-models" => server::tables(document),
        "tcp-priority" => levels::tables(document),
        "mcu-switch" => vec![plain_table(document), firmware::exception_model()],
        _ => vec![plain_table(document)],
    })
}

/// A title as a file's name: small letters, digits, and `-` for everything between.
pub(crate) fn file_name(title: &str) -> String {
    let words = title
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

fn section(document: &Document) -> Result<String> {
    let (heading, about) = match document.experiment.as_str() {
        "a" => (
            "Experiment A: a turn passes through one shared variable",
            ABOUT_A,
        ),
        "b" => ("Experiment B: tasks in series through pipes", ABOUT_B),
        "core" => ("The scheduler alone, on the host", ABOUT_CORE),
        "linux-latency" => ("Urgent requests in one Linux process", latency::ABOUT),
        "global" => ("Relaxed and strict global priority", global::ABOUT),
        "tcp-models" => ("A TCP server: coroutines and threads", server::ABOUT),
        "tcp-priority" => ("A TCP server: priorities under overload", levels::ABOUT),
        "linux-machine" => ("An urgent Linux process beside bulk ones", machine::ABOUT),
        "mcu-switch" => ("A switch on a Cortex-M4", ABOUT_MCU_SWITCH),
        "mcu-size" => ("Code and RAM on a Cortex-M4", ABOUT_MCU_SIZE),
        "edge" => ("Hiding the memory's latency", edge::ABOUT),
        "gateway" => ("The sensor gateway", gateway::ABOUT),
        other => (other, ""),
    };
    let figures: String = figures(document)?
        .iter()
        .map(|(_, svg)| format!("<figure>{svg}</figure>\n"))
        .collect();
    let tables: String = tables(document)?.iter().map(Table::to_html).collect();
    Ok(format!(
        "<h2 id=\"{}\">{}</h2>\n<p>{about}</p>\n<div class=\"figures\">\n{figures}</div>\n\
         <details open><summary>The numbers</summary>\n{tables}</details>\n{}",
        escape(&document.experiment),
        escape(heading),
        source(document)
    ))
}

const ABOUT_A: &str = "Numbered tasks wait until a shared variable holds their number, then add one to it. No task calls the \
    kernel, except to wait. Time runs from before the first creation to after the last task has been joined. Lines show medians; \
    vertical bars the smallest and the largest run.";
const ABOUT_B: &str = "Each of N tasks reads a message from its pipe, writes it to the next one and closes that. Time runs from \
    before the first creation to after the last task has been joined. Lines show medians; vertical bars the smallest and the \
    largest run.";
const ABOUT_MCU_SWITCH: &str = "Instructions per switch in QEMU, the loop around it included. Instructions are not cycles: \
    exception entry and exit, flash wait states and the pipeline are not in these numbers.";
const ABOUT_MCU_SIZE: &str = "The switching firmware of each model: two tasks that toggle a pin and yield, with a vector table of the core's exceptions alone. \
    What one more costs is the difference between two such firmwares.";
const ABOUT_CORE: &str = "One thread of the host, no operating system of ours: what one operation of the scheduler costs beside \
    other executors, measured alternately in one run.";

/// The rows as they are, for an experiment that has no tables of its own.
fn plain_table(document: &Document) -> Table {
    let mut parameters: Vec<&str> = Vec::new();
    for name in document.rows.iter().flat_map(|row| row.parameters.keys()) {
        if !parameters.contains(&name.as_str()) {
            parameters.push(name);
        }
    }
    let mut header = vec!["model"];
    header.extend(&parameters);
    header.extend(["metric", "median", "unit"]);
    let mut table = Table::new("Medians", &header);
    for row in &document.rows {
        let parameter = |name: &&str| match row.parameters.get(*name) {
            None => String::new(),
            Some(value) => value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_string),
        };
        let mut cells = vec![row.model.clone()];
        cells.extend(parameters.iter().map(parameter));
        cells.extend([row.metric.clone(), figure(row.median), row.unit.clone()]);
        table.push(cells);
    }
    table
}

/// Commit, machine and settings of a run.
fn source(document: &Document) -> String {
    let list = |map: &Map<String, Value>| {
        let entry = |(name, value): (&String, &Value)| match value.as_str() {
            Some(text) => format!("{name} {text}"),
            None => format!("{name} {value}"),
        };
        map.iter().map(entry).collect::<Vec<_>>().join("; ")
    };
    let text = format!(
        "Commit {}. Host: {}. Settings: {}.",
        document.commit,
        list(&document.host),
        list(&document.settings)
    );
    format!("<p class=\"source\">{}</p>\n", escape(&text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::document;
    use crate::compare::{COROUTINE, THREAD_YIELD};

    #[test]
    fn an_experiment_without_a_page_of_its_own_shows_its_rows() {
        let table = plain_table(&document("other", &[(COROUTINE, 1, 4000, 30.0)]));
        assert_eq!(
            table.header,
            [
                "model",
                "bytes",
                "n",
                "processes",
                "metric",
                "median",
                "unit"
            ]
        );
        assert_eq!(
            table.rows,
            [["coroutine", "1", "4000", "1", "time", "30000", "us"]]
        );
    }

    #[test]
    fn a_page_is_complete_in_itself() {
        let points = [
            (COROUTINE, 1, 4000, 30.0),
            (THREAD_YIELD, 1, 4000, 100.0),
            (COROUTINE, 1, 200, 1.0),
        ];
        let page = page(&[document("b", &points)]).unwrap();
        for text in [
            "Experiment B, 1 byte a message, one process",
            "<tr class=\"missed\">",
            "<tr class=\"unknown\">",
            "<svg ",
            "Commit c",
        ] {
            assert!(page.contains(text), "{text} is missing");
        }
        assert_eq!(
            figures(&document("b", &points)).unwrap()[1].0,
            "experiment-b-1-byte-a-message-one-process-logarithmic"
        );
        for outside in ["<script", "<link", "@import", "url("] {
            assert!(
                !page.contains(outside),
                "the page loads something: {outside}"
            );
        }
    }
}
