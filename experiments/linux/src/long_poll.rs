//! Urgent requests beside polls that do not end: two workers, and bulk work that computes for a
//! stated time in each poll.
//!
//! The client is a process of its own. It sends one byte each millisecond, whatever it waits for,
//! and measures until the byte comes back. A *stranger* is another process that computes on one of
//! the processors. Clients and strangers have the same settings for all models: the client a short
//! slice of the processor, the stranger none.
//!
//! As for the other kinds, each point is measured in short trials, and of each model's trials the
//! half counts for latencies in which other programs had the processors least, kernel threads
//! included. Bulk work counts in all trials.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use corank_report::trials::{self, Trial};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::json;

use crate::load::{Pace, work};
use crate::print;

pub(crate) mod class;
mod servers;

use servers::{MODELS, Model};

const WORKERS: usize = 2;
/// Coroutines of bulk work.
const BULK: usize = 4;
/// Time between two requests.
const PERIOD: Duration = Duration::from_millis(1);
/// Time that the client and the server have to begin.
const WARM_UP: Duration = Duration::from_millis(100);
/// Work after which bulk counts.
const STEP: Duration = Duration::from_micros(50);

/// Bulk work: each of its polls lasts for `poll`.
pub(crate) struct Bulk {
    /// Steps of work in a poll.
    steps: u64,
    /// Rounds of work in a step.
    rounds: u64,
    done: AtomicU64,
    stop: AtomicBool,
}

impl Bulk {
    fn new(poll: Duration, pace: Pace) -> Arc<Self> {
        Arc::new(Self {
            steps: poll.as_micros() as u64 / STEP.as_micros() as u64,
            rounds: pace.rounds(STEP),
            done: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        })
    }

    /// Computes until it is stopped; `pause` ends a poll.
    async fn run<F: Future>(self: Arc<Self>, pause: impl Fn() -> F) {
        while !self.stop.load(Ordering::Relaxed) {
            for _ in 0..self.steps {
                work(self.rounds);
                self.done.fetch_add(1, Ordering::Relaxed);
            }
            pause().await;
        }
    }

    fn done(&self) -> Duration {
        let steps = self.done.load(Ordering::Relaxed);
        Duration::from_nanos(steps * STEP.as_nanos() as u64)
    }
}

/// One point of the measurement.
#[derive(Clone, Copy)]
struct Point {
    poll: Duration,
    /// Whether urgent requests come.
    urgent: bool,
    stranger: bool,
}

/// Time that counts in a trial.
const TRIAL: Duration = Duration::from_millis(250);

/// Measures all models in turn at each point.
pub(crate) fn measure(pace: Pace, run: u32, quick: bool) {
    let (polls, trials): (&[u64], u32) = if quick { (&[10], 2) } else { (&[1, 10, 50], 3) };
    let point = Point {
        poll: Duration::from_millis(1),
        urgent: false,
        stranger: false,
    };
    all_models(point, trials, pace, run);
    for stranger in [false, true] {
        for &poll in polls {
            let point = Point {
                poll: Duration::from_millis(poll),
                urgent: true,
                stranger,
            };
            all_models(point, trials, pace, run);
        }
    }
}

fn all_models(point: Point, trials: u32, pace: Pace, run: u32) {
    let mut of_models: Vec<(Duration, Vec<Trial>)> = vec![Default::default(); MODELS.len()];
    for number in 0..trials {
        let first = (run + number) as usize % MODELS.len();
        for index in (0..MODELS.len()).cycle().skip(first).take(MODELS.len()) {
            let (bulk, trial) = trial(&MODELS[index], point, pace);
            of_models[index].0 += bulk;
            of_models[index].1.push(trial);
        }
    }
    let parameters = json!({
        "op": "long-poll",
        "poll": point.poll.as_micros() as u64,
        "workers": WORKERS,
        "urgent": point.urgent,
        "stranger": point.stranger,
    });
    for (model, (bulk, all)) in MODELS.iter().zip(of_models) {
        let show = |metric, unit, value| {
            print(model.name, run, metric, unit, value, parameters.clone());
        };
        let time = TRIAL.as_secs_f64() * f64::from(trials);
        show("throughput", "ms/s", 1e3 * bulk.as_secs_f64() / time);
        let (kept, dropped) = trials::halves(all);
        let latencies = trials::latencies(&kept, 0);
        for (metric, share) in [
            ("latency-p50", 0.5),
            ("latency-p99", 0.99),
            ("latency-p999", 0.999),
        ] {
            if let Some(value) = trials::quantile(&latencies, share) {
                show(metric, "us", value);
            }
        }
        for (metric, trials) in [("lost-kept", &kept), ("lost-dropped", &dropped)] {
            show(metric, "%", 100.0 * trials::lost(trials, TRIAL));
        }
    }
}

