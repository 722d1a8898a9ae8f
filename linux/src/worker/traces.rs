//! The loop of a worker replays every conformance trace.
//!
//! The worker is a thread that makes one [turn](WorkerLoop::turn) of its loop for each step of the
//! scene, with one poll at most. The test's thread does everything outside of polls. So each wake,
//! spawn and cancel there comes from a foreign thread, and has to end the worker's sleep in the
//! kernel. The executor's clock is that of the scene: a timer fires because the worker reads it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use corank::{Config, LEVELS, Priority, SharedExecutor, Step, SystemView};
use corank_conformance::{CorePlatform, Driver, replay_on};
use corank_model::TRACES;

use super::{Batch, WorkerLoop};
use crate::builder::Builder;
use crate::executor::Executor;
use crate::external_scheduler::ExternalScheduler;
use crate::handle::{Handle, enter};
use crate::idle::Parker;
use crate::shared::Shared;

/// The time after which a wake counts as lost.
const LIMIT: Duration = Duration::from_secs(60);

/// The time of the scene. One test uses it.
static NOW: AtomicU64 = AtomicU64::new(0);

fn now() -> u64 {
    NOW.load(Ordering::Relaxed)
}

/// The most urgent level elsewhere, as the scene says it; [`LEVELS`] for none.
struct Elsewhere(AtomicU8);

impl SystemView for Elsewhere {
    fn most_urgent_elsewhere(&self) -> Option<Priority> {
        Priority::new(self.0.load(Ordering::Relaxed))
    }
}

impl ExternalScheduler for Elsewhere {
    fn step_aside(&self) {}

    fn idle(&self) {}
}

/// A runtime of one worker, for one scene.
struct Driven {
    shared: Arc<Shared>,
    elsewhere: Arc<Elsewhere>,
    parker: Arc<Parker>,
    /// Lets the worker make a turn; `None` once the scene is over.
    turns: Option<mpsc::Sender<()>>,
    ended: mpsc::Receiver<Step>,
    /// Whether the worker is inside a turn, in which it sleeps.
    sleeps: Cell<bool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Driven {
    fn start(config: Config) -> Self {
        NOW.store(0, Ordering::Relaxed);
        // Without the budget of a poll (O8): the traces are of platforms that add none.
        let config = config.clock(now);
        let builder = Builder::new().workers(1).spare_workers(None);
        let executor = Executor::Exact(SharedExecutor::with(config));
        let shared = Shared::new(executor, &builder, None).expect("descriptors");
        let shared = Arc::new(shared);
        let elsewhere = Arc::new(Elsewhere(AtomicU8::new(LEVELS as u8)));
        let (turns, allowed) = mpsc::channel();
        let (ends, ended) = mpsc::channel();
        let (begun, parker) = mpsc::channel();
        let (here, view) = (shared.clone(), elsewhere.clone());
        let thread = thread::spawn(move || {
            let _current = enter(Handle(here.clone()));
            let mut worker = WorkerLoop::begin(&here, &*view, 0);
            begun.send(worker.parker.clone()).expect("it is awaited");
            for () in allowed {
                worker.batch = Batch::new();
                if ends.send(worker.turn()).is_err() {
                    break;
                }
            }
        });
        Self {
            parker: parker.recv().expect("the worker begins"),
            shared,
            elsewhere,
            turns: Some(turns),
            ended,
            sleeps: Cell::new(false),
            thread: Some(thread),
        }
    }

    /// Waits until a turn has ended; returns `None` if the worker sleeps in it.
    ///
    /// # Panics
    /// Panics if neither is so for [`LIMIT`]: the wake of a worker was lost.
    fn wait(&self) -> Option<Step> {
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < LIMIT, "the worker was woken, and sleeps");
            if let Ok(step) = self.ended.try_recv() {
                return Some(step);
            }
            if self.parker.is_parked() {
                return None;
            }
            thread::yield_now();
        }
    }
}

impl Driver for Driven {
    fn executor(&self) -> &SharedExecutor {
        self.shared.executor.exact()
    }

    fn step(&self, elsewhere: Option<Priority>) -> Step {
        let level = elsewhere.map_or(LEVELS as u8, Priority::level);
        self.elsewhere.0.store(level, Ordering::Relaxed);
        if self.sleeps.get() {
            // What came meanwhile has ended the sleep.
            match self.wait() {
                None if self.shared.executor.waiting().is_empty() => return Step::Idle,
                None => panic!("something is ready, and the worker sleeps"),
                Some(step) => assert_eq!(step, Step::Idle, "the turn polled nothing"),
            }
        }
        let turns = self.turns.as_ref().expect("the scene goes on");
        turns.send(()).expect("the worker waits for it");
        let step = self.wait();
        self.sleeps.set(step.is_none());
        step.unwrap_or(Step::Idle)
    }

    /// Sets the time, and ends the sleep of the worker as the kernel does when a timer is due.
    fn advance(&self, now: u64) {
        NOW.store(now, Ordering::Relaxed);
        self.shared.wake_all();
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.turns = None;
        self.shared.wake_all();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking(), "the worker panicked");
        }
    }
}

#[test]
fn the_loop_of_a_worker_replays_every_trace() {
    let drive = |config| -> Rc<dyn Driver> { Rc::new(Driven::start(config)) };
    let mut platform = CorePlatform::driven(Rc::new(drive));
    let verdict = replay_on(TRACES.iter(), &mut platform);
    assert_eq!(
        (verdict.passed, verdict.skipped.len()),
        (TRACES.len(), 0),
        "{verdict}: {:#?}",
        verdict.failures
    );
}
