//! `mcu-switch` and `mcu-size`: instructions per switch and bytes, on a Cortex-M4. What is in C++
//! is also measured on 32-bit RISC-V, and switches of the Rust models on a Cortex-M0.
//!
//! CMake builds the C++ models, once for each compiler and optimisation. The Rust models are the
//! firmware in `core/mcu/`. All count in the same way.

pub(crate) mod figures;
mod samples;

use super::runner::{Listener, settings};
use crate::cpp::{self, Pace};
use crate::firmware;
use crate::process;
use crate::progress::Progress;
use crate::toolchain::Target;
use anyhow::{Context, Result, ensure};
use corank_report::row::Sample;
use object::{Object, ObjectSection, SectionFlags};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Time limit of a firmware's run.
const LIMIT: Duration = Duration::from_secs(120);

/// Compilers and optimisations that the C++ models are measured with.
const BUILDS: &[(&str, &str)] = &[
    ("gcc", "O2"),
    ("gcc", "Os"),
    ("clang", "O2"),
    ("clang", "Os"),
];

/// The models in C++ and C.
///
/// FreeRTOS's port is for GCC.
const MODELS: &[&str] = &[
    "corank",
    "direct-resume",
    "protothreads",
    "state-machine",
    "freertos",
];

/// An architecture that the models are measured on.
#[derive(Clone, Copy)]
struct Architecture {
    /// The beginning of its presets' names, and of its folders'.
    preset: &'static str,
    folder: &'static str,
    /// What follows a model's name in the rows.
    suffix: &'static str,
    has_freertos: bool,
    qemu: fn(&Path, Pace) -> Command,
}

const CORTEX_M4: Architecture = Architecture {
    preset: "cortex-m4",
    folder: "bench",
    suffix: "",
    has_freertos: true,
    qemu: cpp::qemu,
};

const RISC_V: Architecture = Architecture {
    preset: "riscv32",
    folder: "bench-riscv32",
    suffix: "-rv32",
    has_freertos: false,
    qemu: cpp::qemu_riscv,
};

impl Architecture {
    fn has(self, model: &str) -> bool {
        self.has_freertos || model != "freertos"
    }
}

/// Returns the models that a compiler builds.
fn models(compiler: &str) -> impl Iterator<Item = &'static str> {
    let gcc = compiler == "gcc";
    MODELS
        .iter()
        .copied()
        .filter(move |model| gcc || *model != "freertos")
}

fn builds(quick: bool) -> &'static [(&'static str, &'static str)] {
    if quick { &BUILDS[..1] } else { BUILDS }
}

/// Runs the firmware of every model in C++ and C.
///
/// Each prints its rows.
fn cpp_switches(builds: &[(&str, &str)], listener: &mut Listener) -> Result<()> {
    for (compiler, opt) in builds {
        for architecture in [CORTEX_M4, RISC_V] {
            let folder = build(architecture, compiler, opt, &mut listener.progress)?;
            for model in models(compiler).filter(|model| architecture.has(model)) {
                let firmware = folder.join(format!("switch-{model}.elf"));
                run_and_read(&(architecture.qemu)(&firmware, Pace::Counting), listener)?;
            }
        }
    }
    Ok(())
}

/// Runs every model's firmware.
pub(super) fn switches(quick: bool, listener: &mut Listener) -> Result<Map<String, Value>> {
    cpp_switches(builds(quick), listener)?;
    for (level, _) in &RUST_BUILDS[..if quick { 1 } else { RUST_BUILDS.len() }] {
        let environment = [
            ("CORANK_BENCH_OPT", *level),
            ("CARGO_PROFILE_RELEASE_OPT_LEVEL", *level),
        ];
        for target in [Target::CortexM4, Target::CortexM0] {
            for features in [&["priority"], &["embassy-executor"]] {
                let progress = &mut listener.progress;
                let rust =
                    firmware::build_large("bench", target, features, &environment, progress)?;
                run_and_read(&firmware::qemu_large(target, &rust), listener)?;
            }
        }
    }
    Ok(describe(quick))
}

