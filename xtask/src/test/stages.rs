//! The table of stages.

use super::outcome::Outcome;
use super::quick::Change;
use super::{
    Context, attack, command, cpp, edge, format, fuzz, gateway, http, image, language, layers,
    layout, loom, machine, miri, model, net, outside, publish, references, rust, sanitizer, scx,
    storage,
};
use crate::repository;
use anyhow::Result;
use std::time::Duration;

/// One stage of the tests.
pub(super) struct Stage {
    /// As in `--only`.
    pub(super) name: &'static str,
    /// What it tests, as its heading.
    pub(super) about: &'static str,
    /// The tests, without which the stage is left out.
    sources: Sources,
    /// The beginnings of the paths of what it depends on, from the repository's root.
    reads: &'static [&'static str],
    /// The time limit of each of its commands.
    pub(super) limit: Duration,
    /// Whether it may run while its neighbours do.
    ///
    /// It computes all the time, on one processor for the most part, and no limit of its tests is
    /// near.
    pub(super) beside_others: bool,
    pub(super) run: fn(&mut Context) -> Result<Outcome>,
}

/// The place of a stage's tests.
enum Sources {
    /// A file or folder of the repository.
    Path(&'static str),
    /// A search, which returns whether there are any.
    Search(fn() -> bool),
}

impl Stage {
    /// Tests whether there is anything to test.
    pub(super) fn has_sources(&self) -> bool {
        match self.sources {
            Sources::Path(path) => repository::path(path).exists(),
            Sources::Search(exists) => exists(),
        }
    }

    /// Tests whether the change touches what it depends on, or the stage itself.
    pub(super) fn is_touched_by(&self, change: &Change) -> bool {
        let own = format!("xtask/src/test/{}", self.name.replace("cpp-", "cpp/"));
        change.touches(self.reads) || change.touches(&[&own])
    }
}

const EVERYTHING: &[&str] = &[""];
/// The host's workspace.
const HOST: &[&str] = &[
    "Cargo.",
    "core/",
    "cpp/frames/",
    "experiments/",
    "linux/",
    "os/",
    "spec/",
    "xtask/",
];
const CORE: &[&str] = &["Cargo.", "core/", "spec/"];
const FUZZED: &[&str] = &[
    "core/conformance/",
    "core/src/",
    "fuzz/",
    "linux/recording/src/",
    "os/http/",
    "os/kernel/src/elf_loader.rs",
    "os/kernel/src/fs/",
    "spec/model/",
];
const CPP: &[&str] = &["cpp/", "spec/traces/", "xtask/src/cpp.rs"];
const EDGE: &[&str] = &["cpp/edge/", "cpp/include/", "cpp/CMake"];
const SYSTEM: &[&str] = &["core/src/", "os/", "xtask/src/os/"];
const NETWORK: &[&str] = &["core/src/", "experiments/clients/", "os/", "xtask/src/os/"];

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(minutes * 60)
}

