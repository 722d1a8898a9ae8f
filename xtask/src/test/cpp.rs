//! Tests of the C++ library: on the host, on microcontrollers, and programs that must not compile.

mod depend;
mod figures;
mod package;

use super::Context;
use super::outcome::Outcome;
use crate::cpp::{self, Pace};
use crate::process;
use crate::repository;
use anyhow::{Result, bail, ensure};
use object::{Object, ObjectSymbol};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs the unit tests and traces, with each compiler and its sanitizers.
pub(super) fn host(context: &mut Context) -> Result<Outcome> {
    let mut outcome = guide(context, "docs/cpp-mcu.md", "cpp/tests/unit/guide.cpp")?;
    for preset in ["gcc", "clang", "gcc-thread", "clang-thread"] {
        let folder = cpp::build(preset, "unit-tests", &mut context.progress)?;
        let finished = context.command(&Command::new(folder.join("tests/unit/unit-tests")))?;
        outcome.add(Outcome::of_googletest(&finished));
        // An ordinary program has the symbols that a firmware must not have. So the search for them
        // must find some.
        let program = std::fs::read(folder.join("tests/unit/unit-tests"))?;
        outcome.add(if unwanted_symbols(&program)?.is_empty() {
            context.show("the search for symbols of allocator and unwinder finds none in a program that has them");
            Outcome::failed()
        } else {
            Outcome::passed()
        });
    }
    Ok(outcome)
}

/// Tests whether every line of a guide's C++ examples is in the program that compiles them, in
/// order.
pub(super) fn guide(context: &mut Context, guide: &str, examples: &str) -> Result<Outcome> {
    let text = std::fs::read_to_string(repository::path(guide))?;
    let program = std::fs::read_to_string(repository::path(examples))?;
    let Some(line) = missing_line(&text, &program) else {
        return Ok(Outcome::passed());
    };
    context.show(&format!("{guide} has `{line}`, and {examples} has not"));
    Ok(Outcome::failed())
}

/// Returns the first line of the examples that the program lacks at its position.
fn missing_line(guide: &str, program: &str) -> Option<String> {
    for example in guide.split("```cpp\n").skip(1) {
        let code = example.split("```").next().unwrap_or_default();
        let mut rest = program;
        for line in code.lines().map(str::trim).filter(|line| line.len() > 1) {
            let Some((_, after)) = rest.split_once(line) else {
                return Some(line.to_string());
            };
            rest = after;
        }
    }
    None
}

/// Runs the suites, traces and forced interrupts on the Cortex-M4, the Cortex-M0 and 32-bit RISC-V.
///
/// It also checks that a firmware has no unwanted symbols.
pub(super) fn device(context: &mut Context) -> Result<Outcome> {
    let mut outcome = guide(
        context,
        "docs/cpp-port.md",
        "cpp/include/corank/port/riscv.hpp",
    )?;
    for preset in ["cortex-m4-gcc", "cortex-m4-clang"] {
        let folder = cpp::build(preset, "device-tests", &mut context.progress)?;
        let firmware = folder.join("tests/device/device-tests.elf");
        let command = cpp::qemu(&firmware, Pace::EveryInstruction);
        outcome.add(suites(context, &command, true)?);
        outcome.add(endings(context, &folder, |firmware| {
            cpp::qemu(firmware, Pace::EveryInstruction)
        })?);
        cpp::make(&folder, "hal-tests", &mut context.progress)?;
        for board in ["lm3s6965", "mps2-an386"] {
            let firmware = folder.join(format!("tests/hal/hal-{board}.elf"));
            let finished = context.command(&cpp::qemu_board(board, &firmware, "ping"))?;
            outcome.add(Outcome::of_last_line(&finished.output, finished.success()));
        }
        let mut variant = |target: &str, traces| -> Result<Outcome> {
            cpp::make(&folder, target, &mut context.progress)?;
            let firmware = folder.join(format!("tests/device/{target}.elf"));
            suites(
                context,
                &cpp::qemu(&firmware, Pace::EveryInstruction),
                traces,
            )
        };
        outcome.add(variant("basepri-tests", false)?);
        if preset == "cortex-m4-gcc" {
            // As a guest of FreeRTOS, whose port is for GCC.
            outcome.add(variant("guest-tests", true)?);
            cpp::make(&folder, "samples", &mut context.progress)?;
            outcome.add(samples(context, &folder.join("mcu/sample"))?);
        }
        outcome.add(match unwanted_symbols(&std::fs::read(&firmware)?)? {
            found if found.is_empty() => Outcome::passed(),
            found => {
                context.show(&format!(
                    "{} contains {}: the library needs no heap, exceptions, type information or locks of the standard library",
                    firmware.display(),
                    found.join(", ")
                ));
                Outcome::failed()
            }
        });
    }
    // The Cortex-M0 has no tail calls, and room for the suites or for the traces.
    for preset in ["cortex-m0-gcc", "cortex-m0-clang"] {
        for (target, traces) in [("device-tests", false), ("device-traces", true)] {
            let folder = cpp::build(preset, target, &mut context.progress)?;
            let firmware = folder.join(format!("tests/device/{target}.elf"));
            let command = cpp::qemu_microbit(&firmware);
            outcome.add(suites(context, &command, traces)?);
            if traces {
                outcome.add(endings(context, &folder, cpp::qemu_microbit)?);
            }
        }
    }
    for preset in ["riscv32-gcc", "riscv32-clang"] {
        let folder = cpp::build(preset, "device-tests", &mut context.progress)?;
        let command = |firmware: &Path| cpp::qemu_riscv(firmware, Pace::EveryInstruction);
        let firmware = folder.join("tests/device/device-tests.elf");
        outcome.add(suites(context, &command(&firmware), true)?);
        outcome.add(endings(context, &folder, command)?);
    }
    Ok(outcome)
}

