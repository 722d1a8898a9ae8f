//! The results of the experiments: samples in; JSON documents, tables, figures and a page out.
//!
//! Nothing here measures anything. An experiment prints one line per run ([`row::Sample`]). The
//! samples of one measured point become a [`row::Row`], and the rows of one run a
//! [`document::Document`]. An [`experiment::Experiment`] says how it runs ([`schedule`]) and what
//! is shown of its results: figures, tables, targets ([`verdict`]) and what the repository's pages
//! say of them ([`passage`]). [`experiments`] lists them all, and [`page`] makes one HTML file of
//! all results.
//!
//! `layers.txt` beside `Cargo.toml` says which module may import which.
#![forbid(unsafe_code)]

mod chart;
pub mod document;
pub mod experiment;
pub mod experiments;
mod heat_map;
pub mod page;
mod papers;
pub mod passage;
pub mod row;
#[cfg(test)]
mod sample;
pub mod schedule;
pub mod table;
pub mod trials;
pub mod verdict;
