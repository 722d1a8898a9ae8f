//! The frame of experiments A and B: command line, repetition, processes, results.
//!
//! Each run happens in processes of its own, so that no run finds the heap of an earlier one warm.
//! The models of a comparison alternate within one boot, so that the ratio of their times means
//! something on a noisy machine.
pub mod model;
mod settings;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use corank_user::io::{OwnedFd, Pipe};
use corank_user::process::{self, Fork};
use corank_user::{println, time};

pub use settings::{Settings, Usage};

/// One experiment, for each model.
pub trait Experiment {
    /// Name of the experiment in the rows: `a` or `b`.
    const NAME: &'static str;
    /// Name of its own parameter, in the rows and as `--NAME` on the command line.
    const PARAMETER: &'static str;
    /// Values of that parameter if the command line names none.
    const DEFAULTS: &'static str;
    /// Tells whether the parameter is a number.
    const NUMERIC: bool;

    /// Runs it once with `n` tasks.
    ///
    /// It takes its own time, from before the first creation to after the last join, and checks
    /// what came out.
    ///
    /// # Errors
    /// The model or the parameter is unknown, or the result is wrong.
    fn run(model: &str, n: usize, parameter: &str) -> Result<Span, String>;
}

/// Time span in which something ran, in ticks of the `time` register.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Before the first task was created.
    pub start: u64,
    /// After the last one was joined.
    pub end: u64,
}

impl Span {
    fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.start) << 64 | u128::from(self.end)).to_le_bytes()
    }

    fn from_bytes(bytes: [u8; 16]) -> Self {
        let both = u128::from_le_bytes(bytes);
        Self {
            start: (both >> 64) as u64,
            end: both as u64,
        }
    }
}

/// Runs a program's whole main function.
///
/// It reads the command line, runs everything, and prints a row for each run.
#[must_use]
pub fn main<E: Experiment>() -> i32 {
    let settings = match Settings::from_arguments::<E>() {
        Ok(settings) => settings,
        Err(usage) => {
            println!("{usage}");
            return 2;
        }
    };
    for point in settings.points() {
        let value = match measure::<E>(&point) {
            Ok(value) => value,
            Err(error) => {
                println!("experiment {}: {point:?}: {error}", E::NAME);
                return 1;
            }
        };
        println!(
            "@row {}",
            Row::<E> {
                point,
                value,
                experiment: core::marker::PhantomData
            }
        );
    }
    0
}

/// One run of one model.
#[derive(Clone, Debug)]
pub struct Point {
    /// Name of the model.
    pub model: String,
    /// Number of tasks in each process.
    pub n: usize,
    /// Value of the experiment's own parameter.
    pub parameter: String,
    /// Number of processes that do the same at once.
    pub processes: usize,
    /// Number of the run, from 0.
    pub run: usize,
}

/// Runs `point` in its processes and returns the time in ticks.
///
/// The time goes from the first one's start to the last one's end.
fn measure<E: Experiment>(point: &Point) -> Result<u64, String> {
    let go = Pipe::new().map_err(message)?;
    let spans = Pipe::new().map_err(message)?;
    let mut children = Vec::new();
    for _ in 0..point.processes {
        match process::fork().map_err(message)? {
            Fork::Parent(pid) => children.push(pid),
            Fork::Child => {
                drop((go.writer, spans.reader));
                process::exit(run_child::<E>(point, go.reader, spans.writer));
            }
        }
    }
    drop((go.reader, spans.writer));
    // No process starts before all of them exist: the children wait for the end of this pipe.
    drop(go.writer);
    let mut bytes = Vec::with_capacity(point.processes * 16);
    spans.reader.fill(&mut bytes).map_err(message)?;
    for pid in children {
        let exited = process::wait(pid).map_err(message)?;
        if exited.code != 0 {
            return Err(alloc::format!(
                "process {pid} ended with code {}",
                exited.code
            ));
        }
    }
    let (spans, rest) = bytes.as_chunks::<16>();
    if spans.len() != point.processes || !rest.is_empty() {
        return Err(alloc::format!(
            "{} of {} processes told their times",
            spans.len(),
            point.processes
        ));
    }
    let spans = spans.iter().map(|bytes| Span::from_bytes(*bytes));
    let start = spans.clone().map(|span| span.start).min().unwrap_or(0);
    let end = spans.map(|span| span.end).max().unwrap_or(0);
    Ok(end - start)
}

fn run_child<E: Experiment>(point: &Point, go: OwnedFd, spans: OwnedFd) -> i32 {
    let mut nothing = [0];
    let started = go.read(&mut nothing).map_err(message);
    drop(go);
    match started.and_then(|_| E::run(&point.model, point.n, &point.parameter)) {
        Ok(span) => match spans.write(&span.to_bytes()) {
            Ok(16) => 0,
            _ => 1,
        },
        Err(error) => {
            println!("experiment {}: {error}", E::NAME);
            1
        }
    }
}

fn message(error: corank_user::Error) -> String {
    alloc::format!("{error}")
}

/// A row of the results, in JSON.
struct Row<E> {
    point: Point,
    /// In ticks.
    value: u64,
    experiment: core::marker::PhantomData<E>,
}

impl<E: Experiment> fmt::Display for Row<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Point {
            model,
            n,
            parameter,
            processes,
            run,
        } = &self.point;
        write!(
            f,
            r#"{{"experiment":"{}","model":"{model}","n":{n},"#,
            E::NAME
        )?;
        if E::NUMERIC {
            write!(f, r#""{}":{parameter},"#, E::PARAMETER)?;
        } else {
            write!(f, r#""{}":"{parameter}","#, E::PARAMETER)?;
        }
        let nanoseconds = time::duration(self.value).as_nanos();
        let (whole, tenths) = (nanoseconds / 1000, nanoseconds % 1000 / 100);
        write!(
            f,
            r#""processes":{processes},"run":{run},"metric":"time","unit":"us","value":{whole}.{tenths}}}"#
        )
    }
}
