//! Passages of the documentation that are written from a full run's results, between two marks in
//! the page.
//!
//! A mark is a comment: `<!-- NAME -->` before the passage and `<!-- /NAME -->` behind it, each
//! once in the page. `cargo xtask report --docs` writes the passages. A test compares their targets
//! with those of the experiment.

use crate::document::Document;
use crate::table::Table;
use crate::verdict::{self, Verdict};
use anyhow::{Result, ensure};
use serde_json::Value;

/// Text that a page has between two marks.
#[derive(Clone, Debug, PartialEq)]
pub struct Passage {
    /// The page's path, from the root of the repository.
    pub page: &'static str,
    /// The name in the marks.
    pub name: &'static str,
    /// The text between the marks.
    pub text: String,
}

impl Passage {
    /// Returns the page with this passage between its marks.
    ///
    /// # Errors
    /// If the page does not have both marks once, in this order.
    pub fn write_into(&self, page: &str) -> Result<String> {
        let [begin, end] = between(page, self.name)?;
        Ok(format!("{}{}{}", &page[..begin], self.text, &page[end..]))
    }
}

/// Returns where the passage of this name begins and ends in a page.
pub(crate) fn between(page: &str, name: &str) -> Result<[usize; 2]> {
    let [before, behind] = [format!("<!-- {name} -->"), format!("<!-- /{name} -->")];
    for mark in [&before, &behind] {
        let count = page.matches(mark.as_str()).count();
        ensure!(
            count == 1,
            "the mark `{mark}` stands in the page {count} times"
        );
    }
    let begin = page.find(&before).unwrap_or_default() + before.len();
    let end = page.find(&behind).unwrap_or_default();
    ensure!(begin <= end, "`{behind}` stands before `{before}`");
    Ok([begin, end])
}

/// Returns a passage of whole lines: the origin of the figures, tables, and the targets.
pub(crate) fn lines(document: &Document, tables: &[Table], verdicts: &[Verdict]) -> Result<String> {
    ensure!(
        !document.quick(),
        "the documentation has the figures of full runs; these of `{}` are of a quick one",
        document.experiment
    );
    let host = |name: &str| {
        let said = document.host.get(name);
        said.map(|said| said.to_string().replace('"', ""))
            .unwrap_or_default()
    };
    let mut commit: String = document.commit.chars().take(8).collect();
    if document.commit.ends_with('+') {
        commit += " with changes";
    }
    let mut text = format!(
        "\n*Written by `cargo xtask report --docs` from a full run of `cargo xtask experiment {} --json FILE` at commit {commit}: {}, {} cores",
        document.experiment,
        host("cpu"),
        host("cores")
    );
    // Findings of the experiment about the machine.
    for setting in ["memory", "energy"] {
        if let Some(found) = document.settings.get(setting).and_then(Value::as_str) {
            text += &format!("; {found}");
        }
    }
    text += ".*\n";
    for table in tables {
        text += &format!("\n{}:\n\n{}", table.title, table.to_markdown());
    }
    let verdicts = verdict::table(verdicts);
    Ok(text + "\nThe targets, as ratios of times:\n\n" + &verdicts.to_markdown())
}

/// Compares the targets of a passage with these.
///
/// Returns the first difference, or a result that contradicts its figures.
#[cfg(test)]
pub(crate) fn wrong_targets(passage: &str, verdicts: &[Verdict]) -> Option<String> {
    let heads = verdict::table(&[]).to_markdown();
    let Some((_, shown)) = passage.split_once(&heads) else {
        return Some("it has no table of targets".to_string());
    };
    let shown: Vec<&str> = shown.lines().collect();
    if shown.len() != verdicts.len() {
        return Some(format!(
            "it has {} targets instead of {}",
            shown.len(),
            verdicts.len()
        ));
    }
    for (line, verdict) in shown.into_iter().zip(verdicts) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, word, measured, limit, claim, _] = cells[..] else {
            return Some(format!("`{line}` is no target"));
        };
        let expected = Verdict {
            measured: measured.parse().ok(),
            ..verdict.clone()
        };
        if !claim.starts_with(&verdict.claim)
            || limit != verdict.limit()
            // A value that meets its limit by less than is shown may look like the limit.
            || (word != expected.word() && measured != limit)
        {
            return Some(format!(
                "`{line}` should say `{}`, `{}` and at most {}",
                verdict.claim,
                expected.word(),
                verdict.limit()
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_takes_the_place_of_what_was_there() {
        let passage = Passage {
            page: "README.md",
            name: "x",
            text: "new".to_string(),
        };
        let written = passage.write_into("a <!-- x -->old<!-- /x --> b").unwrap();
        assert_eq!(written, "a <!-- x -->new<!-- /x --> b");
        assert_eq!(passage.write_into(&written).unwrap(), written);
        for bad in [
            "",
            "<!-- x -->",
            "<!-- /x --><!-- x -->",
            "<!-- x --><!-- x --><!-- /x -->",
        ] {
            assert!(passage.write_into(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn targets_of_a_passage_are_read() {
        let verdict = Verdict {
            claim: "one thing / another".to_string(),
            limit: 1.1,
            measured: Some(1.2),
            at: "somewhere".to_string(),
        };
        let shown = verdict::table(std::slice::from_ref(&verdict)).to_markdown();
        let all = std::slice::from_ref(&verdict);
        assert_eq!(wrong_targets(&shown, all), None);
        for (what, instead) in [
            ("MISSED", "met"),
            ("1.20", "1.00"),
            ("1.1 ", "1.3 "),
            ("one thing", "something"),
            ("result", "results"),
        ] {
            let wrong = shown.replace(what, instead);
            assert_ne!(wrong, shown, "{what}");
            assert_ne!(wrong_targets(&wrong, all), None, "{what}");
        }
        assert_ne!(wrong_targets(&shown, &[]), None);
    }
}