/// Firmware that must end with a message and a failure.
const ENDINGS: [(&str, &str); 2] = [
    ("overflow", "corank: the stack has overflowed"),
    (
        "fatal",
        "corank: a coroutine was awaited whose slot is taken",
    ),
];

/// Tests that an overflow of the stack and a fatal error say what happened.
fn endings(
    context: &mut Context,
    folder: &Path,
    command: impl Fn(&Path) -> Command,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for (name, message) in ENDINGS {
        cpp::make(folder, &format!("ends-{name}"), &mut context.progress)?;
        let firmware = folder.join(format!("tests/device/ends-{name}.elf"));
        let finished = process::capture(&command(&firmware), context.limit, |_| {})?;
        if !finished.success() && !finished.timed_out && finished.output.contains(message) {
            outcome.add(Outcome::passed());
        } else {
            context.show(&format!(
                "{} must fail and say `{message}`:\n{}",
                firmware.display(),
                finished.tail(10)
            ));
            outcome.add(Outcome::failed());
        }
    }
    Ok(outcome)
}

/// Runs a firmware with suites, and with the traces if it has them.
fn suites(context: &mut Context, command: &Command, traces: bool) -> Result<Outcome> {
    let finished = context.command(command)?;
    let mut counted = Outcome::of_last_line(&finished.output, finished.success());
    let skipped = skipped_traces(&finished.output);
    let expected = WITHOUT_DEMOTION.into_iter().chain(WITHOUT_EXCEPTIONS);
    let expected: Vec<&str> = expected.filter(|_| traces).collect();
    if skipped != expected {
        context.show(&format!(
            "the firmware skipped the traces {skipped:?}, and may skip just {expected:?}"
        ));
        counted.add(Outcome::failed());
    }
    if counted.failed > 0 && finished.success() {
        context.show(&finished.tail(40));
    }
    Ok(counted)
}

/// The traces in which a coroutine panics.
///
/// The firmware has no exceptions, so a panic ends the program there (rule F4). It replays all
/// other traces.
const WITHOUT_EXCEPTIONS: [&str; 5] = [
    "inherit-panic-of-the-waiter",
    "mutex-holder-finishes-or-panics",
    "panic-ends-alone",
    "panic-in-a-cancelled-poll",
    "panic-wakes-the-joiner",
];

/// The traces with demotion, which the library does not have.
const WITHOUT_DEMOTION: [&str; 11] = [
    "demotion-and-reprioritize",
    "demotion-behind-its-level",
    "demotion-below-other-levels",
    "demotion-bound-between-levels",
    "demotion-ends-with-a-wait",
    "demotion-equal-level-is-inherited",
    "demotion-keeps-inherited-level",
    "demotion-of-a-lender",
    "demotion-passes-over-fifteen-times",
    "demotion-shows-the-lowered-level",
    "demotion-within-bounded",
];

/// Returns the traces that a firmware reports as skipped, in order of their names.
fn skipped_traces(output: &str) -> Vec<&str> {
    output
        .lines()
        .filter_map(|line| line.strip_prefix("trace ")?.split_once(' '))
        .filter(|(_, what)| what.starts_with("skipped: "))
        .map(|(name, _)| name)
        .collect()
}

