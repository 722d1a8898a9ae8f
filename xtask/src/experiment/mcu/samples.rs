//! The sample application in three versions, compared by length, size and wake-up latency.

use super::super::runner::Listener;
use super::{LIMIT, Sections};
use crate::cpp;
use crate::process;
use crate::repository;
use anyhow::{Context, Result, ensure};
use std::path::Path;

/// A version of the application.
struct Version {
    source: &'static str,
    /// The files between the application and the devices' registers.
    ///
    /// If there are none, the application accesses the registers itself.
    hal: &'static [&'static str],
    firmware: &'static str,
    column: &'static str,
}

const VERSIONS: [Version; 3] = [
    Version {
        source: "coroutines.cpp",
        hal: &[
            "lm3s6965/hal.hpp",
            "lm3s6965/handlers.cpp",
            "serial.hpp",
            "send.hpp",
        ],
        firmware: "coroutines",
        column: "coroutines",
    },
    Version {
        source: "state_machine.cpp",
        hal: &[],
        firmware: "state-machine",
        column: "state machine",
    },
    Version {
        source: "freertos.cpp",
        hal: &[],
        firmware: "freertos",
        column: "FreeRTOS task",
    },
];

/// Builds, measures and runs all versions, and returns a section of a page.
///
/// `benchmarks` is the folder of a build with GCC that has FreeRTOS.
pub(super) fn table(benchmarks: &Path, listener: &mut Listener) -> Result<String> {
    let folder = benchmarks.join("../..");
    cpp::make(&folder, "samples", &mut listener.progress)?;
    let mut rows = [
        "lines of the application, without comments",
        "lines of the HAL above the registers, for any application",
        "flash, bytes",
        "RAM with stacks of tasks, bytes",
        "instructions from the ADC's interrupt to the code that waited",
    ]
    .map(|name| format!("| {name} |"));
    for version in &VERSIONS {
        let count = |file: &str| -> Result<u64> {
            let text = std::fs::read_to_string(repository::path("cpp/mcu").join(file))?;
            Ok(lines(&text) as u64)
        };
        let mut hal = 0;
        for file in version.hal {
            hal += count(&format!("hal/{file}"))?;
        }
        let name = version.firmware;
        let firmware = folder.join("mcu/sample");
        let sections = Sections::of(&firmware.join(format!("sample-{name}.elf")))?;
        let latency = latency(&firmware.join(format!("latency-{name}.elf")))?;
        for (row, figure) in rows.iter_mut().zip([
            count(&format!("sample/{}", version.source))?,
            hal,
            sections.flash(),
            sections.ram(),
            latency,
        ]) {
            row.push_str(&format!(" {figure} |"));
        }
    }
    let heads = VERSIONS.map(|version| version.column).join(" | ");
    Ok(format!(
        "## The sample application three ways\n\n[`cpp/mcu/sample`](../cpp/mcu/sample) on a Cortex-M3, GCC, -Os, all vectors included; instructions\n\
         counted in QEMU (`-icount shift=6`). FreeRTOS adds one more exception entry and exit per wake, which\n\
         no count of instructions shows. State machine and FreeRTOS task set the devices' registers\n\
         themselves; the coroutines use the HAL, which is counted apart.\n\n| | {heads} |\n|---|---|---|---|\n{}\n",
        rows.join("\n")
    ))
}

/// Counts the lines that are neither empty nor only a comment.
fn lines(source: &str) -> usize {
    source
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

/// Runs the firmware and returns the latency that it prints: `@latency INSTRUCTIONS`.
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
