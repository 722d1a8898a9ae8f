//! Programs in user mode, and what the kernel does for them there.
//!
//! A thread's coroutine enters user mode and serves the trap at which that returns. A system call
//! starts threads, and a handler of user-level interrupts runs beside the call that it has
//! interrupted, as a thread does. A submission in a ring is a system call, too, and there are
//! system calls that serve the submissions of a ring. So these modules use each other.
//!
//! - `thread`: the coroutine of a thread;
//! - `syscall`: the system calls, those in rings included;
//! - `kernel_thread`: the second way to serve a call that waits;
//! - `upcall`: user-level interrupts.
mod kernel_thread;
mod syscall;
mod thread;
mod upcall;

pub(crate) use thread::start_main;
