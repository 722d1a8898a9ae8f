//! The scenes, and what must come of them.

use crate::role::{URGENT, spin};
use crate::shared::{Cell, PROCESSES, Shared, now, percentile};
use anyhow::{Context, Result, ensure};
use libbpf_rs::query::ProgInfoIter;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const MILLISECOND: u64 = 1_000_000;
/// The users of the scenes: all levels, none, and the levels from 40 on.
const USER: u32 = 1000;
const STRANGER: u32 = 1001;
const LATE_USER: u32 = 1002;

/// A process to start: its role and options, and its user.
type Start<'a> = (&'a str, u32);

struct Tests {
    shared: &'static Shared,
    /// The rounds of `spin` in a microsecond.
    rounds: u64,
    passed: u64,
    failed: u64,
}

/// The figures of one scene.
#[derive(Debug)]
struct Figures {
    /// Chunks of each process.
    chunks: Vec<u64>,
    joined: Vec<u64>,
    urgent: u64,
    missed: u64,
    /// In microseconds.
    p50: u64,
    p99: u64,
    /// In microseconds in a second of the machine's time.
    inversion: u64,
}

/// The daemon.
struct Daemon(Child);

/// Runs everything, and prints the sum.
pub(crate) fn run() -> Result<()> {
    fs::create_dir_all("/etc/corank")?;
    let config = format!("user 0 0-63\nuser {USER} 0-63\nuser {LATE_USER} 40-63\n");
    fs::write("/etc/corank/scx.conf", config)?;
    let mut tests = Tests {
        shared: Shared::open(true)?,
        rounds: speed(),
        passed: 0,
        failed: 0,
    };
    let version = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let rounds = tests.rounds;
    println!(
        "# Linux {}, {rounds} rounds in a microsecond",
        version.trim()
    );
    tests.all()?;
    println!("{} passed, {} failed", tests.passed, tests.failed);
    Ok(())
}

/// Returns the rounds of `spin` in a microsecond of the machine's time.
fn speed() -> u64 {
    const ROUNDS: u64 = 4_000_000;
    spin(ROUNDS / 8);
    let begin = now();
    spin(ROUNDS);
    ROUNDS * 1000 / (now() - begin)
}

impl Tests {
    fn all(&mut self) -> Result<()> {
        let mixed = [("mixed", USER); 4];
        let eevdf = self.scene("mixed under EEVDF", &mixed, 1000, || Ok(()))?;
        let idle = self.scene("one mixed process under EEVDF", &mixed[..1], 300, || Ok(()))?;
        let shares = [("stranger", STRANGER), ("stranger", STRANGER)];
        let capacity = self.scene("two strangers under EEVDF", &shares, 200, || Ok(()))?;
        let capacity = capacity.chunks.iter().sum::<u64>() * 5;

        let daemon = Daemon::start(&[])?;
        self.check("the kernel schedules by the program", enabled()?);
        let kernel = self.scene("mixed under corank-scx", &mixed, 1000, || Ok(()))?;
        self.check(
            "every process has its page, and a board that it cannot write",
            kernel.joined == [1; 4],
        );
        self.mixed(&eevdf, &kernel, &idle);
        self.costs(&mixed)?;
        self.shares(capacity)?;
        drop(daemon);
        self.ends()?;
        self.watchdog()
    }

    /// Compares processes with urgent and bulk work, under the kernel's scheduler and this one.
    fn mixed(&mut self, eevdf: &Figures, kernel: &Figures, idle: &Figures) {
        let (before, after) = (eevdf.inversion, kernel.inversion);
        self.check_that("inversion is at most a tenth", after * 10 <= before, || {
            format!("{after} of {before}")
        });
        println!(
            "# level 0's median: {} us, {} under EEVDF",
            kernel.p50, eevdf.p50
        );
        let (p99, alone) = (kernel.p99, idle.p99);
        self.check_that(
            "level 0's p99 is at most 1.5 times that of an idle machine",
            p99 * 2 <= alone * 3,
            || format!("{p99} of {alone}"),
        );
        self.check_that(
            "hardly an urgent period is missed",
            kernel.missed <= 4,
            || format!("{} of {}", kernel.missed, kernel.urgent),
        );
        self.check_that(
            "level 0's p99 is a fourth of EEVDF's",
            p99 * 4 <= eevdf.p99,
            || format!("{p99} of {}", eevdf.p99),
        );
        let bulk = |figures: &Figures| figures.chunks.iter().sum::<u64>();
        // What EEVDF did not serve of the urgent work it had for bulk.
        let unserved = eevdf.missed * URGENT.1 / 100_000;
        let (did, could) = (bulk(kernel), bulk(eevdf).saturating_sub(unserved));
        // This machine takes ten times as long for a switch as a real one.
        self.check_that("bulk keeps seven tenths", did * 10 >= could * 7, || {
            format!("{did} of {could}")
        });
        let least = kernel.chunks.iter().min().copied().unwrap_or(0);
        let most = kernel.chunks.iter().max().copied().unwrap_or(0);
        self.check_that("equals share", least * 15 >= most * 10, || {
            format!("{:?}", kernel.chunks)
        });
    }

