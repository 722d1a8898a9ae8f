//! The choice of the compiler for machines without an operating system.
//!
//! If rustup's servers can be reached, rustup's own toolchain and its ready-made targets are used.
//! Otherwise Debian's `rustc-web` builds the standard library from the sources in `rust-web-src`.

use crate::process;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// Debian's compiler and what it needs to build the standard library for bare metal.
pub(crate) const DEBIAN_PACKAGES: &[&str] = &[
    "rustc-web",
    "cargo-web",
    "rust-web-src",
    "rust-web-clippy",
    "lld-19",
];

/// The oldest of Debian's compilers that builds this repository, as (major, minor).
///
/// It has edition 2024 and the APIs in use.
const OLDEST: (u32, u32) = (1, 90);

/// The environment variable that overrides the choice, by `rustup` or `debian`.
const OVERRIDE: &str = "CORANK_BARE_METAL";

/// A machine without an operating system, as a target of builds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// RISC-V, 64 bits: the operating system.
    RiscV,
    /// Cortex-M4 with a floating-point unit that stays unused.
    CortexM4,
    /// Cortex-M0, whose atomics only load and store.
    CortexM0,
    /// Cortex-M3.
    CortexM3,
    /// Cortex-M33, without the floating-point unit.
    CortexM33,
    /// RISC-V, 32 bits, without atomics.
    RiscV32Imc,
    /// RISC-V, 32 bits.
    RiscV32Imac,
}

impl Target {
    pub(crate) const ALL: [Target; 7] = [
        Target::RiscV,
        Target::CortexM4,
        Target::CortexM0,
        Target::CortexM3,
        Target::CortexM33,
        Target::RiscV32Imc,
        Target::RiscV32Imac,
    ];

    /// Returns the compiler's name of the target.
    pub(crate) fn triple(self) -> &'static str {
        match self {
            Target::RiscV => "riscv64gc-unknown-none-elf",
            Target::CortexM4 => "thumbv7em-none-eabi",
            Target::CortexM0 => "thumbv6m-none-eabi",
            Target::CortexM3 => "thumbv7m-none-eabi",
            Target::CortexM33 => "thumbv8m.main-none-eabi",
            Target::RiscV32Imc => "riscv32imc-unknown-none-elf",
            Target::RiscV32Imac => "riscv32imac-unknown-none-elf",
        }
    }

    /// Returns the parts of the standard library to build if they are not ready-made.
    fn standard_library(self) -> &'static str {
        match self {
            Target::RiscV => "core,alloc,compiler_builtins",
            // `traces` has a heap.
            _ => "core,alloc,compiler_builtins",
        }
    }
}

/// A toolchain that builds for bare metal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BareMetal {
    /// The toolchain that runs this command line, with targets that rustup installed.
    Rustup,
    /// Debian's compiler, with the standard library built from source.
    Debian,
}

impl BareMetal {
    /// Returns the toolchain that is ready to use on this machine, if any: rustup's before
    /// Debian's.
    pub(crate) fn ready() -> Option<Self> {
        let chosen = chosen();
        if chosen != Some(BareMetal::Debian) && rustup_has_targets() {
            Some(BareMetal::Rustup)
        } else if chosen != Some(BareMetal::Rustup) && debian_is_complete() {
            Some(BareMetal::Debian)
        } else {
            None
        }
    }

    /// Returns the toolchain as [`ready`](Self::ready) does, or an error that says what to type.
    pub(crate) fn require() -> Result<Self> {
        match Self::ready() {
            Some(toolchain) => Ok(toolchain),
            None => bail!(
                "no Rust toolchain for bare metal on this machine; `cargo xtask setup` installs one"
            ),
        }
    }

    /// Returns its compiler's version, such as `1.96.0`.
    ///
    /// # Errors
    /// When the compiler does not say it.
    pub(crate) fn compiler(self) -> Result<String> {
        let rustc = match self {
            BareMetal::Rustup => "rustc",
            BareMetal::Debian => "/usr/bin/rustc",
        };
        let answer = process::answer(rustc, &["--version"]).unwrap_or_default();
        let version = answer.split_whitespace().nth(1).map(str::to_string);
        version.with_context(|| format!("`{rustc} --version` names no version"))
    }

