//! The one command line of the repository: see `cargo xtask --help`.
fn main() {}