/// Tests the package, as projects outside the repository use it.
pub(super) fn package(context: &mut Context) -> Result<Outcome> {
    package::check(context)
}

/// Checks the library's figures, and the page that has them.
pub(super) fn figures(context: &mut Context) -> Result<Outcome> {
    figures::check(context)
}

/// The number of lines that each version of the sample application sends: for two ADC channels and
/// three axes.
const SAMPLE_LINES: usize = 5;

/// Tests that all versions of the sample application send the same, by the same interrupts.
///
/// The versions use coroutines, a hand-written state machine and a FreeRTOS task.
fn samples(context: &mut Context, folder: &Path) -> Result<Outcome> {
    let mut outputs = Vec::new();
    for name in ["coroutines", "state-machine", "freertos"] {
        let finished = context.command(&cpp::qemu_board(
            "lm3s6965",
            &folder.join(format!("sample-{name}.elf")),
            "",
        ))?;
        if !finished.success() {
            return Ok(Outcome::failed());
        }
        let lines: Vec<String> = finished
            .output
            .lines()
            .filter(|line| line.starts_with("x="))
            .map(str::to_string)
            .collect();
        outputs.push(lines);
    }
    if outputs[0].len() == SAMPLE_LINES && outputs.iter().all(|output| *output == outputs[0]) {
        return Ok(Outcome::passed());
    }
    context.show(&format!(
        "the sample application sent {:?} with coroutines, {:?} as a state machine, and {:?} as a FreeRTOS task",
        outputs[0], outputs[1], outputs[2]
    ));
    Ok(Outcome::failed())
}

/// Beginnings of names that only an allocator, an unwinder, type information or the standard
/// library has.
const UNWANTED: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "free",
    "_malloc",
    "_free",
    "_sbrk",
    "_Znwj",
    "_Znaj",
    "_ZdlPv",
    "_ZdaPv",
    "__cxa_throw",
    "__cxa_begin_catch",
    "__cxa_allocate",
    "__cxa_guard",
    "__cxa_pure",
    "_Unwind",
    "__gxx_personality",
    "__aeabi_unwind",
    "__gnu_unwind",
    "_ZTI",
    "_ZTS",
    "_ZTV",
    "__dynamic_cast",
    "_ZSt",
    "_ZNSt6",
    "abort",
    "printf",
];

/// Returns which of them a firmware has, as symbols that it defines or needs.
fn unwanted_symbols(elf: &[u8]) -> Result<Vec<String>> {
    let file = object::File::parse(elf)?;
    let mut found: Vec<String> = file
        .symbols()
        .filter_map(|symbol| symbol.name().ok().map(str::to_string))
        .filter(|name| UNWANTED.iter().any(|unwanted| name.starts_with(unwanted)))
        .collect();
    found.sort();
    found.dedup();
    Ok(found)
}

/// The folder of programs that must compile, but must not with `-DMUST_NOT_COMPILE`.
pub(super) const NEGATIVE: &str = "cpp/tests/negative";

/// A compiler that must refuse them.
struct Compiler {
    program: &'static str,
    options: &'static [&'static str],
    /// The word before its expected messages.
    name: &'static str,
}

const COMPILERS: [Compiler; 2] = [
    Compiler {
        program: "g++",
        options: &["-fcoroutines"],
        name: "gcc",
    },
    Compiler {
        program: "clang++-19",
        options: &[],
        name: "clang",
    },
];

/// Tests programs that must not compile, each with the messages that it expects.
pub(super) fn negative(context: &mut Context) -> Result<Outcome> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(repository::path(NEGATIVE))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "cpp"))
        .collect();
    files.sort();
    if files.is_empty() {
        bail!("{NEGATIVE}/ has no test");
    }
    let mut cases = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        for opt in optimisations(&text) {
            for compiler in &COMPILERS {
                cases.push(Negative {
                    number: cases.len(),
                    file: file.clone(),
                    text: text.clone(),
                    opt: opt.to_string(),
                    compiler,
                });
            }
        }
    }
    context.side_by_side(&cases, |case, context| {
        Ok(match case.failure(context)? {
            None => Outcome::passed(),
            Some(failure) => {
                context.show(&format!(
                    "{} with {} {}: {failure}",
                    case.file.display(),
                    case.compiler.program,
                    case.opt
                ));
                Outcome::failed()
            }
        })
    })
}