    /// Returns `cargo SUBCOMMAND` for `target`.
    ///
    /// The caller adds folder and arguments.
    pub(crate) fn cargo(self, target: Target, subcommand: &str) -> Command {
        let mut command = match self {
            BareMetal::Rustup => host_cargo(),
            BareMetal::Debian => {
                let mut command = Command::new("/usr/bin/cargo");
                command
                    .env_remove("RUSTUP_TOOLCHAIN")
                    .env("RUSTC", "/usr/bin/rustc")
                    .env("RUSTDOC", "/usr/bin/rustdoc")
                    .env("RUSTC_BOOTSTRAP", "1") // build-std is not stable yet
                    .env("PATH", path_with_usr_bin_first());
                command
            }
        };
        let name = target.triple().to_uppercase().replace(['-', '.'], "_");
        command.env(format!("CARGO_TARGET_{name}_LINKER"), self.linker());
        command.arg(subcommand).args(["--target", target.triple()]);
        if self == BareMetal::Debian {
            command.arg(format!("-Zbuild-std={}", target.standard_library()));
            // This adds `memcpy` and the like, because there is no C library to take them from.
            command.arg("-Zbuild-std-features=compiler-builtins-mem");
        }
        command
    }

    /// Returns the linker that comes with this toolchain.
    ///
    /// It overrides the one in a workspace's own configuration.
    fn linker(self) -> &'static str {
        match self {
            BareMetal::Rustup => "rust-lld",
            BareMetal::Debian => "ld.lld-19",
        }
    }

    /// Returns the toolchain's name for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            BareMetal::Rustup => "rustup's toolchain",
            BareMetal::Debian => "Debian's rustc-web",
        }
    }
}

/// Returns cargo of the toolchain that runs this command line.
pub(crate) fn host_cargo() -> Command {
    Command::new("cargo")
}

/// Returns the choice that the user made by the environment, if any.
pub(crate) fn chosen() -> Option<BareMetal> {
    match std::env::var(OVERRIDE).ok()?.as_str() {
        "rustup" => Some(BareMetal::Rustup),
        "debian" => Some(BareMetal::Debian),
        _ => None,
    }
}

/// Tests whether rustup has installed all targets for the toolchain in use.
pub(crate) fn rustup_has_targets() -> bool {
    let installed =
        process::answer("rustup", &["target", "list", "--installed"]).unwrap_or_default();
    Target::ALL
        .iter()
        .all(|target| installed.lines().any(|line| line.trim() == target.triple()))
}

/// Tests whether Debian's compiler, its lints, its sources and the linker are there, and new
/// enough.
pub(crate) fn debian_is_complete() -> bool {
    let version = process::answer("/usr/bin/rustc", &["--version"]).unwrap_or_default();
    minor_version(&version).is_some_and(|version| version >= OLDEST)
        && Path::new("/usr/bin/cargo").exists()
        && Path::new("/usr/bin/cargo-clippy").exists()
        && Path::new("/usr/lib/rustlib/src/rust/library/core").exists()
        && process::find("ld.lld-19").is_some()
}

/// Parses major and minor version from `rustc 1.96.0 (…)`.
fn minor_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split_whitespace().nth(1)?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Returns a search path with `/usr/bin` first.
///
/// `cargo clippy` finds its driver beside `cargo-clippy` on the path, so rustup's proxies must not
/// come first.
fn path_with_usr_bin_first() -> String {
    format!("/usr/bin:{}", std::env::var("PATH").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(
            minor_version("rustc 1.96.0 (30a34c682 2026-05-25) (built from a source tarball)"),
            Some((1, 96))
        );
        assert_eq!(minor_version(""), None);
        assert!(minor_version("rustc 1.85.0").unwrap() < OLDEST);
    }

    #[test]
    fn debians_cargo_builds_the_standard_library() {
        let command = BareMetal::Debian.cargo(Target::CortexM4, "build");
        assert_eq!(
            process::describe(&command),
            "/usr/bin/cargo build --target thumbv7em-none-eabi -Zbuild-std=core,alloc,compiler_builtins \
             -Zbuild-std-features=compiler-builtins-mem"
        );
        let linker = command
            .get_envs()
            .find(|(name, _)| *name == "CARGO_TARGET_THUMBV7EM_NONE_EABI_LINKER");
        assert_eq!(linker.unwrap().1.unwrap(), "ld.lld-19");
    }
}
