//! Participants are killed and stopped at random points, and the others go on. No time is measured.
//! A participant that does not go on ends the test after a time beyond all bounds.
//!
//! `CORANK_FAULTS=N` makes N faults of each kind; `CORANK_SEED` repeats a run's random numbers, as
//! far as timing allows.

#![cfg(not(loom))]

mod steps;

use corank::{Config, Executor, Priority, Published, Step, yield_now};
use corank_domain::{ClassPolicy, Domain, Participant, Worker};
use std::cell::Cell;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);
const ROOT: &str = "CORANK_TEST_ROOT";

fn join(root: &Path) -> Participant {
    let domain = Domain::named("faults")
        .root(root)
        .class_policy(ClassPolicy::Silent);
    domain.tick(Duration::from_millis(1)).join().unwrap()
}

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

/// The process that is killed or stopped is this test as a program of its own.
///
/// The variable distinguishes it from the test.
#[test]
fn an_urgent_process_ends_with_its_input() {
    if let Some(root) = std::env::var_os(ROOT) {
        be_urgent(Path::new(&root));
    }
    beside_bulk(|root, participant, bulk, _| {
        let mut victim = Victim::start(root);
        bulk.goes_on("a process that lives");
        drop(victim.child.stdin.take());
        assert!(victim.child.wait().unwrap().success());
        no_participant_is_left(participant);
    });
}

/// Runs as many urgent workers as there are processors, until the input ends.
///
/// Now and then they are idle, and their level changes.
fn be_urgent(root: &Path) -> ! {
    let participant = join(root);
    let began = Instant::now();
    while participant.others() == 0 && began.elapsed() < LONG {
        thread::sleep(Duration::from_micros(100));
    }
    let processors = thread::available_parallelism().unwrap().get();
    for _ in 0..processors {
        let participant = participant.clone();
        thread::spawn(move || urgent_worker(&participant));
    }
    println!("\nready");
    std::io::stdout().flush().unwrap();
    // No such process outlives the test.
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    std::process::exit(0);
}

fn urgent_worker(participant: &Participant) {
    let published: &'static Published = participant.publish().unwrap();
    let executor = Executor::with(Config::new().publish_to(published));
    let worker = participant.worker(published).unwrap();
    for round in (0..160).cycle() {
        let urgent = executor.spawn(level(round % 10), async {
            for _ in 0..50 {
                yield_now().await;
            }
        });
        drop(urgent);
        run(&executor, &worker);
        if round % 16 == 0 {
            thread::sleep(Duration::from_micros(50));
        }
    }
}

fn run(executor: &Executor, worker: &Worker) {
    loop {
        match executor.run_under(worker).0 {
            Step::Idle => return worker.idle(),
            Step::Elsewhere => drop(worker.step_aside(Duration::from_secs(5))),
            Step::Ran => {}
        }
    }
}

struct Victim {
    child: Child,
}

