//! An assertion that fails inside a coroutine ends the test program, although a panic there ends
//! the coroutine alone and nobody may have kept its handle: no such assertion fails unseen. A test
//! includes this file to have that; its panics on purpose say `on purpose`, or happen in
//! [`on_purpose`].

use std::cell::Cell;
use std::io::Write;
use std::panic::{self, PanicHookInfo};
use std::process;

/// What is called before `main`, as the platform's C library does it.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = watch;

extern "C" fn watch() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        usual(info);
        if corank::current().is_some() && !is_on_purpose(info) {
            // The usual message may go into a test's output, which nobody is shown any more.
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
