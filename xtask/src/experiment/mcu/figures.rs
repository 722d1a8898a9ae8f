//! The C++ library's page of figures, `docs/cpp-mcu-size.md`.
//!
//! Its figures are measured here, and are the same on every machine with the same compilers.

use super::super::runner::Listener;
use super::{
    Architecture, BUILDS, CORTEX_M4, RISC_V, Sections, build, cpp_sizes, cpp_switches, sample,
    samples,
};
use crate::repository;
use anyhow::{Context, Result};
use corank_report::document::Document;
use corank_report::experiments;
use corank_report::row::{self, Sample};
use corank_report::verdict::Verdict;
use std::path::PathBuf;

/// The features in `cpp/mcu/bench/feature.cpp`, each of which is measured.
const FEATURES: &[&str] = &[
    "call",
    "join",
    "cancel",
    "reprioritize",
    "sleep",
    "timeout",
    "mutex",
    "semaphore",
    "event",
    "channel",
    "keys",
    "future",
    "split_phase_event",
    "any",
    "generator",
];

/// The page, and the rows of the experiments behind it.
pub(crate) struct Figures {
    /// The rows of `mcu-switch`.
    switches: Vec<Sample>,
    /// The rows of `mcu-size`.
    pub(super) sizes: Vec<Sample>,
    page: String,
}

/// Returns the path of the page.
pub(crate) fn page_file() -> PathBuf {
    repository::path("docs/cpp-mcu-size.md")
}

impl Figures {
    /// Builds and runs the benchmarks in C++ with all compilers and optimisations, and the sample
    /// application.
    pub(crate) fn measure(name: &str) -> Result<Self> {
        let mut switches = Listener::new(name);
        cpp_switches(BUILDS, &mut switches)?;
        let mut sizes = Listener::new(name);
        cpp_sizes(BUILDS, &mut sizes)?;
        let folder = build(CORTEX_M4, "gcc", "Os", &mut sizes.progress)?;
        let of = |feature: &str| Sections::of(&folder.join(format!("feature-{feature}.elf")));
        let base = of("none")?;
        let mut features = Vec::new();
        for feature in FEATURES {
            let with = of(feature)?;
            let code = with.flash().saturating_sub(base.flash());
            let ram = with.ram().saturating_sub(base.ram());
            let part = format!("feature-{feature}");
            sizes
                .samples
                .push(sample("corank", "gcc", "Os", &part, code));
            let name = feature.replace('_', " ");
            features.push(format!("| {name} | {code} | {ram} |"));
        }
        let frames = frame_table(&mut sizes)?;
        let application = samples::table(&folder, &mut sizes)?;
        switches.progress.finish();
        sizes.progress.finish();
        let page = format!(
            "# What the C++ library costs on a microcontroller\n\nWritten by `cargo xtask experiment mcu-size --json FILE`; a test compares it with what is measured.\n\
             Cortex-M4, in QEMU, unless another processor is named.\n\n{}\n{}\n{}\n## What each feature adds\n\nGCC, -Os. A program with one coroutine that yields and ends takes {} bytes of flash and {} of RAM,\n\
             vector table, start-up code and two slots of 400 bytes included. Each line is what one use of a\n\
             feature adds to that. What two features share is counted in both.\n\n| feature | flash, bytes | RAM, bytes |\n|---|---|---|\n{}\n\n{frames}\n{application}",
            switch_table(&switches.samples),
            firmware_table(&sizes.samples),
            riscv_section(&switches.samples, &sizes.samples),
            base.flash(),
            base.ram(),
            features.join("\n")
        );
        Ok(Self {
            switches: switches.samples,
            sizes: sizes.samples,
            page,
        })
    }

    /// Returns the page's text.
    pub(crate) fn page(&self) -> &str {
        &self.page
    }

    /// Writes the page.
    pub(super) fn write(&self) -> Result<()> {
        let file = page_file();
        std::fs::write(&file, &self.page).with_context(|| format!("can't write {}", file.display()))
    }

