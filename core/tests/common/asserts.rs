//! Ends the test program when an assertion fails inside a coroutine.
//!
//! A panic there would end the coroutine alone, and no test may have kept its handle. With this, no
//! such assertion fails unseen. A test includes this file to have that. Its panics on purpose say
//! `on purpose`, or happen in [`on_purpose`].

use std::cell::Cell;
use std::io::Write;
use std::panic::{self, PanicHookInfo};
use std::process;

/// The function that the platform's C library calls before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = watch;

extern "C" fn watch() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        usual(info);
        if corank::current().is_some() && !is_on_purpose(info) {
            // The usual message may go into a test's output, which is not shown any more.
            let message = format!("{info}\nin a coroutine: so this program of tests ends\n");
            let _ = std::io::stderr().write_all(message.as_bytes());
            process::abort();
        }
    }));
}

thread_local! {
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Runs coroutines that panic, on this thread, with messages that are not the test's.
#[allow(dead_code, reason = "not every test has such coroutines")]
pub(crate) fn on_purpose<R>(act: impl FnOnce() -> R) -> R {
    EXPECTED.set(true);
    let result = act();
    EXPECTED.set(false);
    result
}

fn is_on_purpose(info: &PanicHookInfo<'_>) -> bool {
    if EXPECTED.get() {
        return true;
    }
    let payload = info.payload();
    let text = (payload.downcast_ref::<&str>().copied())
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.is_some_and(|text| text.contains("on purpose"))
}