    /// Tests what processes get that want more than they should have.
    fn shares(&mut self, capacity: u64) -> Result<()> {
        let stranger = ("stranger", STRANGER);
        let beside = |other| [stranger, other];
        // Milliseconds of a scene, and what a fair half of it is.
        const LENGTH: u64 = 1000;
        let half = capacity * LENGTH / 1000 / 2;
        let fair = |got: u64| got * 12 >= half * 10;

        let nice = self.scene(
            "nice 0 and nice 10",
            &[stranger, ("nice", STRANGER)],
            500,
            || Ok(()),
        )?;
        let ratio = nice.chunks[0] / nice.chunks[1].max(1);
        self.check_that("nice keeps its weight", (5..=15).contains(&ratio), || {
            ratio.to_string()
        });

        let claims = self.scene(
            "level 0 for ever",
            &beside(("claim 0", USER)),
            LENGTH,
            || Ok(()),
        )?;
        self.check_that(
            "level 0 for ever hurts no stranger",
            fair(claims.chunks[0]),
            || format!("{:?}, half is {half}", claims.chunks),
        );
        let masked = beside(("claim 0", LATE_USER));
        let masked = self.scene("level 0 granted from 40 on", &masked, 300, || Ok(()))?;
        let share = masked.chunks[1] * 100 / masked.chunks.iter().sum::<u64>();
        self.check_that(
            "a level is masked by the grant",
            (2..20).contains(&share),
            || format!("{share} %"),
        );
        let refused = beside(("claim 0", STRANGER));
        let refused = self.scene("level 0 without a grant", &refused, 300, || Ok(()))?;
        self.check("a user without a grant is refused", refused.joined[1] == 2);
        let even = refused.chunks[1] * 100 / refused.chunks[0].max(1);
        self.check_that("it has its fair share", (80..=125).contains(&even), || {
            format!("{even} %")
        });
        let nonsense = beside(("nonsense", USER));
        let nonsense = self.scene("a page of nonsense", &nonsense, LENGTH, || Ok(()))?;
        self.check_that(
            "nonsense hurts no stranger",
            fair(nonsense.chunks[0]),
            || format!("{:?}, half is {half}", nonsense.chunks),
        );
        let late = [("claim 0", USER), ("claim 0", USER), ("claim 63", USER)];
        let late = self.scene("level 63 beside level 0", &late, 500, || Ok(()))?;
        let share = late.chunks[2] * 1000 / late.chunks.iter().sum::<u64>();
        self.check_that("the least urgent has its part", share >= 25, || {
            format!("{share} of 1000")
        });
        let threads = [("threads", USER), stranger, stranger, stranger];
        let threads = self.scene("a thread of each level", &threads, 500, || Ok(()))?;
        self.check_that("a thread's own level counts", threads.missed <= 1, || {
            format!("{} missed", threads.missed)
        });
        let share = threads.chunks[0] * 100 / threads.chunks.iter().sum::<u64>();
        self.check_that("its neighbour has none of it", share < 15, || {
            format!("{share} %")
        });
        let mut bomb = vec![("threads", USER)];
        bomb.extend([stranger; 30]);
        let bomb = self.scene("thirty strangers", &bomb, 500, || Ok(()))?;
        let (with, without) = (bomb.p99, threads.p99);
        self.check_that(
            "many processes delay nothing urgent",
            with * 10 <= without * 15,
            || format!("{with} of {without}"),
        );
        self.check("the kernel still schedules by the program", enabled()?);
        Ok(())
    }