    /// Returns which of the two experiments' targets these figures meet.
    pub(crate) fn verdicts(&self) -> Result<Vec<Verdict>> {
        let mut all = Vec::new();
        for (experiment, samples) in [("mcu-switch", &self.switches), ("mcu-size", &self.sizes)] {
            let document = Document {
                experiment: experiment.to_string(),
                commit: String::new(),
                host: serde_json::Map::new(),
                settings: serde_json::Map::new(),
                rows: row::gather(experiment, samples)?,
            };
            all.extend(experiments::of(&document)?.verdicts(&document)?);
        }
        Ok(all)
    }
}

/// The coroutines in `cpp/mcu/bench/frames.cpp`, each with what it does.
const FRAMES: &[(&str, &str)] = &[
    (
        "waits_in_turn",
        "a lock, a message and an event, one after the other",
    ),
    ("sends_in_turn", "five sends, one after the other"),
    ("sends_in_loop", "five sends in a loop"),
    (
        "arrays_in_blocks",
        "an array of 64 bytes in each of two blocks",
    ),
    ("array_for_both", "one array of 64 bytes for both"),
    ("limit_of_temporaries", "`timeout` of a temporary"),
    ("limit_of_variables", "`any` of two variables, for the same"),
];

/// Returns a section with the frames of coroutines that the compilers lay out differently.
fn frame_table(listener: &mut Listener) -> Result<String> {
    let mut sizes = Vec::new();
    for (compiler, opt) in BUILDS {
        let folder = build(CORTEX_M4, compiler, opt, &mut listener.progress)?;
        sizes.push(corank_frames::frame_sizes(&folder.join("frames.elf"))?);
    }
    let mut text = "## What a frame takes\n\nBytes, without the control block of 16. clang lets what does not live at the same time share its\n\
                    place. GCC gives each variable and each temporary of an `await` a place of its own. A loop, one\n\
                    variable for several blocks, or a call for each step makes GCC's frames smaller.\n\n"
        .to_string();
    text += &heads("coroutine");
    for (name, what) in FRAMES {
        let cells: Vec<String> = sizes
            .iter()
            .map(|of| of.get(*name).map(u64::to_string))
            .collect::<Option<_>>()
            .with_context(|| format!("frames.elf has no coroutine `{name}`"))?;
        text += &format!("| {what} | {} |\n", cells.join(" | "));
    }
    Ok(text)
}

/// Returns the samples of one compiler and optimisation.
///
/// In the rows of `mcu-switch`, a compiler's name has a version behind the name in [`BUILDS`].
fn of_build<'a>(
    samples: &'a [Sample],
    compiler: &'a str,
    opt: &'a str,
) -> impl Iterator<Item = &'a Sample> {
    samples.iter().filter(move |sample| {
        let text = |name: &str| sample.parameters.get(name).and_then(|value| value.as_str());
        text("compiler").is_some_and(|name| name.starts_with(compiler)) && text("opt") == Some(opt)
    })
}

fn heads(first: &str) -> String {
    let columns: Vec<String> = BUILDS
        .iter()
        .map(|(compiler, opt)| format!("{compiler} -{opt}"))
        .collect();
    format!(
        "| {first} | {} |\n|---|---|---|---|---|\n",
        columns.join(" | ")
    )
}

/// Returns a line of a table with a column for each of [`BUILDS`].
fn line(name: &str, cell: impl Fn(&str, &str) -> Option<String>) -> String {
    let cells: Vec<String> = BUILDS
        .iter()
        .map(|(compiler, opt)| cell(compiler, opt).unwrap_or_default())
        .collect();
    format!("| {name} | {} |\n", cells.join(" | "))
}

/// Returns the table of instructions per switch: the range over all numbers of tasks and levels.
fn switch_table(samples: &[Sample]) -> String {
    let mut text = "## What a switch takes\n\nInstructions, the loop around the yield included; for 2, 8 and 64 tasks on 1 to 8 levels, the least\n\
                    and the most. Those of FreeRTOS are without exception entry and exit.\n\n"
        .to_string();
    text += &switches(samples, CORTEX_M4);
    text
}

