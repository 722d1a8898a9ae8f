//! A bulk process: several threads that work as much as they can.

use crate::Part;
use crate::urgent::View;
use crate::work::{self, BULK};
use anyhow::Result;
use corank::yield_now;
use corank_domain::Participant;
use std::io::BufRead;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// Chunks of all threads.
static DONE: AtomicU64 = AtomicU64::new(0);

pub(crate) fn run(part: &Part) -> Result<()> {
    part.prepare()?;
    if part.model == crate::Model::Nice {
        rustix::process::nice(19)?;
    }
    let participant = part.join("bulk", true)?;
    for _ in 0..part.threads {
        let (participant, rounds) = (participant.clone(), part.rounds);
        thread::spawn(move || work(participant.as_ref(), rounds).expect("a worker"));
    }
    println!("ready");
    let mut began = None;
    for line in std::io::stdin().lock().lines() {
        let done = DONE.load(Ordering::Relaxed);
        match (line?.as_str(), began) {
            ("start", _) => began = Some((Instant::now(), done)),
            (_, Some((since, before))) => {
                println!("{}", (done - before) as f64 / since.elapsed().as_secs_f64());
                break;
            }
            _ => break,
        }
    }
    Ok(())
}

/// A thread's work, until the process ends.
fn work(participant: Option<&Participant>, rounds: u64) -> Result<()> {
    let (executor, view) = View::new(participant)?;
    executor.spawn(BULK, async move {
        loop {
            work::rounds(rounds);
            DONE.fetch_add(1, Ordering::Relaxed);
            yield_now().await;
        }
    })?;
    while view.run(&executor) {}
    Ok(())
}