    /// Kills the daemon and processes at some moments.
    fn ends(&mut self) -> Result<()> {
        for after in [50_000, 101_300, 77_777] {
            let mut daemon = Daemon::start(&[])?;
            let mut took = 0;
            let name = format!("the daemon is killed after {after} us");
            let mixed = [("mixed", USER); 3];
            let figures = self.scene(&name, &mixed, 300, || {
                thread::sleep(Duration::from_micros(after));
                daemon.0.kill()?;
                let killed = now();
                while enabled()? {
                    thread::sleep(Duration::from_micros(500));
                }
                took = (now() - killed) / 1000;
                daemon.0.wait()?;
                Ok(())
            })?;
            let due = 3 * 300 * MILLISECOND / URGENT.0;
            let served = figures.urgent + figures.missed;
            self.check_that(&name, took <= 100_000, || format!("EEVDF after {took} us"));
            self.check_that("nothing is lost", served + 12 >= due, || {
                format!("{served} of {due} periods, {:?}", figures.chunks)
            });
        }
        let daemon = Daemon::start(&[])?;
        let mixed = [("mixed", USER); 3];
        let figures = self.scene("a process is killed", &mixed, 300, || {
            thread::sleep(Duration::from_millis(100));
            // The children are the only processes of this user.
            let status = kill_one_of(USER)?;
            ensure!(status, "there is none");
            Ok(())
        })?;
        self.check_that(
            "the others go on",
            figures.chunks.iter().all(|&chunks| chunks > 0),
            || format!("{:?}", figures.chunks),
        );
        self.check("the scheduler goes on", enabled()?);
        drop(daemon);
        Ok(())
    }

    /// Lets the scheduler forget a thread, until the kernel notices.
    fn watchdog(&mut self) -> Result<()> {
        let mut daemon = None;
        let mut status: Option<ExitStatus> = None;
        let shared = self.shared;
        let stranger = [("stranger", STRANGER)];
        let name = "a scheduler that forgets a thread";
        let figures = self.scene(name, &stranger, 12_000, || {
            let process = process_of(STRANGER)?.context("there is no stranger")?;
            let forget = process.to_string();
            let daemon = daemon.insert(Daemon::start(&["--forget", &forget])?);
            let begin = now();
            while enabled()? && now() < begin + 11_000 * MILLISECOND {
                thread::sleep(Duration::from_millis(20));
            }
            status = Some(daemon.0.wait()?);
            let forgotten = shared.cells[0].chunks.load(Ordering::Relaxed);
            thread::sleep(Duration::from_millis(100));
            let after = shared.cells[0].chunks.load(Ordering::Relaxed);
            shared.stop.store(now(), Ordering::Relaxed);
            ensure!(after > forgotten, "the thread does not go on");
            Ok(())
        });
        self.check_that("the thread goes on", figures.is_ok(), || {
            format!("{figures:?}")
        });
        self.check("the kernel's watchdog ends the scheduler", !enabled()?);
        let said = fs::read_to_string(LOG)?;
        let failed = status.is_some_and(|status| !status.success());
        self.check_that(
            "the daemon ends with the reason",
            failed && said.contains("stall"),
            || said.clone(),
        );
        Ok(())
    }