/// Returns a line for each model that an architecture has.
fn switches(samples: &[Sample], architecture: Architecture) -> String {
    let mut text = heads("model");
    for (model, name) in [
        ("corank", "this library, through the scheduler"),
        ("direct-resume", "coroutines resumed in turn"),
        ("protothreads", "protothreads"),
        ("state-machine", "state machines"),
        ("freertos", "FreeRTOS `taskYIELD`"),
    ] {
        if !architecture.has(model) {
            continue;
        }
        let model = format!("{model}{}", architecture.suffix);
        text += &line(name, |compiler, opt| {
            let values = || {
                of_build(samples, compiler, opt)
                    .filter(|sample| sample.model == model)
                    .map(|sample| sample.value)
            };
            let least = values().reduce(f64::min)?;
            let most = values().reduce(f64::max)?;
            Some(format!("{least:.1} to {most:.1}"))
        });
    }
    text
}

/// Returns the section with the same figures for RISC-V.
fn riscv_section(switched: &[Sample], sizes: &[Sample]) -> String {
    let mut text = "## On 32-bit RISC-V\n\n`rv32imac`, QEMU's `virt`. Instructions of a switch, and bytes of the same firmware.\n\n"
        .to_string();
    text += &switches(switched, RISC_V);
    text.push('\n');
    text += &heads("");
    let model = format!("corank{}", RISC_V.suffix);
    let part = |part: &'static str| {
        let model = model.clone();
        move |compiler: &str, opt: &str| bytes_of(sizes, &model, part, compiler, opt)
    };
    for (name, of) in [
        ("code for the first coroutine", "first-coroutine"),
        ("code for each further call", "next-call"),
        ("RAM per coroutine beside its locals", "ram-per-coroutine"),
        ("flash, this library", "text"),
    ] {
        let of = part(of);
        text += &line(name, |compiler, opt| {
            of(compiler, opt).map(|value| format!("{value:.0}"))
        });
    }
    text
}

/// Returns the bytes of a part of a model's firmware.
fn bytes_of(samples: &[Sample], model: &str, part: &str, compiler: &str, opt: &str) -> Option<f64> {
    let is_part = |sample: &&Sample| {
        let named = sample.parameters.get("part");
        sample.model == model && named.and_then(|value| value.as_str()) == Some(part)
    };
    of_build(samples, compiler, opt)
        .find(is_part)
        .map(|sample| sample.value)
}

/// Returns the table of bytes of the switching firmware.
fn firmware_table(samples: &[Sample]) -> String {
    let part = |model: &'static str, part: &'static str| {
        move |compiler: &str, opt: &str| bytes_of(samples, model, part, compiler, opt)
    };
    let flash = |model: &'static str| {
        move |compiler: &str, opt: &str| {
            Some(part(model, "text")(compiler, opt)? + part(model, "data")(compiler, opt)?)
        }
    };
    let number = |value: f64| format!("{value:.0}");
    let mut text = "## What a firmware takes\n\nBytes. Two tasks that toggle a pin and yield, start-up code included; with the vectors of the core's\n\
                    own 16 exceptions, and with those of the chip's 82 devices as well.\n\n"
        .to_string();
    text += &heads("");
    for (name, of) in [
        ("code for the first coroutine", "first-coroutine"),
        ("code for each further call", "next-call"),
        ("RAM per coroutine beside its locals", "ram-per-coroutine"),
    ] {
        text += &line(name, |compiler, opt| {
            part("corank", of)(compiler, opt).map(number)
        });
    }
    for (model, name) in [("corank", "this library"), ("freertos", "FreeRTOS")] {
        text += &line(&format!("flash, {name}, 16 vectors"), |compiler, opt| {
            flash(model)(compiler, opt).map(number)
        });
        text += &line(&format!("flash, {name}, 98 vectors"), |compiler, opt| {
            part(model, "flash-all-vectors")(compiler, opt).map(number)
        });
    }
    text += &line("this library / FreeRTOS, 16 vectors", |compiler, opt| {
        let ratio = flash("corank")(compiler, opt)? / flash("freertos")(compiler, opt)?;
        Some(format!("{ratio:.3}"))
    });
    text += &line("this library / FreeRTOS, 98 vectors", |compiler, opt| {
        let all = |model| part(model, "flash-all-vectors")(compiler, opt);
        Some(format!("{:.3}", all("corank")? / all("freertos")?))
    });
    text
}
