//! Hands the linker the kernel's memory layout.
fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    println!("cargo:rustc-link-arg-bins=-T{here}/kernel.ld");
    println!("cargo:rustc-link-arg-bins=-L{here}");
    println!("cargo:rustc-link-arg-bins=--gc-sections");
    for file in ["kernel.ld", "hot.ld", "hot-constants.ld"] {
        println!("cargo:rerun-if-changed={file}");
    }
}
