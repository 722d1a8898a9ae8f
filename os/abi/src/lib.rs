//! What Corank's kernel and its programs agree on: system-call numbers, the pages they share, and
//! their layout.
//!
//! Kernel and user code meet only here. Everything is plain data with a C layout, so that a program
//! written in another language can use it as well. A value that one side may change while the other
//! reads it is atomic.
#![no_std]
#![forbid(unsafe_code)]

pub mod auxiliary;
pub mod call;
pub mod command_line;
pub mod console;
pub mod error;
pub mod exit_code;
pub mod file;
pub mod information;
mod kept;
pub mod net;
pub mod page;
pub mod rights;
pub mod ring;
pub mod upcall;
pub mod vdso;
