//! An urgent process executes one instruction at a time, stands still after any of them, and is
//! killed there. What it has shown to the others and which doorbells it has rung by then is never
//! more than a part of what it was about to do.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use corank::{Config, Executor, Published, yield_now};
use corank_domain::Participant;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, gettid};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::{beside_bulk_of, join, level, no_participant_is_left, number, run};

const ROOT: &str = "CORANK_TEST_STEPS";
/// The number of times that each process stands still before it is killed.
const STOPS: u64 = 50;
/// The approximate number of instructions that a round of the process takes.
const ROUND: u64 = 20_000;

/// Joins with a single processor as far as the domain knows.
///
/// So one urgent worker is enough to send all others aside.
fn join_on_one_processor(root: &Path) -> Participant {
    let all = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|&at| all.is_set(at)).unwrap();
    let mut one = CpuSet::new();
    one.set(first);
    sched_setaffinity(None, &one).unwrap();
    let participant = join(root);
    sched_setaffinity(None, &all).unwrap();
    participant
}

/// The process is this test as a program of its own. The variable distinguishes it from the test.
#[test]
fn a_process_stopped_at_any_instruction_holds_up_no_other() {
    if let Some(root) = std::env::var_os(ROOT) {
        be_stepped(Path::new(&root));
    }
    beside_bulk_of(join_on_one_processor, |root, participant, bulk, lots| {
        for _ in 0..number("CORANK_FAULTS").unwrap_or(20) {
            let victim = Stepped::start(root);
            victim.step(lots.below(ROUND));
            for _ in 0..STOPS {
                victim.step(1 + lots.below(100));
                bulk.goes_on("a process that stands still at an instruction");
            }
            drop(victim);
            bulk.goes_on("a process that was killed at an instruction");
            no_participant_is_left(participant);
        }
    });
}

/// Becomes urgent and idle in turn.
fn be_stepped(root: &Path) -> ! {
    let participant = join_on_one_processor(root);
    while participant.others() == 0 {
        std::thread::yield_now();
    }
    let published: &'static Published = participant.publish().unwrap();
    let executor = Executor::with(Config::new().publish_to(published));
    let worker = participant.worker(published).unwrap();
    let work = |round: u8| {
        executor.spawn(level(round), yield_now()).unwrap();
        run(&executor, &worker);
    };
    // After this all one-time work has been done.
    (0..3).for_each(&work);
    ptrace::traceme().unwrap();
    println!("\nready {}", gettid());
    raise(Signal::SIGSTOP).unwrap();
    // Until it is killed.
    loop {
        (0..10).for_each(&work);
    }
}

/// A process of which this thread lets one thread execute one instruction at a time.
struct Stepped {
    child: Child,
    thread: Pid,
}

impl Stepped {
    fn start(root: &Path) -> Self {
        let test = "steps::a_process_stopped_at_any_instruction_holds_up_no_other";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(ROOT, root)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let thread = output
            .lines()
            .find_map(|line| line.unwrap().strip_prefix("ready ")?.parse().ok())
            .expect("it gets ready");
        let stepped = Self {
            child,
            thread: Pid::from_raw(thread),
        };
        assert_eq!(stepped.wait(), Signal::SIGSTOP);
        stepped
    }

    /// Waits until the thread stands still, and returns the reason.
    fn wait(&self) -> Signal {
        match waitpid(self.thread, Some(WaitPidFlag::__WALL)).unwrap() {
            WaitStatus::Stopped(_, signal) => signal,
            other => panic!("the process ended: {other:?}"),
        }
    }

    fn step(&self, instructions: u64) {
        for _ in 0..instructions {
            ptrace::step(self.thread, None).unwrap();
            assert_eq!(self.wait(), Signal::SIGTRAP);
        }
    }
}

/// Kills the process and waits for its end.
impl Drop for Stepped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // The thread comes first. Until it has been waited for, the process has not ended.
        let _ = waitpid(self.thread, Some(WaitPidFlag::__WALL));
        let _ = self.child.wait();
    }
}
