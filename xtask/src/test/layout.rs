//! A test that the most executed code lies in few pages.
//!
//! The linker scripts include lists of its functions, and names go stale.

use super::Context;
use super::outcome::Outcome;
use crate::os::layout;
use anyhow::Result;

/// The linker script that asks for the layout.
pub(super) const SCRIPT: &str = "os/kernel/kernel.ld";

pub(super) fn test(context: &mut Context) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for part in layout::touched(&mut context.progress)? {
        outcome.add(if part.pages <= part.most {
            Outcome::passed()
        } else {
            context.show(&format!(
                "a step of experiment B touches {} pages of code of the {}, {} at most; `cargo xtask os-layout --write` \
                 writes the lists that its linker script includes. The step's functions:\n{}",
                part.pages, part.name, part.most, part.functions
            ));
            Outcome::failed()
        });
    }
    Ok(outcome)
}
