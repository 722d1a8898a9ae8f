//! Experiment `linux-machine`: an urgent process, 200 µs of work each millisecond, beside bulk
//! processes, on two processors.
//!
//! The models are measured in turn, run after run, each in short trials. The half of the trials
//! that lost least counts (see [`corank_report::trials`] and [`meter`]). Every process is a program
//! of its own (this one, started again), without privileges. It runs its work as coroutines of
//! 20 µs per poll. The models differ in what the processes know of each other and in what Linux
//! knows. One line per figure: `@row {json}`.
//!
//! - `off`: without a domain.
//! - `relaxed`, `strict`: all are in one domain.
//! - `nice`: the bulk processes are at nice 19.
//! - `cgroup`: the urgent process's group has 100 times the weight of the bulk processes'.
//!
//! A further measurement is the cost of the domain for a process that is alone in it, in
//! instructions of a yield.

mod alone;
mod bulk;
mod cgroup;
mod conductor;
mod meter;
mod urgent;
mod work;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};
use corank_domain::{ClassPolicy, Domain, Mode, Participant};
use std::path::{Path, PathBuf};

#[derive(Parser)]
struct Options {
    /// Fewer points and shorter runs
    #[arg(long)]
    quick: bool,
    /// Only these models
    #[arg(long, value_delimiter = ',')]
    models: Vec<Model>,
    /// Only the instructions of a yield
    #[arg(long)]
    alone: bool,
    /// Only this run, counted from 0, without the instructions of a yield
    #[arg(long, conflicts_with = "alone")]
    run: Option<u32>,
    /// Print the arguments of each part of the measurement, a line for each, and end
    #[arg(long)]
    parts: bool,
    /// Only these numbers of bulk threads
    #[arg(long, value_delimiter = ',')]
    bulk: Vec<usize>,
    /// What the domain's bulk processes tell Linux
    #[arg(long, value_enum, default_value_t = Told::Bulk)]
    told: Told,
    /// Leave the processes the privileges that there are
    #[arg(long)]
    privileged: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

/// What one process of the measurement does.
#[derive(Subcommand, Clone, Debug)]
#[command(hide = true)]
enum Role {
    /// 200 µs of work each millisecond
    Urgent(Part),
    /// As much work as there is time for
    Bulk(Part),
    /// Nothing but yields, which are counted
    Yields {
        #[command(flatten)]
        part: Part,
        #[arg(long)]
        executor: alone::Kind,
    },
}

/// What a process has to know.
#[derive(clap::Args, Clone, Debug)]
struct Part {
    #[arg(long)]
    model: Model,
    #[arg(long)]
    told: Told,
    /// The domain's folder
    #[arg(long)]
    root: PathBuf,
    /// Rounds of work that take 20 µs
    #[arg(long)]
    rounds: u64,
    #[arg(long, default_value_t = 1)]
    threads: usize,
    #[arg(long)]
    privileged: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Model {
    Off,
    Relaxed,
    Strict,
    Nice,
    Cgroup,
}

impl Model {
    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Relaxed => "relaxed",
            Self::Strict => "strict",
            Self::Nice => "nice",
            Self::Cgroup => "cgroup",
        }
    }
}

/// Information that the processes of a domain give Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Told {
    /// Nothing
    Silent,
    /// Their scheduling classes, as far as that can be undone
    Classes,
    /// Bulk processes: that they have nothing else
    Bulk,
    /// Urgent levels under SCHED_FIFO
    RealTime,
}

impl Told {
    fn name(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Classes => "classes",
            Self::Bulk => "bulk",
            Self::RealTime => "real-time",
        }
    }
}

impl Part {
    /// Joins the domain, if the model has one.
    fn join(&self, name: &str, is_bulk: bool) -> Result<Option<Participant>> {
        let mode = match self.model {
            Model::Relaxed => Mode::Relaxed,
            Model::Strict => Mode::Strict,
            _ => return Ok(None),
        };
        let class_policy = match self.told {
            Told::Silent => ClassPolicy::Silent,
            Told::Bulk if is_bulk => ClassPolicy::Bulk,
            Told::Bulk | Told::Classes => ClassPolicy::ByLevel,
            Told::RealTime => ClassPolicy::RealTime,
        };
        let domain = Domain::named("experiment").root(&self.root).process(name);
        Ok(Some(domain.mode(mode).class_policy(class_policy).join()?))
    }

    /// Drops all capabilities, so that the measurement holds for users without privileges.
    fn prepare(&self) -> Result<()> {
        if !self.privileged {
            let none = rustix::thread::CapabilitySet::empty();
            let nothing = rustix::thread::CapabilitySets {
                effective: none,
                permitted: none,
                inheritable: none,
            };
            rustix::thread::set_capabilities(None, nothing)?;
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    let options = Options::parse();
    match &options.role {
        Some(Role::Urgent(part)) => urgent::run(part),
        Some(Role::Bulk(part)) => bulk::run(part),
        Some(Role::Yields { part, executor }) => alone::run(part, *executor),
        None => conductor::run(&options),
    }
}

/// Creates the folder in which the processes of one measurement find each other.
fn own_folder() -> Result<tempfile::TempDir> {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    Ok(tempfile::Builder::new().permissions(mode).tempdir()?)
}

/// Returns the path of this program.
fn this_program() -> Result<PathBuf> {
    let path: &Path = Path::new("/proc/self/exe");
    Ok(path.canonicalize()?)
}