/// All stages. Cheap ones that fail often come first.
pub(super) const STAGES: &[Stage] = &[
    Stage {
        name: "format",
        about: "rustfmt, clang-format, and the width of comments and documents",
        sources: Sources::Path("Cargo.toml"),
        reads: EVERYTHING,
        limit: minutes(2),
        beside_others: false,
        run: format::check,
    },
    Stage {
        name: "layers",
        about: "each crate's modules import what lies below them, as its `layers.txt` declares",
        sources: Sources::Path("xtask/layers.txt"),
        reads: EVERYTHING,
        limit: minutes(1),
        beside_others: false,
        run: layers::check,
    },
    Stage {
        name: "language",
        about: "terms that were retired (docs/retired-terms.txt) are not used again",
        sources: Sources::Path(language::TERMS),
        reads: EVERYTHING,
        limit: minutes(1),
        beside_others: false,
        run: language::check,
    },
    Stage {
        name: "references",
        about: "the files and the tests that documents name are there",
        sources: Sources::Path("README.md"),
        reads: EVERYTHING,
        limit: minutes(1),
        beside_others: false,
        run: references::check,
    },
    Stage {
        name: "lint",
        about: "clippy on the host's crates",
        sources: Sources::Path("Cargo.toml"),
        reads: HOST,
        limit: minutes(10),
        beside_others: false,
        run: rust::lint,
    },
    Stage {
        name: "host",
        about: "unit, integration and documentation tests, without privileges",
        sources: Sources::Path("Cargo.toml"),
        reads: HOST,
        limit: minutes(15),
        beside_others: false,
        run: rust::host,
    },
    Stage {
        name: "domain",
        about: "what processes that share priorities tell Linux, with the privileges that there are",
        sources: Sources::Path("linux/domain"),
        reads: &["core/src/", "linux/"],
        limit: minutes(5),
        beside_others: false,
        run: rust::privileged,
    },
    Stage {
        name: "features",
        about: "the core's tests without the standard library, with a heap and without",
        sources: Sources::Path("core/tests"),
        reads: CORE,
        limit: minutes(10),
        beside_others: true,
        run: rust::features,
    },
    Stage {
        name: "docs",
        about: "documentation without warnings",
        sources: Sources::Path("Cargo.toml"),
        reads: HOST,
        limit: minutes(10),
        beside_others: true,
        run: rust::docs,
    },
    Stage {
        name: "image",
        about: "the shared scheduler's image: conformance in the kernel, other images, other versions",
        sources: Sources::Path("os/vdso"),
        reads: SYSTEM,
        limit: minutes(5),
        beside_others: true,
        run: image::tests,
    },
    Stage {
        name: "loom",
        about: "all interleavings of the core's races, of the Linux runtime's, of the interrupts' flag and of a full ring, under loom",
        sources: Sources::Search(|| !loom::tests().is_empty()),
        reads: &["core/", "linux/", "os/account/", "os/abi/"],
        limit: minutes(15),
        beside_others: true,
        run: loom::test,
    },
    Stage {
        name: "fuzz",
        about: "kept and changed inputs of the fuzzers: core and model, recordings, FAT, ELF, HTTP",
        sources: Sources::Path("fuzz/corpus"),
        reads: FUZZED,
        limit: minutes(10),
        beside_others: true,
        run: fuzz::test,
    },
    Stage {
        name: "sanitizer",
        about: "the core's tests, with statistics, under AddressSanitizer, those of several threads under ThreadSanitizer",
        sources: Sources::Path("core/tests"),
        reads: CORE,
        limit: minutes(15),
        beside_others: true,
        run: sanitizer::test,
    },
    Stage {
        name: "os-lint",
        about: "clippy on the operating system, and its documentation",
        sources: Sources::Path("os/kernel"),
        reads: SYSTEM,
        limit: minutes(10),
        beside_others: true,
        run: rust::os_lint,
    },
    Stage {
        name: "miri",
        about: "the core's tests of hostile callers and of memory under Miri: both aliasing models, 64 bits and 32 big-endian",
        sources: Sources::Path("core/tests"),
        reads: CORE,
        limit: minutes(15),
        beside_others: true,
        run: miri::check,
    },
    Stage {
        name: "publish",
        about: "the published crates as a registry gets them, built with the oldest compiler that they promise",
        sources: Sources::Path("core/README.md"),
        reads: &["Cargo.", "core/", "linux/"],
        limit: minutes(10),
        beside_others: true,
        run: publish::check,
    },
    Stage {
        name: "scx",
        about: "the scheduler of Linux that reads pages of levels, in a kernel that QEMU runs",
        sources: Sources::Path(scx::FOLDER),
        reads: &["linux/scx/"],
        limit: minutes(5),
        beside_others: true,
        run: scx::test,
    },
    Stage {
        name: "edge",
        about: "the C++ interleaver: both compilers, sanitizers and optimised, x86-64 and AArch64",
        sources: Sources::Path("cpp/edge/tests"),
        reads: EDGE,
        limit: minutes(2),
        beside_others: true,
        run: edge::tests,
    },
    Stage {
        name: "cpp-host",
        about: "the C++ library on the host: both compilers, under Address-, UndefinedBehavior- and ThreadSanitizer",
        sources: Sources::Path("cpp/tests/unit"),
        reads: CPP,
        limit: minutes(3),
        beside_others: true,
        run: cpp::host,
    },
    Stage {
        name: "model",
        about: "the protocols of wakes and of interrupts, under spin; broken ones must fail",
        sources: Sources::Search(model::exist),
        reads: &["core/tests/", "spec/promela/"],
        limit: minutes(5),
        beside_others: true,
        run: model::check,
    },
    Stage {
        name: "cpp-negative",
        about: "C++ programs that must not compile, by their messages",
        sources: Sources::Path(cpp::NEGATIVE),
        reads: CPP,
        limit: minutes(1),
        beside_others: true,
        run: cpp::negative,
    },
    Stage {
        name: "cpp-device",
        about: "the C++ library on a Cortex-M4, a Cortex-M0 and RISC-V in QEMU, an interrupt at every instruction; no heap, no unwinder",
        sources: Sources::Path("cpp/tests/device"),
        reads: CPP,
        limit: minutes(2),
        beside_others: true,
        run: cpp::device,
    },
    Stage {
        name: "cpp-package",
        about: "the C++ library in projects outside the repository: installed, fetched, by pkg-config and Conan, by the template",
        sources: Sources::Path("cpp/tests/package"),
        reads: CPP,
        limit: minutes(2),
        beside_others: true,
        run: cpp::package,
    },
    Stage {
        name: "cpp-figures",
        about: "instructions per switch and sizes of the C++ library: within the targets, and as its page says",
        sources: Sources::Path("docs/cpp-mcu-size.md"),
        reads: CPP,
        limit: minutes(3),
        beside_others: true,
        run: cpp::figures,
    },
    Stage {
        name: "cortex-m4",
        about: "the heapless storage and corank-mcu on a Cortex-M4, a Cortex-M0 and 32-bit RISC-V, in QEMU; corank-mcu checked for six targets",
        sources: Sources::Path("core/mcu/src/bin/tests.rs"),
        reads: CORE,
        limit: minutes(5),
        beside_others: true,
        run: machine::cortex_m4,
    },
    Stage {
        name: "gateway",
        about: "the sensor gateway and its sensors: both compilers under sanitizers, any bytes as datagrams, real sockets, an MQTT broker",
        sources: Sources::Path(gateway::FOLDER),
        reads: EDGE,
        limit: minutes(2),
        beside_others: false,
        run: gateway::tests,
    },
    Stage {
        name: "usertests",
        about: "the operating system from inside, in QEMU, on one, two and four harts",
        sources: Sources::Path("os/apps/src/bin/usertests"),
        reads: SYSTEM,
        limit: minutes(6),
        beside_others: false,
        run: machine::usertests,
    },
    Stage {
        name: "layout",
        about: "the code of a step of experiment B lies in few pages",
        sources: Sources::Path(layout::SCRIPT),
        reads: SYSTEM,
        limit: minutes(5),
        beside_others: false,
        run: layout::test,
    },
    Stage {
        name: "programs",
        about: "programs in the operating system, by their output",
        sources: Sources::Path(machine::PROGRAM_TESTS),
        reads: SYSTEM,
        limit: minutes(5),
        beside_others: false,
        run: machine::programs,
    },
    Stage {
        name: "command",
        about: "`cargo xtask os` as a command: exit codes, violations, input and its end, signals",
        sources: Sources::Path("os/kernel"),
        reads: SYSTEM,
        limit: minutes(2),
        beside_others: false,
        run: command::test,
    },
    Stage {
        name: "storage",
        about: "the operating system's disk from both sides, and disks that fail",
        sources: Sources::Path("os/kernel/src/fs"),
        reads: SYSTEM,
        limit: minutes(3),
        beside_others: false,
        run: storage::test,
    },
    Stage {
        name: "net",
        about: "the operating system's network, with a program of this computer at the other end",
        sources: Sources::Path("os/kernel/src/net"),
        reads: NETWORK,
        limit: minutes(3),
        beside_others: false,
        run: net::test,
    },
    Stage {
        name: "http",
        about: "the operating system's web server, with curl, wrk and hostile clients of this computer",
        sources: Sources::Path("os/apps/src/bin/http-server"),
        reads: NETWORK,
        limit: minutes(4),
        beside_others: false,
        run: http::test,
    },
    Stage {
        name: "outside",
        about: "a C program built without this project, and ELF files that must be refused",
        sources: Sources::Path(outside::SOURCE),
        reads: SYSTEM,
        limit: minutes(3),
        beside_others: false,
        run: outside::test,
    },
    Stage {
        name: "attack",
        about: "two minutes of `cargo xtask attack`, with the same seeds each time",
        sources: Sources::Path("os/apps/src/bin/attacker"),
        reads: SYSTEM,
        limit: minutes(5),
        beside_others: false,
        run: attack::test,
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    #[test]
    fn names_are_unique_and_short() {
        for (at, stage) in STAGES.iter().enumerate() {
            assert!(
                STAGES[at + 1..]
                    .iter()
                    .all(|other| other.name != stage.name),
                "{} twice",
                stage.name
            );
            assert!(
                stage.name.len() <= 12,
                "{} does not fit its column",
                stage.name
            );
        }
    }

    #[test]
    fn what_a_stage_reads_is_there() {
        let files = process::answer("git", &["ls-files", "--full-name", ":/"]).unwrap();
        for stage in STAGES {
            for path in stage.reads {
                assert!(
                    files.lines().any(|file| file.starts_with(path)),
                    "{} reads {path}, where nothing lies",
                    stage.name
                );
            }
        }
    }
}
