//! The results of one run of one experiment, as a JSON file.

use crate::row::Row;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fs;
use std::path::Path;

/// The results of one run of one experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// The experiment's name, as on the command line.
    pub experiment: String,
    /// The commit that was measured, with a `+` behind it if the tree had changes.
    pub commit: String,
    /// The machine: processor, cores, kernel, version of QEMU.
    pub host: Map<String, Value>,
    /// The settings with which the experiment was run.
    pub settings: Map<String, Value>,
    /// The measured points.
    pub rows: Vec<Row>,
}

impl Document {
    /// Reads a document.
    ///
    /// # Errors
    /// If the file cannot be read or is not a document.
    pub fn load(path: &Path) -> Result<Self> {
        let text =
            fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| {
            format!(
                "{} does not hold the results of an experiment",
                path.display()
            )
        })
    }

    /// Writes the document, one row a line.
    ///
    /// Creates the folder if it is missing.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("can't make {}", folder.display()))?;
        }
        fs::write(path, self.to_json()?).with_context(|| format!("can't write {}", path.display()))
    }

    fn to_json(&self) -> Result<String> {
        let rows = self
            .rows
            .iter()
            .map(serde_json::to_string)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(format!(
            "{{\"experiment\": {},\n \"commit\": {},\n \"host\": {},\n \"settings\": {},\n \"rows\": [\n  {}\n ]}}\n",
            serde_json::to_string(&self.experiment)?,
            serde_json::to_string(&self.commit)?,
            serde_json::to_string(&self.host)?,
            serde_json::to_string(&self.settings)?,
            rows.join(",\n  ")
        ))
    }

    /// Tests whether the run was a quick one, with fewer points and fewer repetitions.
    pub fn quick(&self) -> bool {
        self.settings
            .get("quick")
            .and_then(Value::as_bool)
            .unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let row = r#"{"model":"m","n":2,"metric":"time","unit":"ms","runs":[1.0],"median":1.0}"#;
        let text = format!(
            r#"{{"experiment":"a","commit":"c","host":{{"cores":2}},"settings":{{"quick":true}},"rows":[{row},{row}]}}"#
        );
        let document: Document = serde_json::from_str(&text).unwrap();
        assert!(document.quick());
        let written = document.to_json().unwrap();
        assert_eq!(
            serde_json::from_str::<Document>(&written).unwrap(),
            document
        );
        assert_eq!(
            written
                .lines()
                .filter(|line| line.contains("median"))
                .count(),
            2
        );
    }
}
