//! Tests of the layers of a crate: its modules import from layers below them, and from none above.
//!
//! `layers.txt` beside a crate's `Cargo.toml` names the layers, the lowest first. A line has a
//! name, a colon, and the crate's modules that form the layer. Each module belongs to one layer. A
//! module may import any module of a lower layer, and those of its own layer without a cycle. Code
//! for tests alone does not count.

mod order;
mod source;

use super::Context;
use super::outcome::Outcome;
use crate::repository;
use anyhow::{Context as _, Result};
use order::Order;

/// The crates with declared layers.
const CRATES: [&str; 8] = [
    "core",
    "experiments/report",
    "linux",
    "linux/domain",
    "linux/figures",
    "linux/recording",
    "os/kernel",
    "xtask",
];

/// Compares each crate's imports with its layers.
///
/// Each crate is one test.
///
/// # Errors
/// If a file cannot be read or parsed.
pub(super) fn check(context: &mut Context) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for folder in CRATES {
        let path = repository::path(folder).join("layers.txt");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("{folder} declares no layers in `layers.txt`"))?;
        let order = Order::parse(&text).with_context(|| format!("{folder}/layers.txt"))?;
        let imports = source::imports(&repository::path(folder).join("src"))?;
        let violations = order.violations(&imports);
        for failure in &violations {
            context.show(&format!("{folder}/src/{failure}"));
        }
        outcome.add(if violations.is_empty() {
            Outcome::passed()
        } else {
            Outcome::failed()
        });
    }
    Ok(outcome)
}
