//! Compiles the BPF program.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Compilers to try, the first that is there.
const COMPILERS: [&str; 3] = ["clang", "clang-19", "clang-18"];
const SOURCE: &str = "src/bpf/scheduler.bpf.c";

fn main() {
    println!("cargo::rerun-if-changed=src/bpf");
    println!("cargo::rerun-if-env-changed=CORANK_BPF_CLANG");
    let folder = env::var_os("OUT_DIR").expect("cargo sets it");
    let object = PathBuf::from(folder).join("scheduler.bpf.o");
    let chosen = env::var("CORANK_BPF_CLANG").ok();
    let mut compilers = chosen.iter().map(String::as_str).chain(COMPILERS);
    let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let Some(compiler) = compilers.find(is_there) else {
        // The program says so when it is run.
        fs::write(&object, b"").expect("OUT_DIR can be written");
        println!("cargo::warning=there is no clang, so corank-scx is built without its scheduler");
        return;
    };
    let headers = env::var("DEP_BPF_INCLUDE").expect("libbpf-sys sets it");
    let status = Command::new(compiler)
        .args([
            "-target",
            "bpf",
            "-mcpu=v3",
            "-O2",
            "-g",
            "-std=gnu11",
            "-Wall",
            "-Werror",
        ])
        .args(["-fno-builtin", "-I", &headers, "-c", SOURCE, "-o"])
        .arg(&object)
        .status()
        .expect("the compiler has been found");
    assert!(status.success(), "{compiler} does not compile {SOURCE}");
}
