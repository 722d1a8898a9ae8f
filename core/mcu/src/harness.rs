//! Tests on the target: one line each, then `N passed, N failed`.

use core::cell::RefCell;

use corank::Priority;
use cortex_m_semihosting::{hprint, hprintln};
use critical_section::Mutex;

use crate::exit;

/// What did not hold, and on which line.
#[derive(Debug)]
pub struct Failure(pub &'static str, pub u32);

/// The result of a test.
pub type Result = core::result::Result<(), Failure>;

/// A test and its name.
pub type Test = (&'static str, fn() -> Result);

/// Ends the test with a failure unless the condition holds.
#[macro_export]
macro_rules! check {
    ($condition:expr) => {
        if !$condition {
            return Err($crate::harness::Failure(stringify!($condition), line!()));
        }
    };
}

/// Runs the tests, and ends QEMU with 0 if all pass and with 1 otherwise.
pub fn run(tests: &[Test]) -> ! {
    let mut failed = 0;
    for (name, test) in tests {
        hprint!("test {} ... ", name);
        match test() {
            Ok(()) => hprintln!("ok"),
            Err(Failure(what, line)) => {
                failed += 1;
                hprintln!("FAILED: line {}: {}", line, what);
            }
        }
    }
    hprintln!("{} passed, {} failed", tests.len() - failed, failed);
    exit(failed == 0)
}

/// Returns the priority of a level below 64.
#[must_use]
pub fn level(level: u8) -> Priority {
    match Priority::new(level) {
        Some(priority) => priority,
        None => panic!("{level} is no level"),
    }
}

/// What the coroutines of a test did, in order.
static LOG: Mutex<RefCell<Log>> = Mutex::new(RefCell::new(Log {
    text: [0; 64],
    length: 0,
}));

struct Log {
    text: [u8; 64],
    length: usize,
}

/// Adds to the log.
pub fn log(what: u8) {
    critical_section::with(|cs| {
        let mut log = LOG.borrow_ref_mut(cs);
        let length = log.length;
        log.text[length] = what;
        log.length += 1;
    });
}

/// Tests whether the log has exactly this content, and empties it.
#[must_use]
pub fn logged(expected: &[u8]) -> bool {
    critical_section::with(|cs| {
        let mut log = LOG.borrow_ref_mut(cs);
        let length = core::mem::take(&mut log.length);
        log.text[..length] == *expected
    })
}
