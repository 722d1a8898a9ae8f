//! The library of programs that run on Corank's operating system.
//!
//! A program names its main function with [`main!`] or, if it is asynchronous, with
//! [`async_main!`], is linked at 0x10000 by `program.ld`, and gets a heap, a console and a panic
//! message. Then there are two styles, which mix:
//!
//! - plain: blocking calls in [`io`], [`fs`], [`net`], [`process`], [`thread`], [`sync`], [`time`];
//! - coroutines: [`spawn`] and the rest of the crate [`corank`], with system calls in [`ring`] that
//!   suspend the coroutine alone.
//!
//! ```no_run
//! #![no_std]
//! #![no_main]
//! use corank_user::{Priority, println, spawn};
//!
//! corank_user::async_main!(main);
//!
//! async fn main() {
//!     let urgent = spawn(Priority::MOST_URGENT, async { println!("first") }).unwrap();
//!     urgent.await.unwrap();
//!     println!("second");
//! }
//! ```
#![no_std]

extern crate alloc;

pub mod calls;
pub mod console;
pub mod entry;
pub mod fs;
mod heap;
pub mod information;
pub mod interrupt;
pub mod io;
mod local;
mod lock;
pub mod net;
pub mod page;
pub mod process;
pub mod raw;
pub mod ring;
pub mod runtime;
pub mod sync;
pub mod thread;
pub mod time;
pub mod vdso;

pub use corank::{
    self, JoinError, JoinHandle, Policy, Priority, SpawnError, spawn, spawn_with, yield_now,
};
pub use entry::arguments;
pub use raw::Error;
pub use runtime::block_on;
