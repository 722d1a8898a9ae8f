//! How often, and for how long, a worker polls while something more urgent is ready.
//!
//! Bulk work computes in polls of different lengths on each worker, and wakes an urgent coroutine
//! now and then. Each poll of bulk work first reads what all executors publish: if something more
//! urgent is ready there, its poll is an inversion, which lasts for that poll at most.
//!
//! The models are one set of queues, shards that check each other, and executors that do not.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use corank::{
    Priority, Relaxed, Remote, ShardedExecutor, SharedExecutor, SharedHandle, Step, yield_now,
};
use serde_json::json;

use crate::print;

const WORKERS: usize = 2;
const BULK: Priority = Priority::BULK;
const URGENT: Priority = Priority::MOST_URGENT;
/// Bulk coroutines, and urgent ones, for each worker.
const EACH: usize = 4;
/// Microseconds of the polls of bulk work, in turn.
const POLLS: [u64; 4] = [1, 5, 20, 50];
/// Bulk polls of a coroutine until it wakes an urgent one.
const WAKES_EACH: usize = 5;

/// Executors by which several workers poll.
enum Model {
    Exact(SharedExecutor),
    Bounded(ShardedExecutor),
    Separate(Vec<SharedExecutor>),
}

/// Function that makes the executors of a model.
type Make = fn() -> Model;

const MODELS: [(&str, Make); 3] = [
    ("corank", || Model::Exact(SharedExecutor::new())),
    ("corank-bounded", || {
        Model::Bounded(ShardedExecutor::new(WORKERS))
    }),
    ("corank-separate", || {
        Model::Separate((0..WORKERS).map(|_| SharedExecutor::new()).collect())
    }),
];

/// What is counted, in nanoseconds.
#[derive(Default)]
struct Counts {
    polls: AtomicU64,
    inversions: AtomicU64,
    longest: AtomicU64,
    latencies: Mutex<Vec<u64>>,
}

/// An urgent coroutine, and when it was woken; 0 if it was not.
struct Urgent {
    remote: Remote,
    woken: Arc<AtomicU64>,
}

impl Model {
    fn executors(&self) -> &[SharedExecutor] {
        match self {
            Self::Exact(executor) => std::slice::from_ref(executor),
            Self::Bounded(executor) => executor.shards(),
            Self::Separate(executors) => executors,
        }
    }

    fn spawn(
        &self,
        worker: usize,
        level: Priority,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> SharedHandle<()> {
        let executors = self.executors();
        let executor = &executors[worker % executors.len()];
        executor.spawn(level, future).expect("memory")
    }

    fn is_urgent_ready(&self) -> bool {
        self.executors().iter().any(|executor| {
            let published = executor.published();
            published
                .ready()
                .union(published.arriving())
                .contains(URGENT)
        })
    }

    fn serve(&self, number: usize, stop: &AtomicBool) {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let run: Box<dyn Fn() -> Step + '_> = match self {
            Self::Bounded(executor) => {
                let worker = executor.worker(number, waker);
                Box::new(move || worker.run_some(&Relaxed, 8).0)
            }
            _ => {
                let executors = self.executors();
                let worker = executors[number % executors.len()].worker(waker);
                Box::new(move || worker.run_some(&Relaxed, 8).0)
            }
        };
        while !stop.load(Ordering::Relaxed) {
            if run() == Step::Idle {
                thread::park_timeout(Duration::from_millis(1));
            }
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn nanoseconds(since: Instant) -> u64 {
    since.elapsed().as_nanos() as u64
}

fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Waits to be woken, again and again, and notes how long that took.
async fn be_urgent(woken: Arc<AtomicU64>, counts: Arc<Counts>, start: Instant) {
    loop {
        poll_fn(|_| match woken.swap(0, Ordering::AcqRel) {
            0 => Poll::Pending,
            at => {
                let took = nanoseconds(start).saturating_sub(at);
                counts.latencies.lock().expect("no panic").push(took);
                Poll::Ready(())
            }
        })
        .await;
    }
}

/// Computes, and wakes an urgent coroutine after some polls.
async fn be_bulk(
    number: usize,
    model: Arc<Model>,
    urgent: Arc<Vec<Urgent>>,
    counts: Arc<Counts>,
    start: Instant,
) {
    for poll in number.. {
        let begun = Instant::now();
        let is_inversion = model.is_urgent_ready();
        compute(Duration::from_micros(POLLS[poll % POLLS.len()]));
        counts.polls.fetch_add(1, Ordering::Relaxed);
        if is_inversion {
            counts.inversions.fetch_add(1, Ordering::Relaxed);
            counts
                .longest
                .fetch_max(nanoseconds(begun), Ordering::Relaxed);
        }
        if poll % WAKES_EACH == 0 {
            // One of any worker.
            let one = &urgent[poll / WAKES_EACH % urgent.len()];
            let at = nanoseconds(start).max(1);
            if one
                .woken
                .compare_exchange(0, at, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                one.remote.wake();
            }
        }
        yield_now().await;
    }
}

fn run(make: Make, time: Duration) -> Arc<Counts> {
    let (model, counts, start) = (
        Arc::new(make()),
        Arc::new(Counts::default()),
        Instant::now(),
    );
    let mut handles = Vec::new();
    let urgent: Vec<Urgent> = (0..WORKERS * EACH)
        .map(|number| {
            let woken = Arc::new(AtomicU64::new(0));
            let future = be_urgent(woken.clone(), counts.clone(), start);
            let handle = model.spawn(number, URGENT, future);
            let remote = handle.remote();
            handles.push(handle);
            Urgent { remote, woken }
        })
        .collect();
    let urgent = Arc::new(urgent);
    for number in 0..WORKERS * EACH {
        let bulk = be_bulk(number, model.clone(), urgent.clone(), counts.clone(), start);
        handles.push(model.spawn(number, BULK, bulk));
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..WORKERS {
            let (model, stop) = (&model, &stop);
            scope.spawn(move || model.serve(number, stop));
        }
        thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    // The coroutines own the model.
    for handle in handles {
        handle.cancel();
    }
    counts
}

pub(crate) fn measure(number: u32, quick: bool) {
    let time = Duration::from_millis(if quick { 300 } else { 2_000 });
    for (name, make) in MODELS {
        let counts = run(make, time);
        let parameters = json!({"op": "inversions", "workers": WORKERS});
        let row = |metric: &str, unit: &str, value: f64| {
            print(name, number, metric, unit, value, parameters.clone());
        };
        let polls = counts.polls.load(Ordering::Relaxed).max(1) as f64;
        let inversions = counts.inversions.load(Ordering::Relaxed) as f64;
        row("inversions", "%", 100.0 * inversions / polls);
        let longest = counts.longest.load(Ordering::Relaxed) as f64;
        row("inversion-longest", "us", longest / 1e3);
        row("polls", "1/s", polls / time.as_secs_f64());
        let mut latencies = std::mem::take(&mut *counts.latencies.lock().expect("no panic"));
        latencies.sort_unstable();
        for (metric, share) in [("latency-p50", 0.5), ("latency-p99", 0.99)] {
            let at = ((latencies.len() as f64 * share) as usize).min(latencies.len().max(1) - 1);
            if let Some(&latency) = latencies.get(at) {
                row(metric, "us", latency as f64 / 1e3);
            }
        }
    }
}