fn run_and_read(command: &Command, listener: &mut Listener) -> Result<()> {
    let finished = process::capture(command, LIMIT, |line| listener.receive(line))?;
    ensure!(
        finished.success(),
        "`{}` failed:\n{}",
        process::describe(command),
        finished.tail(20)
    );
    Ok(())
}

fn describe(quick: bool) -> Map<String, Value> {
    settings(
        quick,
        &["cpp/mcu/bench".to_string(), "core/mcu bench".to_string()],
        &[("machine", json!("netduinoplus2, -icount shift=0"))],
    )
}

/// The sizes of a firmware's sections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sections {
    /// Code and constants.
    text: u64,
    /// Variables with an initial value, which flash also holds.
    data: u64,
    /// Variables that begin as zeros.
    bss: u64,
}

/// Bytes of the vectors of the core's own exceptions, without those of devices.
const CORE_VECTORS: u64 = 16 * 4;

impl Sections {
    fn of(elf: &Path) -> Result<Self> {
        let bytes = std::fs::read(elf).with_context(|| format!("can't read {}", elf.display()))?;
        let file = object::File::parse(&*bytes)?;
        let mut sum = Self::default();
        for section in file.sections() {
            // cortex-m-rt has vectors for 240 interrupts if a firmware names none. The other models
            // have only the core's 16, so only these are compared.
            let bytes = match section.name() {
                Ok(".vector_table") => section.size().min(CORE_VECTORS),
                _ => section.size(),
            };
            let SectionFlags::Elf { sh_flags } = section.flags() else {
                continue;
            };
            match (sh_flags & 2 != 0, sh_flags & 1 != 0, section.kind()) {
                (false, ..) => {}
                (true, true, object::SectionKind::UninitializedData) => sum.bss += bytes,
                (true, true, _) => sum.data += bytes,
                (true, false, _) => sum.text += bytes,
            }
        }
        Ok(sum)
    }

    fn flash(self) -> u64 {
        self.text + self.data
    }

    fn ram(self) -> u64 {
        self.data + self.bss
    }
}

/// Compares firmware in C++ and C that differs in one thing: a task, ten tasks, a call.
fn cpp_sizes(builds: &[(&str, &str)], listener: &mut Listener) -> Result<()> {
    for (compiler, opt) in builds {
        let folder = build(CORTEX_M4, compiler, opt, &mut listener.progress)?;
        let of = |model: &str, tasks: u32, calls: u32| {
            Sections::of(&folder.join(format!("size-{model}-{tasks}-{calls}.elf")))
        };
        for model in models(compiler) {
            // FreeRTOS's handlers are in its firmware even without a task. So its first task is
            // compared with another model's firmware without one.
            let without = if model == "freertos" {
                "direct-resume"
            } else {
                model
            };
            let none = of(without, 0, 0)?;
            let mut parts = common_parts(none, |tasks| of(model, tasks, 0))?;
            if model == "corank" {
                let (first, fifth) = (of(model, 1, 1)?, of(model, 1, 5)?);
                parts.push(("next-call", (fifth.flash() - first.flash()) / 4));
            }
            if ["corank", "freertos"].contains(&model) {
                let all = folder.join(format!("size-{model}-2-0-all-vectors.elf"));
                parts.push(("flash-all-vectors", Sections::of(&all)?.flash()));
            }
            for (part, bytes) in parts {
                listener
                    .samples
                    .push(sample(model, compiler, opt, part, bytes));
            }
        }
        riscv_sizes(compiler, opt, listener)?;
    }
    Ok(())
}

/// Returns the sizes that firmware of every model has: of two tasks, and what more tasks add to
/// that of `none`.
fn common_parts(
    none: Sections,
    mut of: impl FnMut(u32) -> Result<Sections>,
) -> Result<Vec<(&'static str, u64)>> {
    let (one, two, ten) = (of(1)?, of(2)?, of(10)?);
    Ok(vec![
        ("text", two.text),
        ("data", two.data),
        ("bss", two.bss),
        ("first-coroutine", one.flash() - none.flash()),
        ("ram-per-coroutine", (ten.ram() - two.ram()) / 8),
    ])
}

