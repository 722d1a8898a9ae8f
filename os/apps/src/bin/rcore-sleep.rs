//! Sleeping lasts at least as long as asked, and the clock counts milliseconds.
#![no_std]
#![no_main]

#[path = "../rcore.rs"]
mod rcore;
use rcore::*;

/// Runs the test.
#[unsafe(no_mangle)]
fn main() -> i32 {
    let mut last = get_time();
    for milliseconds in [0, 1, 20, 100] {
        assert_eq!(sleep(milliseconds), 0);
        let now = get_time();
        // The clock's milliseconds are cut off: the first may have begun a moment before.
        assert!(
            now - last + 1 >= milliseconds as isize,
            "slept {} of {milliseconds} ms",
            now - last
        );
        last = now;
    }
    println!("sleep passed!");
    0
}
