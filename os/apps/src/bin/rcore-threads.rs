//! Threads with arguments; their exit codes come back.
#![no_std]
#![no_main]

#[path = "../rcore.rs"]
mod rcore;
use rcore::*;

use core::sync::atomic::{AtomicUsize, Ordering};

struct Argument {
    letter: char,
    code: i32,
}

static ARGUMENTS: [Argument; 3] = [
    Argument {
        letter: 'a',
        code: 1,
    },
    Argument {
        letter: 'b',
        code: 2,
    },
    Argument {
        letter: 'c',
        code: 3,
    },
];
static COUNT: AtomicUsize = AtomicUsize::new(0);

extern "C" fn run(index: usize) -> ! {
    let argument = &ARGUMENTS[index];
    for _ in 0..1000 {
        COUNT.fetch_add(argument.letter as usize, Ordering::Relaxed);
        if COUNT.load(Ordering::Relaxed).is_multiple_of(64) {
            yield_();
        }
    }
    assert_ne!(gettid(), 0);
    exit(argument.code)
}

/// Runs the test.
#[unsafe(no_mangle)]
fn main() -> i32 {
    assert_eq!(gettid(), 0);
    let threads = [0, 1, 2].map(|index| thread_create(run, index));
    for (argument, tid) in ARGUMENTS.iter().zip(threads) {
        assert!(tid > 0);
        assert_eq!(waittid(tid as usize), argument.code as isize);
    }
    assert_eq!(waittid(threads[0] as usize), -1, "it has been waited for");
    assert_eq!(
        COUNT.load(Ordering::Relaxed),
        1000 * ('a' as usize + 'b' as usize + 'c' as usize)
    );
    println!("threads passed!");
    0
}
