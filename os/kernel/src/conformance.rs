//! The conformance traces, inside the kernel: its executors go through them as through those of any other home.
use crate::{power, println};

/// Replays every trace, says what came of it, and switches the machine off.
pub(crate) fn run() {
    let verdict = corank_conformance::verdict();
    println!("{verdict}");
    power::off(i32::from(
        !verdict.failures.is_empty() || verdict.passed == 0,
    ))
}
