//! Replays the conformance traces through the shared scheduler's image, in a process.
#![no_std]
#![no_main]

use corank_user::println;

corank_user::main!(main);

fn main() -> i32 {
    let verdict = corank_conformance::verdict();
    println!("{verdict}");
    i32::from(!verdict.failures.is_empty() || verdict.passed == 0)
}
