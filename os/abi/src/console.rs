//! Control characters of the console's input: what is typed, and what a program of another computer
//! types for a file or a pipe.
//!
//! [`LITERAL`] makes the byte behind it an ordinary one: so any bytes can be passed on. All are
//! read by the kernel's console (`os/kernel/src/console.rs`) and written by `cargo xtask os`.

/// Ends the foreground group of processes (Ctrl-C). Ordinary while no group has the console.
pub const INTERRUPT: u8 = 3;
/// An end of the input (Ctrl-D): one read gives 0 bytes.
pub const END_OF_INPUT: u8 = 4;
/// Takes the last byte of the line back. Ordinary while no group has the console.
pub const BACKSPACE: u8 = 8;
/// The byte that follows is an ordinary one (Ctrl-V, `VLNEXT` of termios).
pub const LITERAL: u8 = 22;
/// No input will ever come any more (Ctrl-Y, ASCII's "end of medium"): from here on each read gives
/// 0 bytes.
pub const NO_MORE_INPUT: u8 = 25;
/// As [`BACKSPACE`].
pub const DELETE: u8 = 127;

/// Tests whether the console may take the byte for something else than itself.
#[must_use]
pub const fn is_control(byte: u8) -> bool {
    matches!(
        byte,
        INTERRUPT | END_OF_INPUT | BACKSPACE | b'\r' | LITERAL | NO_MORE_INPUT | DELETE
    )
}
