//! What the programs share.
#![no_std]

extern crate alloc;

pub mod experiment;