/// Measures the same parts of this library's firmware on RISC-V.
fn riscv_sizes(compiler: &str, opt: &str, listener: &mut Listener) -> Result<()> {
    let folder = build(RISC_V, compiler, opt, &mut listener.progress)?;
    let of = |tasks: u32, calls: u32| {
        Sections::of(&folder.join(format!("size-corank-{tasks}-{calls}.elf")))
    };
    let mut parts = common_parts(of(0, 0)?, |tasks| of(tasks, 0))?;
    let (first, fifth) = (of(1, 1)?, of(1, 5)?);
    parts.push(("next-call", (fifth.flash() - first.flash()) / 4));
    let model = format!("corank{}", RISC_V.suffix);
    for (part, bytes) in parts {
        listener
            .samples
            .push(sample(&model, compiler, opt, part, bytes));
    }
    Ok(())
}

/// Compares the sizes of all models' firmware, and writes the page of figures.
pub(super) fn sizes(quick: bool, listener: &mut Listener) -> Result<Map<String, Value>> {
    if quick {
        cpp_sizes(builds(quick), listener)?;
    } else {
        let mut figures = figures::Figures::measure("mcu-size")?;
        listener.samples.append(&mut figures.sizes);
        figures.write()?;
    }
    for (level, opt) in &RUST_BUILDS[..if quick { 1 } else { RUST_BUILDS.len() }] {
        for model in ["corank-mcu", "corank-rust", "embassy"] {
            rust_sizes(model, level, opt, listener)?;
        }
    }
    Ok(describe(quick))
}

/// The name of each optimisation for cargo, and its name in the rows.
const RUST_BUILDS: [(&str, &str); 2] = [("3", "O3"), ("s", "Os")];

/// Measures the same parts of the firmware in Rust, `core/mcu/src/bin/size.rs`.
fn rust_sizes(model: &str, level: &str, opt: &str, listener: &mut Listener) -> Result<()> {
    let mut of = |tasks: u32| {
        let tasks = tasks.to_string();
        let environment = [
            ("CORANK_SIZE_MODEL", model),
            ("CORANK_SIZE_TASKS", tasks.as_str()),
            ("CARGO_PROFILE_RELEASE_OPT_LEVEL", level),
        ];
        let built = firmware::build_with(
            "size",
            &["size", "priority"],
            &environment,
            &mut listener.progress,
        )?;
        Sections::of(&built)
    };
    let none = of(0)?;
    for (part, bytes) in common_parts(none, of)? {
        listener
            .samples
            .push(sample(model, "rustc", opt, part, bytes));
    }
    Ok(())
}

fn sample(model: &str, compiler: &str, opt: &str, part: &str, bytes: u64) -> Sample {
    let parameters = json!({ "part": part, "compiler": compiler, "opt": opt });
    Sample {
        experiment: "mcu-size".to_string(),
        model: model.to_string(),
        metric: "bytes".to_string(),
        unit: "bytes".to_string(),
        value: bytes as f64,
        run: None,
        parameters: parameters.as_object().cloned().unwrap_or_default(),
    }
}

/// Builds all benchmarks with one compiler and optimisation, and returns their folder.
fn build(
    architecture: Architecture,
    compiler: &str,
    opt: &str,
    progress: &mut Progress,
) -> Result<PathBuf> {
    let options = [
        format!("-DCORANK_BENCH_OPT={opt}"),
        "-DCMAKE_BUILD_TYPE=".to_string(),
    ];
    let folder = cpp::build_in(
        &format!("{}-{compiler}-{opt}", architecture.folder),
        &format!("{}-{compiler}", architecture.preset),
        &options,
        "benchmarks",
        progress,
    )?;
    Ok(folder.join("mcu/bench"))
}
