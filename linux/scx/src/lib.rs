#![doc = include_str!("../README.md")]

pub mod client;
pub mod page;
pub mod protocol;
