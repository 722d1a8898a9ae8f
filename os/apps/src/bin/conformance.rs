//! Replays the conformance traces through the shared scheduler's image, in a process.
#![no_std]
#![no_main]

use corank_user::println;

corank_user::main!(main);

fn main() -> i32 {
    let report = corank_conformance::report();
    println!("{report}");
    i32::from(!report.succeeded())
}
