//! The kernel of Corank's operating system, for 64-bit RISC-V with OpenSBI.
//!
//! The kernel is an asynchronous program. A hart has one stack, and all harts serve one executor of
//! the `corank` core. Everything the kernel does is a coroutine of it. A thread of a program is a
//! coroutine that enters user mode by an ordinary function call and then serves the trap at which
//! that call returns ([`trap::run_user`]). A system call is an `async fn`: it is done at once, or
//! it leaves the thread's coroutine pending, without a stack of its own. Switching between threads
//! is one pick of the executor. (COPS, sections 3.2 and 3.3; AsyncOS, section 2.3.2.)
#![no_std]
#![no_main]

extern crate alloc;

mod boot;
mod clock;
#[cfg(feature = "conformance")]
mod conformance;
mod console;
mod device;
mod elf_loader;
mod executor;
mod failure;
mod fault;
mod file;
mod fs;
mod group;
mod hart;
mod lock;
mod machine;
mod memory;
mod net;
mod pace;
mod pending_read;
mod power;
mod print;
mod process;
mod programs;
mod ring;
mod semaphore;
mod stretch;
mod trap;
mod user;
mod vdso;
mod wait;
