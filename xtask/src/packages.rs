//! The Debian packages that the commands need.

use anyhow::anyhow;

/// A program that some command needs, and the Debian package that contains it.
pub(crate) struct Tool {
    pub(crate) program: &'static str,
    pub(crate) package: &'static str,
    pub(crate) purpose: &'static str,
}

/// The programs that some command needs.
pub(crate) const TOOLS: &[Tool] = &[
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
        program: "qemu-system-x86_64",
        package: "qemu-system-x86",
        purpose: "runs Linux with a scheduler of its own",
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
        purpose: "compiles programs from outside for the operating system, and for BPF",
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
        program: "make",
        package: "make",
        purpose: "builds the library that loads the kernel's scheduler",
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
        program: "clang-format-19",
        package: "clang-format-19",
        purpose: "checks how the C++ library's sources look",
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
        program: "riscv64-unknown-elf-g++",
        package: "gcc-riscv64-unknown-elf",
        purpose: "compiles for 32-bit RISC-V",
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
    Tool {
        program: "redis-server",
        package: "redis-server",
        purpose: "answers a client in the runtime that hosts tokio",
    },
    // spin passes its model to the C preprocessor under this name.
    Tool {
        program: "cpp",
        package: "cpp",
        purpose: "reads the model for spin",
    },
];

/// Files that compilers need, the Debian packages that contain them, and what they are for.
pub(crate) const FILES: &[(&str, &str, &str)] = &[
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
        "/usr/include/sqlite3.h",
        "libsqlite3-dev",
        "a database in the runtime that hosts tokio",
    ),
    (
        "/usr/include/libelf.h",
        "libelf-dev",
        "loads programs into Linux",
    ),
    (
        "/usr/include/zlib.h",
        "zlib1g-dev",
        "loads programs into Linux",
    ),
    (
        "/usr/lib/postgresql",
        "postgresql",
        "a database server for the runtime that hosts tokio",
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

/// Returns the error for a program that is not on this machine.
///
/// It has what to type, and the Debian package if that is known.
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
