//! How an experiment runs: which program, where, and how often.

use std::fmt;

/// The way in which an experiment is run.
///
/// The program `experiment-NAME` prints its rows: see [`Sample`](crate::row::Sample).
#[derive(Clone, Copy)]
pub enum Schedule {
    /// A binary of this package, on the host.
    Host(&'static str),
    /// A binary of this package, on the host, part after part.
    ///
    /// With `--parts` it prints the arguments of each part as a line. An interrupted run resumes at
    /// the unfinished part.
    HostParts(&'static str),
    /// A program of the operating system.
    ///
    /// The machine boots once for each part. The argument says whether the run is quick.
    System(fn(bool) -> Vec<Part>),
    /// A sequence of programs that `cargo xtask` knows.
    Driver(Driver),
}

/// A sequence of programs that no other way of running expresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// The firmware of each model that is measured for its instructions.
    McuSwitch,
    /// The firmware of each model that is measured for its bytes.
    McuSize,
    /// The interleaver's benchmark, built by each compiler.
    Edge,
    /// The gateway's benchmark, built by each compiler.
    Gateway,
    /// The TCP server in four models, and its client.
    TcpModels,
    /// The TCP server with levels, and its client.
    TcpPriority,
}

/// One boot of the machine.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// The program's arguments.
    pub arguments: Vec<String>,
    /// The number of rows that it prints.
    pub rows: u64,
    /// Harts of the machine.
    pub harts: u32,
    /// Whether it counts instructions, each of which takes a nanosecond.
    ///
    /// Then the host's speed does not matter.
    pub counts: bool,
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            arguments, harts, ..
        } = self;
        write!(formatter, "{} on {harts} harts", arguments.join(" "))
    }
}