/// Returns the bulk work done in the time that counts, and the requests.
fn trial(model: &Model, point: Point, pace: Pace) -> (Duration, Trial) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("it is bound");
    let bulk = Bulk::new(point.poll, pace);
    let stranger = point.stranger.then(|| helper(&["--stranger".into()]));
    let stop = (model.serve)(listener, bulk.clone());
    let client = point.urgent.then(|| {
        let time = (WARM_UP + TRIAL).as_millis().to_string();
        helper(&["--client".into(), address.to_string(), time])
    });
    let ours: Vec<u32> = [Some(std::process::id())]
        .into_iter()
        .chain([&client, &stranger].map(|child| child.as_ref().map(Child::id)))
        .flatten()
        .collect();
    std::thread::sleep(WARM_UP);
    let (begun, others, start) = (bulk.done(), used_by_others(&ours), Instant::now());
    std::thread::sleep(TRIAL);
    let (done, took) = (bulk.done() - begun, start.elapsed());
    let lost = used_by_others(&ours).saturating_sub(others);
    let latencies = client.map(latencies).unwrap_or_default();
    bulk.stop.store(true, Ordering::Relaxed);
    stop();
    if let Some(mut stranger) = stranger {
        stranger.kill().expect("it computes until it is killed");
        let _ = stranger.wait();
    }
    let done = done.mul_f64(TRIAL.as_secs_f64() / took.as_secs_f64());
    let trial = Trial {
        lost,
        served: vec![latencies.len()],
        latencies: vec![latencies],
    };
    (done, trial)
}

/// Returns the processor time of all processes but these, kernel threads included.
///
/// It is zero if Linux does not count it.
fn used_by_others(ours: &[u32]) -> Duration {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let used = processes.filter_map(|process| {
        let number: u32 = process.file_name().to_str()?.parse().ok()?;
        if ours.contains(&number) {
            return None;
        }
        // A process may have ended meanwhile.
        let figures = std::fs::read_to_string(process.path().join("schedstat")).ok()?;
        figures.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(used.sum())
}

/// Starts this program as a client or stranger.
fn helper(arguments: &[String]) -> Child {
    let program = std::env::current_exe().expect("this program has a path");
    Command::new(program)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process")
}

/// Waits for a client, and returns its latencies in microseconds.
fn latencies(client: Child) -> Vec<f64> {
    let output = client.wait_with_output().expect("its output");
    assert!(output.status.success(), "the client failed");
    let text = String::from_utf8_lossy(&output.stdout);
    (text.lines())
        .map(|line| line.parse::<f64>().expect("a number") / 1e3)
        .collect()
}

/// Sends a byte each [`PERIOD`] for `time`, and prints how long each took to come back, in
/// nanoseconds.
///
/// Those that did not come back took until the end.
pub(crate) fn client(server: SocketAddr, time: Duration) {
    class::request_short_slice();
    let _ = rustix::thread::set_current_timer_slack(Some(std::num::NonZeroU64::MIN));
    let mut connection = TcpStream::connect(server).expect("the server listens");
    connection.set_nodelay(true).expect("a TCP socket");
    let (start, mut sent, mut received) = (Instant::now(), Vec::new(), Vec::new());
    let mut due = Duration::ZERO;
    while start.elapsed() < time {
        if start.elapsed() >= due {
            sent.push(Instant::now());
            connection.write_all(b"!").expect("the server reads");
            due += PERIOD;
        }
        let left = due.saturating_sub(start.elapsed());
        if left.is_zero() {
            continue;
        }
        connection.set_read_timeout(Some(left)).expect("a socket");
        let mut bytes = [0; 256];
        match connection.read(&mut bytes) {
            Ok(count) => received.extend(std::iter::repeat_n(Instant::now(), count)),
            Err(error) => assert!(
                matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
                "{error}"
            ),
        }
    }
    let (end, counted) = (Instant::now(), start + WARM_UP);
    for (number, sent) in sent.into_iter().enumerate() {
        let received = received.get(number).copied().unwrap_or(end);
        if sent >= counted {
            println!("{}", (received - sent).as_nanos());
        }
    }
}

/// Computes on the first processor until it is killed.
pub(crate) fn stranger() {
    // Also if the experiment is killed.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let all = sched_getaffinity(None).expect("this thread's processors are known");
    let mut first = CpuSet::new();
    first.set(
        (0..CpuSet::MAX_CPU)
            .find(|&cpu| all.is_set(cpu))
            .expect("one"),
    );
    sched_setaffinity(None, &first).expect("one of the processors that there were");
    loop {
        work(1000);
    }
}
