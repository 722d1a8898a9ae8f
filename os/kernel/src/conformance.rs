//! The conformance traces, inside the kernel: its executors go through them as through those of any
//! other platform.
use crate::{power, println};

/// Replays every trace, prints the report, and switches the machine off.
pub(crate) fn run() {
    let report = corank_conformance::report();
    println!("{report}");
    power::off(i32::from(!report.succeeded()))
}
