//! Tests of `corank-scx`, as the first process of a machine that QEMU runs.
//!
//! The machine's time is the number of its instructions, so the figures do not depend on how fast
//! the host is. The last line of the output is `N passed, N failed`.

mod conductor;
mod machine;
mod role;
mod shared;

use anyhow::Result;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if rustix::process::getpid().is_init() {
        machine::prepare()?;
        if let Err(error) = conductor::run() {
            println!("FAIL {error:#}\n0 passed, 1 failed");
        }
        machine::end();
    }
    role::run(&arguments)
}
