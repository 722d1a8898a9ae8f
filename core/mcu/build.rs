//! Puts the board's memory where the linker finds it as `memory.x`.

use std::path::PathBuf;
use std::{env, fs};

/// STM32F405, as QEMU's netduinoplus2 has it.
const CORTEX_M4: &str = "FLASH : ORIGIN = 0x08000000, LENGTH = 1024K
  RAM : ORIGIN = 0x20000000, LENGTH = 128K";

/// nRF51822, as QEMU's microbit has it.
const CORTEX_M0: &str = "FLASH : ORIGIN = 0x00000000, LENGTH = 256K
  RAM : ORIGIN = 0x20000000, LENGTH = 16K";

/// LM3S6965, as QEMU's lm3s6965evb has it, on which a Cortex-M0 may stand as well.
const LARGE_CORTEX_M0: &str = "FLASH : ORIGIN = 0x00000000, LENGTH = 256K
  RAM : ORIGIN = 0x20000000, LENGTH = 64K";

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let target = env::var("TARGET").expect("cargo sets TARGET");
    let memory = match target.as_str() {
        "thumbv6m-none-eabi" if env::var_os("CORANK_LARGE").is_some() => LARGE_CORTEX_M0,
        "thumbv6m-none-eabi" => CORTEX_M0,
        _ => CORTEX_M4,
    };
    let script = format!("MEMORY\n{{\n  {memory}\n}}\n");
    fs::write(out.join("memory.x"), script).expect("OUT_DIR is writable");
    println!("cargo:rustc-link-search={}", out.display());
    println!("cargo:rerun-if-env-changed=CORANK_LARGE");
    println!("cargo:rerun-if-changed=build.rs");
}