    /// Counts what the scheduler's functions cost, in instructions of the machine.
    fn costs(&mut self, mixed: &[Start<'_>]) -> Result<()> {
        const FIGURES: &str = "/proc/sys/kernel/bpf_stats_enabled";
        fs::write(FIGURES, "1")?;
        self.scene("mixed, counted", mixed, 200, || Ok(()))?;
        fs::write(FIGURES, "0")?;
        let mut costs = Vec::new();
        for program in ProgInfoIter::default() {
            let name = program.name.to_string_lossy().into_owned();
            let runs = program.run_cnt.max(1);
            // Two nanoseconds an instruction.
            costs.push((name, program.run_time_ns / runs / 2, program.run_cnt));
        }
        for (name, instructions, runs) in &costs {
            println!("# {name}: {instructions} instructions, {runs} times");
        }
        for (name, limit) in [("enqueue", 1600), ("dispatch", 2000)] {
            let cost = costs.iter().find(|cost| cost.0 == name);
            let cost = cost.map_or(u64::MAX, |cost| cost.1);
            let holds = cost <= limit;
            let about = format!("{name} takes at most {limit} instructions");
            self.check_that(&about, holds, || cost.to_string());
        }
        Ok(())
    }

    /// Runs processes for some milliseconds, and `meanwhile` beside them.
    fn scene(
        &self,
        name: &str,
        starts: &[Start<'_>],
        milliseconds: u64,
        meanwhile: impl FnOnce() -> Result<()>,
    ) -> Result<Figures> {
        ensure!(starts.len() <= PROCESSES, "too many processes");
        let shared = self.shared;
        shared.clear();
        let cells = &shared.cells[..starts.len()];
        let mut children = Vec::new();
        for (index, (role, user)) in starts.iter().enumerate() {
            let mut words = role.split(' ');
            let mut role = words.next().unwrap_or_default();
            let mut command = Command::new("/init");
            if role == "nice" {
                role = "stranger";
                // SAFETY: one system call, which is allowed between fork and exec.
                unsafe {
                    command.pre_exec(|| {
                        libc::setpriority(libc::PRIO_PROCESS, 0, 10);
                        Ok(())
                    });
                }
            }
            command.args([role, &index.to_string(), &self.rounds.to_string()]);
            children.push(command.args(words).uid(*user).gid(*user).spawn()?);
        }
        let is_ready = |cell: &Cell| cell.is_ready.load(Ordering::Acquire) == 1;
        let given_up = now() + 5000 * MILLISECOND;
        while !cells.iter().all(is_ready) {
            ensure!(now() < given_up, "{name}: the processes do not begin");
            thread::sleep(Duration::from_millis(1));
        }
        let start = now() + 5 * MILLISECOND;
        let stop = start + milliseconds * MILLISECOND;
        shared.stop.store(stop, Ordering::Relaxed);
        shared.start.store(start, Ordering::Release);
        thread::sleep(Duration::from_nanos(start.saturating_sub(now())));
        meanwhile().with_context(|| name.to_string())?;
        for child in &mut children {
            child.wait()?;
        }
        let sum = |counter: fn(&Cell) -> &AtomicU64| -> u64 {
            let counters = cells.iter().map(counter);
            counters
                .map(|counter| counter.load(Ordering::Relaxed))
                .sum()
        };
        let each = |counter: fn(&Cell) -> &AtomicU64| -> Vec<u64> {
            let counters = cells.iter().map(counter);
            counters
                .map(|counter| counter.load(Ordering::Relaxed))
                .collect()
        };
        let figures = Figures {
            chunks: each(|cell| &cell.chunks),
            joined: each(|cell| &cell.joined),
            urgent: sum(|cell| &cell.urgent),
            missed: sum(|cell| &cell.missed),
            p50: percentile(cells, 500),
            p99: percentile(cells, 990),
            inversion: sum(|cell| &cell.inversion) / milliseconds,
        };
        println!("# {name}: {figures:?}");
        Ok(figures)
    }

    fn check(&mut self, name: &str, holds: bool) {
        self.check_that(name, holds, String::new);
    }

    fn check_that(&mut self, name: &str, holds: bool, figures: impl Fn() -> String) {
        if holds {
            self.passed += 1;
            println!("ok   {name}: {}", figures());
        } else {
            self.failed += 1;
            println!("FAIL {name}: {}", figures());
        }
    }
}

/// What the daemon prints.
const LOG: &str = "/run/daemon";

impl Daemon {
    /// Starts the daemon, and waits until the kernel schedules by it.
    fn start(options: &[&str]) -> Result<Self> {
        let log = File::create(LOG)?;
        let mut child = Command::new("/corank-scx")
            .arg("run")
            .args(options)
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .context("the daemon cannot be started")?;
        let said = || fs::read_to_string(LOG).unwrap_or_default();
        while !said().contains("schedules") {
            if child.try_wait()?.is_some() {
                anyhow::bail!("the daemon has ended: {}", said());
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(Self(child))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
        while enabled().unwrap_or(false) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Tests whether the kernel schedules by a program.
fn enabled() -> Result<bool> {
    let state = fs::read_to_string("/sys/kernel/sched_ext/state")
        .context("this kernel has no sched_ext")?;
    Ok(state.trim() != "disabled")
}

/// Returns the first process of a user.
fn process_of(user: u32) -> Result<Option<i32>> {
    use std::os::unix::fs::MetadataExt;
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(process) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if entry
            .metadata()
            .is_ok_and(|metadata| metadata.uid() == user)
        {
            return Ok(Some(process));
        }
    }
    Ok(None)
}

fn kill_one_of(user: u32) -> Result<bool> {
    let Some(process) = process_of(user)?.and_then(rustix::process::Pid::from_raw) else {
        return Ok(false);
    };
    rustix::process::kill_process(process, rustix::process::Signal::KILL)?;
    Ok(true)
}
