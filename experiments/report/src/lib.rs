//! The results of the experiments: samples in; JSON documents, tables, figures and a page out.
//!
//! Nothing here measures anything. An experiment prints one line per run ([`row::Sample`]), the samples of one measured point
//! become a [`row::Row`], the rows of one run a [`document::Document`]. [`compare`] sets rows beside each other and beside the
//! figures of the [`papers`]; [`verdict`] says which of the project's targets they meet; [`page`] makes one HTML file of it all,
//! [`documentation`] what the repository's own pages say of it.
#![forbid(unsafe_code)]

pub mod chart;
pub mod compare;
pub mod document;
pub mod documentation;
mod edge;
mod firmware;
mod gateway;
mod global;
mod heat_map;
mod latency;
mod levels;
mod machine;
pub mod page;
pub mod papers;
pub mod row;
#[cfg(test)]
mod sample;
mod scheduler;
mod server;
pub mod table;
pub mod verdict;
