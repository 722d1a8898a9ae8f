//! `cargo xtask attack`: does what an attacker would do, for a chosen time.
//!
//! The attacks are a table of kinds. A kind is a sequence of short runs. A seed determines each
//! run, as far as the attacked program allows that. A run with a finding prints it, and the command
//! that repeats it. Kinds run side by side, and share the time equally.

mod calls;
mod domain;
mod frames;
mod gateway;
mod machine;
mod memory;
mod programs;
mod time;
mod volumes;

use crate::cpp;
use crate::os::build::{self, Image};
use crate::progress::Progress;
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// What `cargo xtask attack` takes.
#[derive(Args)]
#[command(after_help = help())]
pub(crate) struct Options {
    /// Attacks for so many minutes in all
    #[arg(long, value_name = "N", default_value_t = 2.0)]
    minutes: f64,
    /// Ends after so many runs of each kind, however long they take
    #[arg(long, value_name = "N", conflicts_with = "minutes")]
    runs: Option<u64>,
    /// The seed of the first run of each kind; each further run has the next one [default: the
    /// time]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Runs this kind alone; may be given several times
    #[arg(long, value_name = "KIND")]
    only: Vec<String>,
}

/// One kind of attack.
struct Attack {
    /// As in `--only`.
    name: &'static str,
    /// What it does, and to which program.
    about: &'static str,
    /// Does one run with a seed.
    ///
    /// An error is a finding.
    run: fn(&Targets, u64) -> Result<()>,
}

/// The kind with a program in C++.
const GATEWAY: &str = "gateway";
/// The kind that runs a test of `corank-domain`.
const DOMAIN: &str = "domain";

/// All kinds.
const ATTACKS: &[Attack] = &[
    Attack {
        name: "calls",
        about: "programs of the operating system: random calls, damaged rings and pages, beside an urgent process",
        run: calls::run,
    },
    Attack {
        name: "memory",
        about: "programs of the operating system: every kind of object, in every order, until memory has run out",
        run: memory::run,
    },
    Attack {
        name: "time",
        about: "programs of the operating system: calls that take long, beside a process that must go on within 1 ms",
        run: time::run,
    },
    Attack {
        name: "volumes",
        about: "damaged file systems as the operating system's disk",
        run: volumes::run,
    },
    Attack {
        name: "programs",
        about: "damaged ELF files as programs of the operating system",
        run: programs::run,
    },
    Attack {
        name: "frames",
        about: "damaged Ethernet, ARP, IP, ICMP, UDP and TCP frames, beside a good client that must be served",
        run: frames::run,
    },
    Attack {
        name: GATEWAY,
        about: "a hostile MQTT broker, HTTP clients, senders of datagrams and changing files against the sensor gateway",
        run: gateway::run,
    },
    Attack {
        name: DOMAIN,
        about: "hostile members of a Linux priority domain: damaged pages, handshakes and doorbells",
        run: domain::run,
    },
];

/// Returns the end of the command's help.
fn help() -> String {
    let kinds: String = ATTACKS
        .iter()
        .map(|attack| format!("  {:<10} {}\n", attack.name, attack.about))
        .collect();
    format!(
        "Kinds:\n{kinds}\nA finding is printed with the command that repeats it. The exit code is 1 if there is any."
    )
}

/// The programs that are attacked.
pub(crate) struct Targets {
    /// The operating system as users get it: without injected faults.
    image: Image,
    /// The program with the gateway's hostile peers, if the gateway is attacked.
    gateway: Option<PathBuf>,
}

impl Targets {
    /// Builds what all kinds need.
    ///
    /// # Errors
    /// When something does not compile.
    pub(crate) fn build(progress: &mut Progress) -> Result<Self> {
        Self::build_for(&ATTACKS.iter().collect::<Vec<_>>(), progress)
    }

    /// Builds what these kinds need.
    fn build_for(kinds: &[&Attack], progress: &mut Progress) -> Result<Self> {
        let gateway = match kinds.iter().any(|attack| attack.name == GATEWAY) {
            true => {
                let (preset, target) = gateway::TARGET;
                let folder = cpp::build(preset, target, progress)?;
                Some(folder.join("edge/gateway/tests").join(target))
            }
            false => None,
        };
        if kinds.iter().any(|attack| attack.name == DOMAIN) {
            domain::build(progress)?;
        }
        Ok(Self {
            image: build::build(&[], None, progress)?,
            gateway,
        })
    }
}

