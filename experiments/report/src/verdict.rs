//! A verdict: one of the project's targets, and whether the measured figures meet it.

use crate::table::{Table, figure};

/// One target and what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The quantity that has a limit.
    pub claim: String,
    /// The largest value that meets the target.
    pub limit: f64,
    /// The measured value; `None` if this run did not measure it.
    pub measured: Option<f64>,
    /// The point that gave the value, if there are several.
    pub at: String,
}

impl Verdict {
    /// Weakens the verdict of a disturbed run, and adds the disturbance to its text.
    ///
    /// A missed target stays missed. A met target may have been met by chance, so it counts as not
    /// measured.
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

    /// Tests whether the target is met; `None` if it was not measured.
    pub fn met(&self) -> Option<bool> {
        self.measured.map(|measured| measured <= self.limit)
    }

    /// Returns the limit as text, with at most four decimals.
    pub fn limit(&self) -> String {
        // A ratio of whole numbers may have no end.
        let rounded = format!("{:.4}", self.limit);
        let shown = rounded.trim_end_matches('0').trim_end_matches('.');
        shown.to_string()
    }

    /// Returns `met`, `MISSED` or `not measured`.
    pub fn word(&self) -> &'static str {
        match self.met() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "not measured",
        }
    }
}

/// Returns the verdicts as a table.
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

    #[test]
    fn a_disturbed_run_keeps_misses_and_drops_hits() {
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
}
