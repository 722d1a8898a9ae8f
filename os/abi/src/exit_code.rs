//! Exit codes of processes that the kernel ends: the negative number of a signal, as in
//! rCore-Tutorial-v3.
//!
//! [`KILL`](crate::call::KILL) also gives the negative number of its signal.

/// The program touched, jumped to, or passed to the kernel an address that is not its own for this
/// use (signal 11).
pub const MEMORY_FAULT: i32 = -11;
/// The program executed an instruction that does not exist or is not for user mode (signal 4).
pub const ILLEGAL_INSTRUCTION: i32 = -4;
/// Any other exception, such as the breakpoint that compilers put where a program must not get to
/// (signal 6).
pub const ABORTED: i32 = -6;
/// It was ended on purpose: by signal 9, or by a test's [`FAULT`](crate::call::FAULT).
pub const KILLED: i32 = -9;
