//! Tells the linker where the program's parts lie.
fn main() {
    let directory = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let folder = format!("{directory}/../user");
    for file in ["program.ld", "hot.ld", "hot-constants.ld"] {
        println!("cargo:rerun-if-changed={folder}/{file}");
    }
    println!("cargo:rustc-link-arg-bins=-T{folder}/program.ld");
    println!("cargo:rustc-link-arg-bins=-L{folder}");
}
