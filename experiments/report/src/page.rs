//! One HTML file with everything: targets, figures, tables, and where the numbers come from.

use crate::document::Document;
use crate::experiments;
use crate::table::{Table, escape, figure};
use crate::verdict::Verdict;
use anyhow::Result;
use serde_json::{Map, Value};

/// The page's own rules; nothing is loaded from elsewhere.
const STYLE: &str = include_str!("page.css");

/// Returns the page for these documents, complete in itself.
///
/// # Errors
/// If a document's experiment is not listed, or its rows cannot be shown.
pub fn page(documents: &[Document]) -> Result<String> {
    let mut verdicts = Vec::new();
    let mut sections = String::new();
    for document in documents {
        verdicts.extend(experiments::of(document)?.verdicts(document)?);
        sections += &section(document)?;
    }
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Corank: measured</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>Corank: measured</h1>\n{}{sections}</body>\n</html>\n",
        targets(&verdicts)
    ))
}

/// Returns the targets, each with a mark.
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

fn section(document: &Document) -> Result<String> {
    let experiment = experiments::of(document)?;
    let figures: String = experiment
        .figures(document)?
        .iter()
        .map(|(_, svg)| format!("<figure>{svg}</figure>\n"))
        .collect();
    let tables: String = experiment
        .tables(document)?
        .iter()
        .map(Table::to_html)
        .collect();
    Ok(format!(
        "<h2 id=\"{}\">{}</h2>\n<p>{}</p>\n<div class=\"figures\">\n{figures}</div>\n\
         <details open><summary>The numbers</summary>\n{tables}</details>\n{}",
        escape(&document.experiment),
        escape(experiment.heading),
        experiment.about,
        source(document)
    ))
}

/// Returns commit, machine and settings of a run.
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
    use crate::sample;
    use serde_json::json;

    #[test]
    fn a_page_is_complete_in_itself() {
        let row = |model: &str, n: u32, time: f64| {
            json!({"model": model, "bytes": 1, "n": n, "processes": 1, "metric": "time",
                "unit": "us", "runs": [time], "median": time})
        };
        let rows = [
            row("coroutine", 4000, 30_000.0),
            row("thread-yield", 4000, 100_000.0),
            row("coroutine", 200, 1000.0),
        ];
        let page = page(&[sample::document("b", &rows)]).unwrap();
        for text in [
            "Experiment B, 1 byte a message, one process",
            "<tr class=\"missed\">",
            "<tr class=\"unknown\">",
            "<svg ",
            "Commit c",
        ] {
            assert!(page.contains(text), "{text} is missing");
        }
        for outside in ["<script", "<link", "@import", "url("] {
            assert!(
                !page.contains(outside),
                "the page loads something: {outside}"
            );
        }
    }
}