impl Victim {
    fn start(root: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "an_urgent_process_ends_with_its_input",
                "--nocapture",
            ])
            .env(ROOT, root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = child.stdout.take().unwrap();
        let ready = BufReader::new(output)
            .lines()
            .any(|line| line.unwrap() == "ready");
        assert!(ready, "the victim ended before it began");
        Self { child }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bulk work in this process, which counts what it has done.
struct Bulk {
    done: AtomicU64,
    stop: AtomicBool,
}

impl Bulk {
    fn work(&self, participant: &Participant) {
        let published: &'static Published = participant.publish().unwrap();
        let executor = Executor::with(Config::new().publish_to(published));
        let worker = participant.worker(published).unwrap();
        let ended = Rc::new(Cell::new(0));
        let mut spawned = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let count = ended.clone();
            let one = async move {
                yield_now().await;
                count.set(count.get() + 1);
            };
            executor.spawn(level(60), one).unwrap();
            spawned += 1;
            run(&executor, &worker);
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        // Nothing is lost.
        assert_eq!((executor.live(), ended.get()), (0, spawned));
    }

    /// Waits until it has made progress twice, because the first may have begun before.
    fn goes_on(&self, what: &str) {
        let before = self.done.load(Ordering::Relaxed);
        let began = Instant::now();
        while self.done.load(Ordering::Relaxed) < before + 2 {
            assert!(began.elapsed() < LONG, "bulk work is held up by {what}");
            thread::sleep(Duration::from_micros(100));
        }
    }
}

/// A generator of Marsaglia's.
struct Lots(u64);

impl Lots {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs bulk work in this process while `faults` does something to others.
fn beside_bulk(faults: impl FnOnce(&Path, &Participant, &Bulk, &mut Lots)) {
    beside_bulk_of(join, faults);
}

/// Does the same as [`beside_bulk`] with a participant that joins like this.
fn beside_bulk_of(
    join: impl FnOnce(&Path) -> Participant,
    faults: impl FnOnce(&Path, &Participant, &Bulk, &mut Lots),
) {
    let mode = std::fs::Permissions::from_mode(0o700);
    let root = tempfile::Builder::new()
        .permissions(mode)
        .tempdir()
        .unwrap();
    let clock = std::time::SystemTime::now();
    let since = clock.duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = number("CORANK_SEED").unwrap_or(since.as_nanos() as u64) | 1;
    println!("CORANK_SEED={seed}");
    let participant = join(root.path());
    let bulk = Bulk {
        done: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| bulk.work(&participant)))
            .collect();
        // However it ends, the workers end.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            faults(root.path(), &participant, &bulk, &mut Lots(seed));
        }));
        bulk.stop.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().unwrap();
        }
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

fn no_participant_is_left(participant: &Participant) {
    let began = Instant::now();
    while participant.others() > 0 {
        assert!(began.elapsed() < LONG, "a killed process still counts");
        thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn bulk_continues_when_urgent_processes_are_killed() {
    beside_bulk(|root, participant, bulk, lots| {
        for _ in 0..number("CORANK_FAULTS").unwrap_or(500) {
            let victim = Victim::start(root);
            thread::sleep(Duration::from_micros(lots.below(2000)));
            victim.signal(rustix::process::Signal::KILL);
            bulk.goes_on("a process that was killed");
            drop(victim);
            no_participant_is_left(participant);
        }
        // Sockets that were left behind are removed when they are found.
        let folder = root.join("corank/faults");
        let began = Instant::now();
        while std::fs::read_dir(&folder).unwrap().count() > 1 {
            assert!(began.elapsed() < LONG, "something is left behind");
            thread::sleep(Duration::from_millis(10));
        }
    });
}

#[test]
fn bulk_continues_when_urgent_processes_are_stopped() {
    beside_bulk(|root, participant, bulk, lots| {
        let victims = [Victim::start(root), Victim::start(root)];
        for _ in 0..number("CORANK_FAULTS").unwrap_or(1500) {
            for victim in &victims {
                victim.signal(rustix::process::Signal::STOP);
            }
            bulk.goes_on("processes that are stopped");
            for victim in &victims {
                victim.signal(rustix::process::Signal::CONT);
            }
            thread::sleep(Duration::from_micros(lots.below(1000)));
        }
        assert_eq!(participant.others(), 2);
    });
}

#[test]
fn a_process_killed_while_stopped_holds_up_no_other() {
    beside_bulk(|root, participant, bulk, lots| {
        for _ in 0..number("CORANK_FAULTS").unwrap_or(100) {
            let victims = [Victim::start(root), Victim::start(root)];
            thread::sleep(Duration::from_micros(lots.below(2000)));
            victims[0].signal(rustix::process::Signal::STOP);
            victims[1].signal(rustix::process::Signal::KILL);
            bulk.goes_on("one that is stopped and one that was killed");
            victims[0].signal(rustix::process::Signal::KILL);
            bulk.goes_on("two that were killed");
            drop(victims);
            no_participant_is_left(participant);
        }
    });
}
