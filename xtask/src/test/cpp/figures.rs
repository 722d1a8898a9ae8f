//! Tests that the C++ library's figures are those on its page, and meet the targets.
//!
//! They are counts, not times: every machine with the same compilers gives the same.

use super::super::Context;
use super::super::outcome::Outcome;
use crate::experiment::mcu::figures::{Figures, page_file};
use anyhow::{Context as _, Result};

/// The targets that are known to be missed, as docs/limits.md says.
const MISSED: [&str; 1] = [
    "flash of the switching firmware / of FreeRTOS's, both with those of the chip's 82 devices as well",
];

pub(super) fn check(context: &mut Context) -> Result<Outcome> {
    let figures = Figures::measure("cpp-figures")?;
    let mut outcome = Outcome::default();
    for verdict in figures.verdicts()? {
        let good = match verdict.met() {
            Some(met) => met != MISSED.contains(&verdict.claim.as_str()),
            None => false,
        };
        if good {
            outcome.add(Outcome::passed());
        } else {
            context.show(&format!(
                "{}: {:?}, and at most {} is the target ({}); those that may be missed are {MISSED:?}",
                verdict.claim, verdict.measured, verdict.limit, verdict.at
            ));
            outcome.add(Outcome::failed());
        }
    }
    let file = page_file();
    let page =
        std::fs::read_to_string(&file).with_context(|| format!("can't read {}", file.display()))?;
    let other = page
        .lines()
        .zip(figures.page().lines())
        .find(|(written, measured)| written != measured);
    outcome.add(if page == figures.page() {
        Outcome::passed()
    } else {
        let (written, measured) = other.unwrap_or(("its end", "another end"));
        context.show(&format!(
            "{} is not up to date; `cargo xtask experiment mcu-size --json FILE` writes it. It says\n  {written}\nand this is measured:\n  {measured}",
            file.display()
        ));
        Outcome::failed()
    });
    Ok(outcome)
}
