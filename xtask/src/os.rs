//! `cargo xtask os`: builds the operating system, boots it in QEMU and runs one program.

pub(crate) mod boot;
pub(crate) mod build;
pub(crate) mod client;
pub(crate) mod disk;
pub(crate) mod input;
pub(crate) mod lan;
pub(crate) mod layout;
pub(crate) mod limits;
mod memory;
pub(crate) mod network;
mod programs;
mod quote;
pub(crate) mod scratch_disk;
mod transcript;
pub(crate) mod vdso;

use crate::progress::Progress;
use anyhow::{Result, bail};
use boot::{Boot, TimedOut};
use clap::Args;
use disk::Disk;
use input::Input;
use network::{Forward, Network};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// What `cargo xtask os` takes.
#[derive(Args)]
pub(crate) struct Options {
    /// Harts (hardware threads) of the machine
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8))]
    smp: u32,
    /// Memory of the machine, as QEMU takes it: a number of MiB, or with a unit
    #[arg(long, default_value = boot::DEFAULT_MEMORY)]
    memory: String,
    /// Adds an ELF file from outside to the programs of the system, under its file name, in place
    /// of the system's own of that name. May be given several times
    #[arg(long = "program", value_name = "ELF")]
    programs: Vec<PathBuf>,
    /// The machine's disk: a file with a FAT file system [default: os/target/disk.img, made if it
    /// is not there]
    #[arg(long, value_name = "FILE")]
    disk: Option<PathBuf>,
    /// Runs without a disk
    #[arg(long, conflicts_with = "disk")]
    no_disk: bool,
    /// Forwards a port of this computer to one of the machine, of TCP if nothing else is said; 0 is
    /// any that is free. May be given several times
    #[arg(long = "forward", value_name = "[tcp:|udp:]HOST:GUEST")]
    forwards: Vec<Forward>,
    /// Boots with this image of the shared scheduler instead of the one from os/vdso
    #[arg(long, value_name = "FILE")]
    vdso: Option<PathBuf>,
    /// Boots a kernel for tests, which lets programs ask for faults
    #[arg(long)]
    faults: bool,
    /// Ends the machine after so many seconds, with the exit code 124
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Counts instructions instead of time: each takes 2 to this power nanoseconds, so that runs
    /// can be repeated exactly. For one hart: with several, QEMU before 8.1 may stop for ever
    #[arg(long, value_name = "SHIFT", value_parser = clap::value_parser!(u8).range(0..=10))]
    count: Option<u8>,
    /// Counts instructions and prints the longest stretches of kernel work without a check for more
    /// urgent work
    #[arg(long)]
    stretches: bool,
    /// The program to run, and its arguments
    #[arg(last = true, required = true, value_names = ["APP", "ARGS"])]
    command: Vec<String>,
}

/// The exit code when the time limit is reached, the same as that of coreutils' `timeout`.
const TIMED_OUT: u8 = 124;

/// Boots the OS, passes the program's output through, and ends with its exit code.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    // This comes before the build, which takes long.
    programs::check(&options.programs)?;
    let disk = match &options.disk {
        _ if options.no_disk => None,
        None => Some(Disk::default()?),
        Some(image) if image.exists() => Some(Disk::of(image)),
        Some(image) => bail!("there is no disk {}", image.display()),
    };
    let mut progress = Progress::spinner("building the operating system");
    let faults = match options.faults {
        true => build::Faults::Present,
        false => build::Faults::Absent,
    };
    let vdso = options.vdso.as_deref();
    let image = build::build_with(faults, &options.programs, vdso, &mut progress);
    let kernel = options
        .stretches
        .then(|| build::kernel_with(build::STRETCH, &mut progress));
    progress.finish();
    let mut image = image?;
    if let Some(kernel) = kernel {
        image.kernel = kernel?;
    }
    memory::check(&options.memory, &image)?;
    let network = Network::with(&options.forwards)?;
    for (asked, chosen) in options.forwards.iter().zip(network.forwards()) {
        if asked.host == 0 {
            let (protocol, host) = (chosen.protocol.name(), chosen.host);
            eprintln!(
                "{protocol} port {host} of this computer leads to {}",
                chosen.guest
            );
        }
    }
    let boot = Boot {
        smp: options.smp,
        memory: options.memory.clone(),
        limit: options.timeout.map(Duration::from_secs),
        disk,
        network: Some(network),
        input: Input::Inherited,
        count: options.count.or(options.stretches.then_some(0)),
        command: options.command.clone(),
    };
    let mut screen = std::io::stdout().lock();
    let ended = boot.run(&image, |bytes| {
        // If this program's output is not read any more, the machine still runs to its end.
        let _ = screen.write_all(bytes).and_then(|()| screen.flush());
    });
    match ended {
        Ok(ended) => Ok(ExitCode::from(ended.code)),
        Err(error) if error.is::<TimedOut>() => {
            eprintln!("error: {error:#}");
            Ok(ExitCode::from(TIMED_OUT))
        }
        Err(error) => Err(error),
    }
}
