//! Lines of the kernel itself.
use core::fmt::{self, Write};
use spin::Once;

static PRINTER: Once<fn(fmt::Arguments<'_>)> = Once::new();

/// Prints by this from now on.
pub(crate) fn print_by(printer: fn(fmt::Arguments<'_>)) {
    PRINTER.call_once(|| printer);
}

/// The printer until there is another one: OpenSBI.
struct Sbi;

impl Write for Sbi {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            sbi_rt::console_write_byte(byte);
        }
        Ok(())
    }
}

/// Prints formatted text; use [`println!`](crate::println).
pub(crate) fn print(arguments: fmt::Arguments<'_>) {
    match PRINTER.get() {
        Some(printer) => printer(arguments),
        // OpenSBI reports no failure.
        None => drop(Sbi.write_fmt(arguments)),
    }
}

/// Prints a line.
#[macro_export]
macro_rules! println {
    ($($argument:tt)*) => { $crate::print::print(format_args!("{}\n", format_args!($($argument)*))) };
}
