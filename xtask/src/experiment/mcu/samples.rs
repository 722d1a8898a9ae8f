//! The sample application three ways, side by side: its length, size and wake-up latency.

use super::super::runner::Listener;
use super::{LIMIT, Sections};
use crate::cpp;
use crate::process;
use crate::repository;
use anyhow::{Context, Result, ensure};
use std::path::Path;

/// Each version's source file, the name of its firmware, and its column.
const VERSIONS: [(&str, &str, &str); 3] = [
    ("coroutines.cpp", "coroutines", "coroutines"),
    ("state_machine.cpp", "state-machine", "state machine"),
    ("freertos.cpp", "freertos", "FreeRTOS task"),
];

/// Builds, measures and runs all versions; returns a section of a page. `benchmarks` is the folder of a build with GCC that has FreeRTOS.
pub(super) fn table(benchmarks: &Path, listener: &mut Listener) -> Result<String> {
    let folder = benchmarks.join("../..");
    cpp::make(&folder, "samples", &mut listener.progress)?;
    let mut rows = [
        "lines of the application, without comments",
        "flash, bytes",
        "RAM with stacks of tasks, bytes",
        "instructions from the ADC's interrupt to the code that waited",
    ]
    .map(|name| format!("| {name} |"));
    for (source, name, _) in VERSIONS {
        let text = std::fs::read_to_string(repository::path("cpp/mcu/sample").join(source))?;
        let firmware = folder.join("mcu/sample");
        let sections = Sections::of(&firmware.join(format!("sample-{name}.elf")))?;
        let latency = latency(&firmware.join(format!("latency-{name}.elf")))?;
        for (row, figure) in rows.iter_mut().zip([
            lines(&text) as u64,
            sections.flash(),
            sections.ram(),
            latency,
        ]) {
            row.push_str(&format!(" {figure} |"));
        }
    }
    let heads = VERSIONS.map(|(.., column)| column).join(" | ");
    Ok(format!(
        "## The sample application three ways\n\n[`cpp/mcu/sample`](../cpp/mcu/sample) on a Cortex-M3, GCC, -Os, all vectors included; instructions counted in QEMU \
         (`-icount shift=6`). FreeRTOS adds one more exception entry and exit per wake, which no count of instructions shows.\n\n| | {heads} |\n|---|---|---|---|\n{}\n",
        rows.join("\n")
    ))
}

/// Lines that are neither empty nor a comment alone.
fn lines(source: &str) -> usize {
    source
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

/// What the firmware says of itself: `@latency INSTRUCTIONS`.
fn latency(firmware: &Path) -> Result<u64> {
    let command = cpp::qemu_board("lm3s6965", firmware, "");
    let finished = process::capture(&command, LIMIT, |_| {})?;
    ensure!(
        finished.success(),
        "`{}` failed:\n{}",
        process::describe(&command),
        finished.tail(20)
    );
    finished
        .output
        .lines()
        .find_map(|line| line.strip_prefix("@latency "))
        .with_context(|| format!("{} tells no latency", firmware.display()))?
        .trim()
        .parse()
        .context("a latency is a number")
}

#[cfg(test)]
mod tests {
    #[test]
    fn comments_and_empty_lines_do_not_count() {
        assert_eq!(super::lines("// a\n\nint b;  // c\n  // d\n}\n"), 2);
    }
}
