//! The urgent process: a job each millisecond.
//!
//! A job's latency is the time from when it was due to its end.

use crate::Part;
use crate::meter::{self, Meter, Schedule};
use crate::work::{self, JOB, PERIOD, URGENT};
use anyhow::{Context, Result};
use corank::{Config, Executor, Published, Step, yield_now};
use corank_domain::{Participant, Worker};
use std::io::BufRead;
use std::pin::Pin;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

/// A domain, or none.
pub(crate) struct View {
    worker: Option<Pin<Box<Worker>>>,
}

impl View {
    /// Creates an executor for this thread, and its view.
    pub(crate) fn new(participant: Option<&Participant>) -> Result<(Executor, Self)> {
        let Some(participant) = participant else {
            return Ok((Executor::new(), Self { worker: None }));
        };
        let published: &'static Published = participant.publish()?;
        let executor = Executor::with(Config::new().publish_to(published));
        let worker = Some(participant.worker(published)?);
        Ok((executor, Self { worker }))
    }

    /// Runs what is ready; returns true if there may be more.
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

static SCHEDULE: OnceLock<Schedule> = OnceLock::new();

pub(crate) fn run(part: &Part) -> Result<()> {
    part.prepare()?;
    let participant = part.join("urgent", false)?;
    println!("ready");
    thread::spawn(|| -> Result<()> {
        if let Some(line) = std::io::stdin().lock().lines().next() {
            let _ = SCHEDULE.set(line?.parse()?);
        }
        Ok(())
    });
    let (executor, view) = View::new(participant.as_ref())?;
    let mut meter: Option<Meter> = None;
    let mut due = meter::now();
    let rounds = part.rounds;
    // Until the last job that was due in time has ended.
    while SCHEDULE.get().is_none_or(|schedule| due < schedule.end()) {
        due += PERIOD.as_nanos() as u64;
        if let Some(early) = due.checked_sub(meter::now()) {
            thread::sleep(Duration::from_nanos(early));
        }
        executor.spawn(URGENT, async move {
            for _ in 0..JOB {
                work::rounds(rounds);
                yield_now().await;
            }
        })?;
        while view.run(&executor) {}
        if let Some(schedule) = SCHEDULE.get() {
            let meter = meter.get_or_insert_with(|| Meter::new(*schedule));
            meter.note(0);
            meter.note_job(due, Duration::from_nanos(meter::now() - due));
        }
    }
    let meter = meter.context("it was not told when the trials are")?;
    for share in meter.shares() {
        println!("{share}");
    }
    Ok(())
}