/// A program that must not compile, for one compiler and level of optimisation.
struct Negative {
    /// Its position in the table of all.
    number: usize,
    file: PathBuf,
    /// The content of the file.
    text: String,
    opt: String,
    compiler: &'static Compiler,
}

impl Negative {
    /// Returns what is wrong, if anything is.
    fn failure(&self, context: &mut Context) -> Result<Option<String>> {
        let name = self.compiler.name;
        let wanted = expectations(&self.text, name, &self.opt);
        if wanted.is_empty() {
            return Ok(Some(format!(
                "no line `// {name}: …` says what is expected"
            )));
        }
        let (good, said) = self.build(context, &[])?;
        if !good {
            return Ok(Some(format!(
                "it must build without MUST_NOT_COMPILE:\n{said}"
            )));
        }
        let (bad, said) = self.build(context, &["-DMUST_NOT_COMPILE"])?;
        if bad {
            return Ok(Some("it builds, and must not".to_string()));
        }
        let missing = wanted.iter().find(|line| !said.contains(line.as_str()));
        Ok(missing.map(|line| format!("the message lacks `{line}`:\n{said}")))
    }

    /// Returns whether it builds with these definitions, and what the compiler says.
    fn build(&self, context: &mut Context, defines: &[&str]) -> Result<(bool, String)> {
        let folder = repository::path("target/cpp");
        std::fs::create_dir_all(&folder)?;
        let program = folder.join(format!("negative-test-{}", self.number));
        let mut command = Command::new(self.compiler.program);
        command
            .args(self.compiler.options)
            .args(["-std=c++20", &self.opt])
            .args(["-g", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(&program)
            .arg("-I")
            .arg(repository::path("cpp/include"))
            .args(defines)
            .arg(&self.file)
            // The messages are compared with English text.
            .env("LC_ALL", "C");
        context.progress.say(&process::describe(&command));
        let compiled = process::capture(&command, context.limit, |_| {})?;
        ensure!(
            !compiled.timed_out,
            "`{}` took longer than {:?}",
            process::describe(&command),
            context.limit
        );
        if !compiled.success() {
            return Ok((false, compiled.output));
        }
        // The build step that corank_firmware() takes behind each link.
        let frames = corank_frames::Options {
            elf: program,
            check: true,
            ..Default::default()
        };
        Ok(match corank_frames::run(&frames) {
            Ok(()) => (true, String::new()),
            Err(error) => (false, format!("error: {error:#}")),
        })
    }
}

/// Returns the levels of optimisation at which a test is built, from its line `// opt: `.
fn optimisations(text: &str) -> Vec<&str> {
    let line = text.lines().find_map(|line| line.strip_prefix("// opt: "));
    line.unwrap_or("-O2").split_whitespace().collect()
}

/// Returns the texts after `// both: `, `// NAME: ` and `// NAME OPTIMISATION: `.
fn expectations(text: &str, name: &str, opt: &str) -> Vec<String> {
    let at_this_level = format!("{name} {opt}");
    text.lines()
        .filter_map(|line| line.strip_prefix("// ")?.split_once(": "))
        .filter(|(who, _)| ["both", name, &at_this_level].contains(who))
        .map(|(_, wanted)| wanted.to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_traces_are_found() {
        let output = "test a.b ... ok\ntrace x-y skipped: panics need exceptions\ntrace z FAILED: line 3: skipped: no\n1 traces skipped\n";
        assert_eq!(skipped_traces(output), ["x-y"]);
    }

    #[test]
    fn examples_are_looked_for_line_by_line() {
        let guide = "Text\n```cpp\none();\ntwo();\n```\n```sh\nnothing\n```\n";
        assert_eq!(
            missing_line(guide, "void f() {\n  one();\n  two();\n}"),
            None
        );
        assert_eq!(
            missing_line(guide, "two();\none();").as_deref(),
            Some("two();")
        );
    }

    #[test]
    fn expectations_are_read_from_comments() {
        let text = "// opt: -O0 -O2\n// gcc: one: two\n// gcc -O0: zero\n// clang: three\n// both: four\n#include <x>\n";
        assert_eq!(optimisations(text), ["-O0", "-O2"]);
        assert_eq!(optimisations("// gcc: -O0"), ["-O2"]);
        let of = |name, opt| expectations(text, name, opt);
        assert_eq!(of("gcc", "-O2"), ["one: two", "four"]);
        assert_eq!(of("gcc", "-O0"), ["one: two", "zero", "four"]);
        assert_eq!(of("clang", "-O0"), ["three", "four"]);
    }
}
