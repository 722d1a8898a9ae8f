//! The scheduling contract (`spec/contract.md`) in executable form.
//!
//! - [`Model`] defines what must happen after any sequence of operations. It is meant to be read
//!   beside the contract: it uses linear searches and no tricks, and cites the rules by number.
//! - [`Trace`] is a small scene from `spec/traces/`: operations, and the order that they must lead
//!   to. [`Trace::parse`] reads one. [`record()`] makes one from any operations with the model's
//!   replies.
//! - [`Platform`] is the interface that an executor implements so that [`replay()`] can check it
//!   against a trace.
//!
//! The three make an oracle for property tests. [`record_numbers`] makes a trace of random numbers
//! and the model's replies, and [`replay()`] checks the real executor against it. A counterexample
//! prints as a trace file.
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
    Action, Answer, Demotion, Expected, Feature, Global, Names, Policy, PollLine, Question,
    Settings, Step, StepKind, Trace,
};
pub use traces::TRACES;
