//! Programs for Corank's operating system.
//!
//! Each is one file, or one folder, in `src/bin`.
//!
//! | program | what it is |
//! |---|---|
//! | `hello`, `hello-async` | the first program, plain and with coroutines |
//! | `sh` | the shell |
//! | `tools` | small shell programs in one executable: `ls`, `cat`, `cp`, `ps`, `top` and others |
//! | `experiment-a`, `experiment-b` | the experiments of AsyncOS, section 3: coroutines against threads |
//! | `usertests` | tests of the whole system from a program's point of view |
//! | `rcore-…` | programs that use rCore-Tutorial-v3's interface alone, without this project's library |
//!
//! This library holds the code that several of them share.
#![no_std]

extern crate alloc;

pub mod experiment;
