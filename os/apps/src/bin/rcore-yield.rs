//! Processes take turns.
#![no_std]
#![no_main]

#[path = "../rcore.rs"]
mod rcore;
use rcore::*;

/// Runs the test.
#[unsafe(no_mangle)]
fn main() -> i32 {
    let pid = fork();
    for _ in 0..10 {
        assert_eq!(yield_(), 0);
    }
    if pid == 0 {
        return 0;
    }
    let mut code = 1;
    assert_eq!(waitpid(pid, &mut code), pid);
    assert_eq!(code, 0);
    println!("yield passed!");
    0
}
