//! The urgent process: a job each millisecond, whose latency is the time from when it was due to its end.

use crate::Part;
use crate::work::{self, JOB, PERIOD, URGENT};
use anyhow::{Result, ensure};
use corank::{Config, Executor, Published, Step, yield_now};
use corank_domain::{Participant, Worker};
use std::io::BufRead;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A domain, or none.
pub(crate) struct View {
    worker: Option<Pin<Box<Worker>>>,
}

impl View {
    /// An executor for this thread, and what it sees.
    pub(crate) fn new(participant: Option<&Participant>) -> Result<(Executor, Self)> {
        let Some(participant) = participant else {
            return Ok((Executor::new(), Self { worker: None }));
        };
        let published: &'static Published = participant.publish()?;
        let executor = Executor::with(Config::new().publish_to(published));
        let worker = Some(participant.worker(published)?);
        Ok((executor, Self { worker }))
    }

    /// Runs what is ready; true if there may be more.
    pub(crate) fn run(&self, executor: &Executor) -> bool {
        let Some(worker) = &self.worker else {
            return executor.step() == Step::Ran;
        };
        match executor.step_under(&**worker) {
            Step::Ran => true,
            Step::Elsewhere => {
                worker.step_aside(Duration::from_millis(100));
                true
            }
            Step::Idle => {
                worker.idle();
                false
            }
        }
    }
}

static MEASURES: AtomicBool = AtomicBool::new(false);
static ENDS: AtomicBool = AtomicBool::new(false);

pub(crate) fn run(part: &Part) -> Result<()> {
    part.prepare()?;
    let participant = part.join("urgent", false)?;
    println!("ready");
    thread::spawn(|| {
        for line in std::io::stdin().lock().lines() {
            match line.as_deref() {
                Ok("start") => MEASURES.store(true, Ordering::Relaxed),
                _ => break,
            }
        }
        ENDS.store(true, Ordering::Relaxed);
    });
    let (executor, view) = View::new(participant.as_ref())?;
    let mut latencies: Vec<Duration> = Vec::new();
    let mut due = Instant::now();
    let rounds = part.rounds;
    while !ENDS.load(Ordering::Relaxed) {
        due += PERIOD;
        if let Some(early) = due.checked_duration_since(Instant::now()) {
            thread::sleep(early);
        }
        executor.spawn(URGENT, async move {
            for _ in 0..JOB {
                work::rounds(rounds);
                yield_now().await;
            }
        })?;
        while view.run(&executor) {}
        if MEASURES.load(Ordering::Relaxed) {
            latencies.push(due.elapsed());
        }
    }
    ensure!(!latencies.is_empty(), "it was not told to start");
    latencies.sort_unstable();
    let at = |share: usize| {
        let index = (latencies.len() * share / 1000).min(latencies.len() - 1);
        latencies[index].as_nanos() as f64 / 1000.0
    };
    println!("{} {} {}", at(500), at(990), at(999));
    Ok(())
}