/// The amount of attacks.
#[derive(Clone, Copy)]
pub(crate) enum Amount {
    /// The time in all.
    ///
    /// A run that has begun by then is finished. Each kind runs once at least.
    Time(Duration),
    /// The number of runs of each kind.
    Runs(u64),
}

/// The results of the runs of a kind that have ended.
#[derive(Clone, Default)]
pub(crate) struct Score {
    pub(crate) name: &'static str,
    pub(crate) runs: u64,
    pub(crate) findings: u64,
    took: Duration,
    /// The number of unfinished runs.
    under_way: u64,
}

/// Runs the attacks and shows what they found.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let kinds = chosen(&options.only)?;
    let amount = match options.runs {
        Some(runs) => Amount::Runs(runs),
        None => {
            let seconds = options.minutes * 60.0;
            Amount::Time(Duration::try_from_secs_f64(seconds).context("--minutes is no time")?)
        }
    };
    let seed = options.seed.unwrap_or_else(seed_of_now);
    let mut progress = Progress::spinner("building what is attacked");
    let targets = Targets::build_for(&kinds, &mut progress);
    progress.finish();
    let progress = Progress::spinner("attack");
    println!("the first seed is {seed}");
    let scores = run_kinds(&targets?, &kinds, amount, seed, &progress);
    progress.finish();
    for score in &scores {
        println!(
            "{:<10} {:>6} runs {:>8.1} s {:>4} findings",
            score.name,
            score.runs,
            score.took.as_secs_f64(),
            score.findings
        );
    }
    let findings: u64 = scores.iter().map(|score| score.findings).sum();
    Ok(match findings {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// The seed of the first run of each kind in the tests.
///
/// It is fixed, so that a run fails there only because of a change. `cargo xtask attack` tries
/// other seeds.
const SEED_OF_TESTS: u64 = 1;

/// Runs all kinds of attack for this long, for the tests.
///
/// Findings are printed.
pub(crate) fn all(targets: &Targets, time: Duration, progress: &Progress) -> Vec<Score> {
    let kinds: Vec<&Attack> = ATTACKS.iter().collect();
    run_kinds(targets, &kinds, Amount::Time(time), SEED_OF_TESTS, progress)
}

/// Returns a seed that no earlier run had: the time.
fn seed_of_now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

/// Returns the kinds that were asked for.
fn chosen(only: &[String]) -> Result<Vec<&'static Attack>> {
    for name in only {
        if !ATTACKS.iter().any(|attack| attack.name == name) {
            let names: Vec<&str> = ATTACKS.iter().map(|attack| attack.name).collect();
            bail!("there is no kind `{name}`; there are {}", names.join(", "));
        }
    }
    let wanted = |attack: &&Attack| only.is_empty() || only.iter().any(|name| name == attack.name);
    let kinds: Vec<&Attack> = ATTACKS.iter().filter(wanted).collect();
    ensure!(!kinds.is_empty(), "there is nothing to attack with");
    Ok(kinds)
}

/// Runs these kinds, with as many runs at a time as the machine has processors.
fn run_kinds(
    targets: &Targets,
    kinds: &[&Attack],
    amount: Amount,
    seed: u64,
    progress: &Progress,
) -> Vec<Score> {
    let score = |attack: &&Attack| Score {
        name: attack.name,
        ..Score::default()
    };
    let scores = Mutex::new(kinds.iter().map(score).collect::<Vec<_>>());
    let lock = || scores.lock().expect("no thread panics with it");
    let begun = Instant::now();
    let worker = || {
        let mut progress = progress.clone();
        loop {
            let Some((at, number)) = next(&mut lock(), amount, begun.elapsed()) else {
                return;
            };
            let attack = kinds[at];
            let seed = seed.wrapping_add(number);
            progress.say(&format!("{} {seed}", attack.name));
            let start = Instant::now();
            let result = (attack.run)(targets, seed);
            let mut scores = lock();
            scores[at].under_way -= 1;
            scores[at].took += start.elapsed();
            if let Err(finding) = result {
                scores[at].findings += 1;
                progress.interrupt(|| print!("{}", describe(attack, seed, &finding)));
            }
        }
    };
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(worker);
        }
    });
    scores.into_inner().expect("no thread panicked")
}

