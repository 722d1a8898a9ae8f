//! The scheduling contract (`spec/contract.md`) in executable form.
//!
//! - [`Model`] says what must happen after any sequence of operations. It is written to be read
//!   beside the contract, with linear searches and no cleverness, and cites the rules by number.
//! - [`Trace`] is a small scene from `spec/traces/`: operations, and the order that they must lead
//!   to. [`Trace::parse`] reads one, [`record()`] makes one from any operations by asking the
//!   model.
//! - [`Platform`] is what a place that runs coroutines implements so that [`replay()`] can check it
//!   against a trace.
//!
//! An oracle for property tests follows from the three: take random numbers, let [`record_numbers`]
//! make a trace of them with what the model answers, [`replay()`] it on the real thing. A
//! counterexample prints as a trace file.
//!
//! ```
//! use corank_model::{Model, Trace, replay};
//!
//! let text = "corank-trace 1\nname urgent-first\nrules O1\nspawn A 9\nspawn B 3\nrun B\n  finish\nrun A\n  finish\nidle\n";
//! let trace = Trace::parse("example.trace", text).unwrap();
//! let report = replay(&trace, &mut Model::default()).unwrap();
//! assert_eq!(report.polls, 2);
//! ```
//!
//! The crate needs `alloc` but no operating system, so that a kernel or a firmware can replay the
//! traces on itself.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod model;
mod op;
mod parse;
mod record;
mod replay;
mod trace;
mod traces;
mod write;

pub use model::{Model, Outcome, State};
pub use op::{Id, Op, Reply};
pub use parse::ParseError;
pub use record::{record, record_numbers};
pub use replay::{Failure, Platform, Report, Script, Stepped, replay};
pub use trace::{
    Action, Answer, Expected, Feature, Global, Names, Policy, PollLine, Question, Settings, Step,
    StepKind, Trace,
};
pub use traces::TRACES;
