//! An experiment: its name, how it runs, and what is shown of its results.

use crate::document::Document;
use crate::passage::Passage;
use crate::schedule::Schedule;
use crate::table::{Table, figure};
use crate::verdict::Verdict;
use anyhow::Result;

/// A figure: a name that can be a file's, and the SVG.
pub type Figure = (String, String);

/// One experiment.
pub struct Experiment {
    /// The name on the command line and in the results.
    pub name: &'static str,
    /// What it measures, in one line for the command line.
    pub summary: &'static str,
    /// How it runs.
    pub schedule: Schedule,
    /// The title of its section.
    pub heading: &'static str,
    /// What is measured, below the heading; HTML.
    pub about: &'static str,
    pub(crate) figures: fn(&Document) -> Result<Vec<Figure>>,
    pub(crate) tables: fn(&Document) -> Result<Vec<Table>>,
    pub(crate) verdicts: fn(&Document) -> Result<Vec<Verdict>>,
    pub(crate) passages: fn(&Document) -> Result<Vec<Passage>>,
}

impl Experiment {
    /// An experiment that shows the rows as they are, without figures and targets.
    ///
    /// It lacks what each experiment has: name, summary, schedule, heading and description.
    pub(crate) const PLAIN: Self = Self {
        name: "",
        summary: "",
        schedule: Schedule::Host(""),
        heading: "",
        about: "",
        figures: |_| Ok(Vec::new()),
        tables: |document| Ok(vec![rows_table(document)]),
        verdicts: |_| Ok(Vec::new()),
        passages: |_| Ok(Vec::new()),
    };

    /// Returns the figures of its section.
    ///
    /// # Errors
    /// If the document has a row that the experiment cannot have, or a figure cannot be drawn.
    pub fn figures(&self, document: &Document) -> Result<Vec<Figure>> {
        (self.figures)(document)
    }

    /// Returns the tables of its section.
    ///
    /// # Errors
    /// If the document has a row that the experiment cannot have.
    pub fn tables(&self, document: &Document) -> Result<Vec<Table>> {
        (self.tables)(document)
    }

    /// Returns the targets, and whether the results meet them; empty if it has none.
    ///
    /// # Errors
    /// If the document has a row that the experiment cannot have.
    pub fn verdicts(&self, document: &Document) -> Result<Vec<Verdict>> {
        (self.verdicts)(document)
    }

    /// Returns what the documentation says of the results; empty if it says nothing.
    ///
    /// # Errors
    /// If the run was a quick one, or did not measure something that a page says.
    pub fn passages(&self, document: &Document) -> Result<Vec<Passage>> {
        (self.passages)(document)
    }
}

/// Returns the rows as they are.
pub(crate) fn rows_table(document: &Document) -> Table {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use serde_json::json;

    #[test]
    fn rows_are_shown_as_they_are() {
        let row = json!({"model": "coroutine", "bytes": 1, "n": 4000, "processes": 1,
            "metric": "time", "unit": "us", "runs": [30000.0], "median": 30000.0});
        let table = rows_table(&sample::document("other", &[row]));
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
}
