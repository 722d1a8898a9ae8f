//! Makes a shared object of what cargo takes for a program.
fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let exports = format!("--version-script={here}/exports.map");
    let layout = format!("--script={here}/image.ld");
    let lists = format!("-L{here}");
    let arguments = [
        "-shared",
        "-soname=vdso.so",
        // The symbols are bound here: no other image defines any.
        "-Bsymbolic",
        "--no-undefined",
        "--gc-sections",
        "--hash-style=sysv",
        // Constants beside the code: each page costs a miss in the translation buffer.
        "--no-rosegment",
        "-zmax-page-size=4096",
        &exports,
        &layout,
        &lists,
    ];
    for argument in arguments {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    for file in ["exports.map", "image.ld", "hot.ld", "hot-constants.ld"] {
        println!("cargo:rerun-if-changed={file}");
    }
}
