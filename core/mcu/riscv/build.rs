//! Puts the linker script where the linker finds it.

use std::path::PathBuf;
use std::{env, fs};

/// QEMU's `virt`, of whose memory a little is enough. The loader zeroes `.bss`.
const SCRIPT: &str = "ENTRY(_start)
MEMORY { RAM : ORIGIN = 0x80000000, LENGTH = 1M }
SECTIONS
{
  .text : { KEEP(*(.init)) *(.text .text.*) } > RAM
  .rodata : { *(.rodata .rodata.* .srodata .srodata.*) } > RAM
  .data : { *(.data .data.* .sdata .sdata.*) } > RAM
  .bss (NOLOAD) : { *(.bss .bss.* .sbss .sbss.* COMMON) } > RAM
  /DISCARD/ : { *(.eh_frame) }
}
_stack_start = ORIGIN(RAM) + LENGTH(RAM);
";

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("virt.x"), SCRIPT).expect("OUT_DIR is writable");
    println!("cargo:rustc-link-search={}", out.display());
    println!("cargo:rerun-if-changed=build.rs");
}
