//! Tests of the C++ library: on the host, on the Cortex-M4, and programs that must not compile.

use super::Context;
use super::outcome::Outcome;
use crate::cpp::{self, Pace};
use crate::process;
use crate::repository;
use anyhow::{Result, bail};
use object::{Object, ObjectSymbol};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The unit tests and traces, with each compiler and its sanitizers.
pub(super) fn host(context: &mut Context) -> Result<Outcome> {
    let mut outcome = guide(context)?;
    for preset in ["gcc", "clang", "gcc-thread", "clang-thread"] {
        let folder = cpp::build(preset, "unit-tests", &mut context.progress)?;
        let finished = context.command(&Command::new(folder.join("tests/unit/unit-tests")))?;
        outcome.add(Outcome::of_googletest(&finished));
    }
    Ok(outcome)
}

/// The guide, and the program that has its examples.
const GUIDE: (&str, &str) = ("docs/cpp-mcu.md", "cpp/tests/unit/guide.cpp");

/// Whether every line of the guide's C++ examples is in the program that compiles them, in order.
fn guide(context: &mut Context) -> Result<Outcome> {
    let text = std::fs::read_to_string(repository::path(GUIDE.0))?;
    let program = std::fs::read_to_string(repository::path(GUIDE.1))?;
    let Some(line) = missing_line(&text, &program) else {
        return Ok(Outcome::passed());
    };
    context.show(&format!(
        "{} has `{line}`, and {} has not",
        GUIDE.0, GUIDE.1
    ));
    Ok(Outcome::failed())
}

/// The first line of the examples that the program lacks where it should come.
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

/// The suites, traces and forced interrupts on the Cortex-M4; and what must not be in such a firmware.
pub(super) fn device(context: &mut Context) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let freertos = format!("-DCORANK_FREERTOS={}", cpp::freertos()?.display());
    for preset in ["cortex-m4-gcc", "cortex-m4-clang"] {
        let options = [freertos.clone()];
        let folder = cpp::build_in(
            preset,
            preset,
            &options,
            "device-tests",
            &mut context.progress,
        )?;
        let firmware = folder.join("tests/device/device-tests.elf");
        let finished = context.command(&cpp::qemu(&firmware, Pace::EveryInstruction))?;
        let counted = Outcome::of_last_line(&finished.output, finished.success());
        if counted.failed > 0 && finished.success() {
            context.show(&finished.tail(40));
        }
        outcome.add(counted);
        if preset == "cortex-m4-gcc" {
            cpp::make(&folder, "samples", &mut context.progress)?;
            outcome.add(samples(context, &folder.join("mcu/sample"))?);
            outcome.add(template(context)?);
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
    Ok(outcome)
}

/// What the sample application sends, with two ADC channels and three axes; however it is written.
const SAMPLE_LINES: usize = 5;

/// The sample application: the version with coroutines sends the same as the hand-written state machine and the FreeRTOS task, by the same interrupts.
fn samples(context: &mut Context, folder: &Path) -> Result<Outcome> {
    let mut outputs = Vec::new();
    for name in ["coroutines", "state-machine", "freertos"] {
        let finished = context.command(&cpp::qemu_stellaris(
            &folder.join(format!("sample-{name}.elf")),
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

/// The template project, as a project of its own: its slots fit exactly after one build step, and it does what it should.
fn template(context: &mut Context) -> Result<Outcome> {
    let folder = cpp::build_template(&mut context.progress)?;
    let finished = context.command(&cpp::qemu(&folder.join("blink.elf"), Pace::Counting))?;
    let said: Vec<&str> = finished.output.lines().collect();
    let sizes = std::fs::read_to_string(folder.join("blink-frames/corank_frames.inc"))?;
    if finished.success()
        && said == ["blink", "blink", "blink", "warm"]
        && sizes.contains("{\"blink\", ")
    {
        return Ok(Outcome::passed());
    }
    context.show(&format!(
        "the template printed {said:?}; its frames: {sizes}"
    ));
    Ok(Outcome::failed())
}

/// Beginnings of names that only an allocator, an unwinder, type information or the standard library has.
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

/// Which of them a firmware has, as symbols that are defined or wanted.
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

/// Each file in it is a program that must compile, and must not with `-DMUST_NOT_COMPILE`.
pub(super) const NEGATIVE: &str = "cpp/tests/negative";

/// A compiler, and the word before what it is expected to say.
const COMPILERS: [(&str, &[&str], &str); 2] = [
    ("g++", &["-fcoroutines"], "gcc"),
    ("clang++-19", &[], "clang"),
];

/// Programs that must not compile, each with the messages that it expects.
pub(super) fn negative(context: &mut Context) -> Result<Outcome> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(repository::path(NEGATIVE))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "cpp"))
        .collect();
    files.sort();
    if files.is_empty() {
        bail!("{NEGATIVE}/ has no test");
    }
    let mut outcome = Outcome::default();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        for (compiler, options, name) in COMPILERS {
            outcome.add(
                match complaint(context, &file, &text, (compiler, options, name))? {
                    None => Outcome::passed(),
                    Some(complaint) => {
                        context.show(&format!("{} with {compiler}: {complaint}", file.display()));
                        Outcome::failed()
                    }
                },
            );
        }
    }
    Ok(outcome)
}

/// What is wrong with one of these tests, if anything is.
fn complaint(
    context: &mut Context,
    file: &Path,
    text: &str,
    (compiler, options, name): (&str, &[&str], &str),
) -> Result<Option<String>> {
    let wanted = expectations(text, name);
    if wanted.is_empty() {
        return Ok(Some(format!(
            "no line `// {name}: …` says what is expected"
        )));
    }
    let mut compile = |defines: &[&str]| -> Result<process::Finished> {
        let mut command = Command::new(compiler);
        command
            .args(options)
            .args([
                "-std=c++20",
                "-O2",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-o",
                "/dev/null",
            ])
            .arg("-I")
            .arg(repository::path("cpp/include"))
            .args(defines)
            .arg(file)
            // The messages are compared with text in plain English.
            .env("LC_ALL", "C");
        context.progress.say(&process::describe(&command));
        process::capture(&command, context.limit, |_| {})
    };
    let good = compile(&[])?;
    if !good.success() {
        return Ok(Some(format!(
            "it must compile without MUST_NOT_COMPILE:\n{}",
            good.tail(20)
        )));
    }
    let bad = compile(&["-DMUST_NOT_COMPILE"])?;
    if bad.success() {
        return Ok(Some("it compiles, and must not".to_string()));
    }
    let missing = wanted
        .iter()
        .find(|line| !bad.output.contains(line.as_str()));
    Ok(missing.map(|line| format!("the message lacks `{line}`:\n{}", bad.tail(20))))
}

/// The texts after `// NAME: ` and `// both: `.
fn expectations(text: &str, name: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.strip_prefix("// ")?.split_once(": "))
        .filter(|(who, _)| *who == name || *who == "both")
        .map(|(_, wanted)| wanted.to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let text = "// gcc: one: two\n// clang: three\n// both: four\n#include <x>\n";
        assert_eq!(expectations(text, "gcc"), ["one: two", "four"]);
        assert_eq!(expectations(text, "clang"), ["three", "four"]);
    }
}
