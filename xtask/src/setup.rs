//! Installing what is missing on this machine.
//!
//! Everything that is there already is left alone, so that the command costs little when nothing is missing, and `run` and
//! `test` begin with it. What can't be installed ends in one message with the command to type.

use crate::process;
use crate::toolchain::{self, BareMetal, DEBIAN_PACKAGES, Target};
use anyhow::{Context, Result, anyhow, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// How long rustup may take to reach its servers and fetch two targets.
const RUSTUP_SECONDS: &str = "180";

/// A program that some command needs, and the Debian package that brings it.
struct Tool {
    program: &'static str,
    package: &'static str,
    purpose: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool {
        program: "qemu-system-riscv64",
        package: "qemu-system-misc",
        purpose: "runs the operating system",
    },
    Tool {
        program: "qemu-system-arm",
        package: "qemu-system-arm",
        purpose: "runs the tests of the Cortex-M4",
    },
    Tool {
        program: "fsck.fat",
        package: "dosfstools",
        purpose: "checks what the operating system has written to its disk",
    },
    Tool {
        program: "mcopy",
        package: "mtools",
        purpose: "copies files to and from the operating system's disk",
    },
    Tool {
        program: "clang-19",
        package: "clang-19",
        purpose: "compiles programs from outside for the operating system",
    },
    Tool {
        program: "ld.lld-19",
        package: "lld-19",
        purpose: "links programs from outside for the operating system",
    },
    Tool {
        program: "spin",
        package: "spin",
        purpose: "checks the model of the wake-up protocol",
    },
    Tool {
        program: "gcc",
        package: "gcc",
        purpose: "compiles spin's verifier",
    },
    Tool {
        program: "g++",
        package: "g++",
        purpose: "compiles the tests of the C++ library",
    },
    Tool {
        program: "clang++-19",
        package: "clang-19",
        purpose: "compiles the tests of the C++ library",
    },
    Tool {
        program: "cmake",
        package: "cmake",
        purpose: "builds the C++ library's tests and firmware",
    },
    Tool {
        program: "ninja",
        package: "ninja-build",
        purpose: "builds the C++ library's tests and firmware",
    },
    Tool {
        program: "arm-none-eabi-g++",
        package: "gcc-arm-none-eabi",
        purpose: "compiles for the Cortex-M4",
    },
    Tool {
        program: "aarch64-linux-gnu-g++",
        package: "g++-aarch64-linux-gnu",
        purpose: "compiles the interleaver's tests for AArch64",
    },
    Tool {
        program: "qemu-aarch64",
        package: "qemu-user",
        purpose: "runs the interleaver's tests for AArch64",
    },
    Tool {
        program: "curl",
        package: "curl",
        purpose: "is a client of the operating system's web server",
    },
    Tool {
        program: "wrk",
        package: "wrk",
        purpose: "asks a web server for more than it can do",
    },
    Tool {
        program: "ip",
        package: "iproute2",
        purpose: "makes a network for the operating system and its clients",
    },
    Tool {
        program: "mosquitto",
        package: "mosquitto",
        purpose: "a broker for the tests of the sensor gateway",
    },
    Tool {
        program: "pkg-config",
        package: "pkg-config",
        purpose: "finds the libraries of the sensor gateway",
    },
    // spin hands its model to the C preprocessor under this name.
    Tool {
        program: "cpp",
        package: "cpp",
        purpose: "reads the model for spin",
    },
];

/// Files that compilers need, the Debian packages that bring them, and what they are for.
const FILES: &[(&str, &str, &str)] = &[
    (
        "/usr/include/stdio.h",
        "libc6-dev",
        "the C library's headers",
    ),
    (
        "/usr/include/gtest/gtest.h",
        "libgtest-dev",
        "tests the C++ library",
    ),
    (
        "/usr/src/googletest/googletest/CMakeLists.txt",
        "googletest",
        "tests the interleaver on AArch64",
    ),
    (
        "/usr/include/absl/container/btree_map.h",
        "libabsl-dev",
        "a B-tree that the interleaver's lookups are compared with",
    ),
    (
        "/usr/include/sodium.h",
        "libsodium-dev",
        "the gateway's authenticated datagrams",
    ),
    (
        "/usr/include/nlohmann/json.hpp",
        "nlohmann-json3-dev",
        "the gateway's weights and reports",
    ),
    (
        "/usr/include/kissfft/kiss_fftr.h",
        "libkissfft-dev",
        "the spectra of the gateway's sensors",
    ),
    (
        "/usr/include/toml++/toml.h",
        "libtomlplusplus-dev",
        "the gateway's configuration",
    ),
    (
        "/usr/include/prometheus/text_serializer.h",
        "prometheus-cpp-dev",
        "the gateway's metrics",
    ),
    (
        "/usr/include/mosquitto.h",
        "libmosquitto-dev",
        "the gateway's messages by MQTT",
    ),
    (
        "/usr/include/CLI/CLI.hpp",
        "libcli11-dev",
        "the command lines of the gateway and its sensors",
    ),
    (
        "/usr/include/newlib/stdint.h",
        "libnewlib-arm-none-eabi",
        "the C headers of the Cortex-M4",
    ),
    (
        "/usr/include/newlib/c++",
        "libstdc++-arm-none-eabi-newlib",
        "<coroutine> for the Cortex-M4",
    ),
    (
        "/usr/lib/llvm-19/lib/clang/19/include/sanitizer",
        "libclang-rt-19-dev",
        "clang's sanitizers",
    ),
];

/// Installs what is missing and says what it does.
pub(crate) fn run() -> Result<()> {
    let missing = missing_packages();
    let mut packages: Vec<&str> = missing.iter().map(|(package, _)| *package).collect();
    for (package, purpose) in &missing {
        println!("setup: {package} is missing: {purpose}");
    }
    rustup_components()?;
    if BareMetal::ready().is_none() && !rustup_targets() {
        println!(
            "setup: Debian's Rust compiler is needed, to build for machines without an operating system"
        );
        packages.extend(DEBIAN_PACKAGES);
    }
    if !packages.is_empty() {
        install(&packages)?;
    }
    verify()
}

/// The error for a program that is not on this machine: what to type, and the Debian package if we know it.
pub(crate) fn missing(program: &str) -> anyhow::Error {
    let package = TOOLS
        .iter()
        .find(|tool| tool.program == program)
        .map(|tool| tool.package);
    let package = package
        .map(|package| format!(" (Debian package {package})"))
        .unwrap_or_default();
    anyhow!("`{program}`{package} is missing on this machine; type: cargo xtask setup")
}

/// The packages whose programs are not there, each with what it is for.
fn missing_packages() -> Vec<(&'static str, &'static str)> {
    let mut missing: Vec<_> = TOOLS
        .iter()
        .filter(|tool| process::find(tool.program).is_none())
        .map(|tool| (tool.package, tool.purpose))
        .collect();
    let files = FILES.iter().filter(|(file, ..)| !Path::new(file).exists());
    missing.extend(files.map(|(_, package, purpose)| (*package, *purpose)));
    missing
}

/// Clippy and rustfmt come with rustup's default profile; a minimal one lacks them.
fn rustup_components() -> Result<()> {
    for (subcommand, component) in [("clippy", "clippy"), ("fmt", "rustfmt")] {
        if process::answer("cargo", &[subcommand, "--version"]).is_some() {
            continue;
        }
        println!("setup: rustup component add {component}");
        let added = Command::new("rustup")
            .args(["component", "add", component])
            .status();
        if !added.is_ok_and(|status| status.success()) {
            bail!("`cargo {subcommand}` is missing; type: rustup component add {component}");
        }
    }
    Ok(())
}

/// Lets rustup add the bare-metal targets; says whether they are there afterwards.
fn rustup_targets() -> bool {
    if toolchain::chosen() == Some(BareMetal::Debian) || process::find("rustup").is_none() {
        return false;
    }
    let triples = Target::ALL.map(Target::triple);
    println!("setup: rustup target add {}", triples.join(" "));
    // One attempt only: a machine without the servers should learn that quickly.
    let output = Command::new("timeout")
        .args([RUSTUP_SECONDS, "rustup", "target", "add"])
        .args(triples)
        .env("RUSTUP_MAX_RETRIES", "0")
        .stdin(Stdio::null())
        .output();
    let added =
        output.is_ok_and(|output| output.status.success()) && toolchain::rustup_has_targets();
    if !added {
        println!("setup: rustup can't fetch them here");
    }
    added
}

/// Installs Debian packages, or says what to type.
fn install(packages: &[&str]) -> Result<()> {
    let by_hand = format!(
        "apt-get update && apt-get install --no-install-recommends {}",
        packages.join(" ")
    );
    if process::find("apt-get").is_none() {
        bail!(
            "this is not a Debian system; install what these Debian packages contain: {}",
            packages.join(" ")
        );
    }
    let sudo = match privilege() {
        Privilege::Root => false,
        Privilege::Sudo => true,
        Privilege::None => bail!(
            "packages are missing, and installing them needs root; type: sudo sh -c '{by_hand}'"
        ),
    };
    let mut last = vec!["install", "--yes", "--no-install-recommends"];
    last.extend(packages);
    for arguments in [vec!["update"], last] {
        println!(
            "setup: apt-get {} (may take some minutes)",
            arguments.join(" ")
        );
        let mut command = Command::new(if sudo { "sudo" } else { "apt-get" });
        if sudo {
            command.args([
                "--non-interactive",
                "DEBIAN_FRONTEND=noninteractive",
                "apt-get",
            ]);
        }
        command
            .arg("--quiet=2")
            .args(&arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null());
        let output = command.output().context("can't start apt-get")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!(
                "apt-get failed:\n{}\nto try by hand, as root: {by_hand}",
                said.trim_end()
            );
        }
    }
    Ok(())
}

/// How packages can be installed here.
enum Privilege {
    Root,
    Sudo,
    None,
}

fn privilege() -> Privilege {
    if process::answer("id", &["-u"]).as_deref() == Some("0") {
        Privilege::Root
    } else if process::answer("sudo", &["--non-interactive", "true"]).is_some() {
        Privilege::Sudo
    } else {
        Privilege::None
    }
}

/// Looks again: a package may lack what we expect of it.
fn verify() -> Result<()> {
    if let Some((package, purpose)) = missing_packages().first() {
        bail!("{package} ({purpose}) is still missing after installation");
    }
    let Some(bare_metal) = BareMetal::ready() else {
        bail!(
            "no Rust toolchain for bare metal: rustup can't fetch the targets, and Debian's packages ({}) are missing or too \
             old; with access to rustup's servers type: rustup target add {}",
            DEBIAN_PACKAGES.join(" "),
            Target::ALL.map(Target::triple).join(" ")
        );
    };
    println!(
        "setup: everything is there (bare metal: {})",
        bare_metal.name()
    );
    Ok(())
}
