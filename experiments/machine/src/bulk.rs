//! A bulk process: several threads that work as much as they can.

use crate::Part;
use crate::meter::{Meter, Schedule, Share};
use crate::urgent::View;
use crate::work::{self, BULK};
use anyhow::{Context, Result};
use corank::yield_now;
use corank_domain::Participant;
use std::io::BufRead;
use std::sync::{OnceLock, mpsc};
use std::thread;

static SCHEDULE: OnceLock<Schedule> = OnceLock::new();

pub(crate) fn run(part: &Part) -> Result<()> {
    part.prepare()?;
    if part.model == crate::Model::Nice {
        rustix::process::nice(19)?;
    }
    let participant = part.join("bulk", true)?;
    let (sender, receiver) = mpsc::channel();
    for _ in 0..part.threads {
        let (participant, rounds, sender) = (participant.clone(), part.rounds, sender.clone());
        thread::spawn(move || work(participant.as_ref(), rounds, sender).expect("a worker"));
    }
    println!("ready");
    let mut lines = std::io::stdin().lock().lines();
    let Some(line) = lines.next() else {
        return Ok(());
    };
    let schedule: Schedule = line?.parse()?;
    let _ = SCHEDULE.set(schedule);
    let mut shares = vec![Share::default(); schedule.trials];
    for _ in 0..part.threads {
        let of_thread = receiver.recv().context("a thread has ended")?;
        for (share, of_thread) in shares.iter_mut().zip(&of_thread) {
            share.add(of_thread);
        }
    }
    for share in &shares {
        println!("{share}");
    }
    // The threads go on, beside jobs that are late, until the conductor has read the results of all
    // processes.
    lines.next();
    Ok(())
}

/// Runs a thread's work, until the process ends.
fn work(
    participant: Option<&Participant>,
    rounds: u64,
    shares: mpsc::Sender<Vec<Share>>,
) -> Result<()> {
    let (executor, view) = View::new(participant)?;
    executor.spawn(BULK, async move {
        let mut meter = None;
        let mut has_told = false;
        loop {
            work::rounds(rounds);
            if let Some(schedule) = SCHEDULE.get().filter(|_| !has_told) {
                let own: &mut Meter = meter.get_or_insert_with(|| Meter::new(*schedule));
                own.note(1);
                has_told = own.has_ended();
            }
            if has_told && let Some(meter) = meter.take() {
                // The reader may have ended.
                let _ = shares.send(meter.shares());
            }
            yield_now().await;
        }
    })?;
    while view.run(&executor) {}
    Ok(())
}