/// Describes a finding, with the command that repeats it.
fn describe(attack: &Attack, seed: u64, finding: &anyhow::Error) -> String {
    let name = attack.name;
    format!(
        "FINDING of {name} with seed {seed}: {finding:#}\n\
         it is repeated by: cargo xtask attack --only {name} --seed {seed} --runs 1\n"
    )
}

/// Returns the kind to run next, and the number of its earlier runs.
///
/// It is the one with the least time among the kinds that are not finished. Its next run counts as
/// begun.
fn next(scores: &mut [Score], amount: Amount, elapsed: Duration) -> Option<(usize, u64)> {
    let open = |score: &Score| match amount {
        Amount::Time(time) => score.runs == 0 || elapsed < time,
        Amount::Runs(runs) => score.runs < runs,
    };
    // An unfinished run counts as much as the average of earlier runs, and one second at first.
    let spent = |score: &Score| {
        let done = score.runs - score.under_way;
        let each = match u32::try_from(done) {
            Ok(0) | Err(_) => Duration::from_secs(1),
            Ok(done) => score.took / done,
        };
        score.took + each * u32::try_from(score.under_way).unwrap_or(u32::MAX)
    };
    let (at, score) = scores
        .iter_mut()
        .enumerate()
        .filter(|(_, score)| open(score))
        .min_by_key(|(_, score)| spent(score))?;
    let number = score.runs;
    score.runs += 1;
    score.under_way += 1;
    Some((at, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(names: &[&'static str]) -> Vec<Score> {
        let score = |name: &&'static str| Score {
            name,
            ..Score::default()
        };
        names.iter().map(score).collect()
    }

    #[test]
    fn kinds_share_the_time() {
        let mut scores = scores(&["quick", "slow"]);
        let mut order = Vec::new();
        for _ in 0..22 {
            let amount = Amount::Time(Duration::from_secs(100));
            let (at, number) = next(&mut scores, amount, Duration::ZERO).unwrap();
            order.push(number);
            scores[at].took += Duration::from_secs([1, 10][at]);
            scores[at].under_way -= 1;
        }
        assert_eq!((scores[0].runs, scores[1].runs), (20, 2));
    }

    #[test]
    fn each_kind_runs_at_least_once_and_no_more_when_the_time_is_over() {
        let mut scores = scores(&["first", "second"]);
        let amount = Amount::Time(Duration::from_secs(1));
        let late = Duration::from_secs(2);
        assert_eq!(next(&mut scores, amount, late), Some((0, 0)));
        assert_eq!(next(&mut scores, amount, late), Some((1, 0)));
        assert_eq!(next(&mut scores, amount, late), None);
    }

    #[test]
    fn the_number_of_runs_is_the_one_requested() {
        let mut scores = scores(&["only"]);
        let amount = Amount::Runs(2);
        let numbers = [(); 3].map(|()| next(&mut scores, amount, Duration::MAX));
        assert_eq!(numbers, [Some((0, 0)), Some((0, 1)), None]);
    }

    #[test]
    fn a_finding_is_printed_with_what_repeats_it() {
        let attack = &ATTACKS[0];
        let text = describe(attack, 17, &anyhow::anyhow!("a panic"));
        let command = format!(
            "cargo xtask attack --only {} --seed 17 --runs 1",
            attack.name
        );
        assert!(
            text.contains("a panic") && text.contains(&command),
            "{text}"
        );
    }

    #[test]
    fn an_unknown_kind_is_an_error() {
        let error = chosen(&["nonsense".to_string()]).err().unwrap();
        assert!(error.to_string().starts_with("there is no kind `nonsense`"));
        assert_eq!(chosen(&[]).unwrap().len(), ATTACKS.len());
    }
}
