//! How long what is more urgent waits while what is less urgent runs.
//!
//! At an instant, a coroutine suffers an *inversion* if it is ready and does not run, its own process does not run anything at
//! least as urgent (an executor has one thread, and serves its most urgent one), and some hart runs a coroutine of strictly less
//! urgency. `inversion-total`: for how long there was any. `inversion-longest`: for how long, altogether, one coroutine did
//! between becoming ready and running.
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use corank_user::io::{OwnedFd, Pipe};
use corank_user::process::{self, Fork};
use corank_user::runtime::{self, Global};
use corank_user::{Priority, ring, spawn, time};

use crate::load::{Log, Numbers, Stretch, wait_until};
use crate::{message, microseconds, row};

/// Coroutines of each process that timers wake; each has jobs of `SLICES` slices.
const TIMED: u8 = 4;
const JOBS: u32 = 30;
const SLICES: u32 = 8;
const SLICE: Duration = Duration::from_micros(50);
/// Of the harts' time, the part that the coroutines take, in percent.
const LOAD: u64 = 70;

/// More stretches than a process can have, unless it is interrupted all the time.
const ROOM: usize = 1 << 14;

/// Runs the load once, and prints what came out.
pub(crate) fn measure(global: Global, processes: usize, run: usize) -> Result<(), String> {
    let stretches = observe(global, processes, run)?;
    let expected = processes * JOBS as usize * (usize::from(TIMED) + 1);
    if stretches.len() < expected {
        return Err(format!(
            "{} stretches of at least {expected}",
            stretches.len()
        ));
    }
    let (total, longest) = inversions(&stretches);
    let parameters = format!(r#""processes":{processes},"#);
    for (metric, ticks) in [("inversion-total", total), ("inversion-longest", longest)] {
        row(global, &parameters, run, metric, "us", microseconds(ticks));
    }
    Ok(())
}

/// All stretches of a run.
fn observe(global: Global, processes: usize, run: usize) -> Result<Vec<Stretch>, String> {
    let pipes = || (0..processes).map(|_| Pipe::new().map_err(message));
    let logs: Vec<Pipe> = pipes().collect::<Result<_, _>>()?;
    let go = Pipe::new().map_err(message)?;
    // Process i tells process i + 1, in a ring.
    let ring: Vec<Pipe> = pipes().collect::<Result<_, _>>()?;
    let mut children = Vec::new();
    for index in 0..processes {
        match process::fork().map_err(message)? {
            Fork::Parent(pid) => children.push(pid),
            Fork::Child => {
                drop(go.writer);
                let log = logs[index].writer.duplicate().expect("a descriptor");
                let tells = ring[index].writer.duplicate().expect("a descriptor");
                let hears = ring[(index + 1) % processes].reader.duplicate();
                let hears = hears.expect("a descriptor");
                drop((ring, logs));
                let _ = go.reader.read(&mut [0]);
                let bytes = work(global, processes, index, run, tells, hears);
                process::exit(i32::from(log.write(&bytes) != Ok(bytes.len())));
            }
        }
    }
    drop((go.reader, ring));
    // Nobody starts before everybody is there.
    drop(go.writer);
    let mut stretches = Vec::new();
    let mut bytes = Vec::with_capacity(Stretch::BYTES * ROOM);
    for log in logs {
        drop(log.writer);
        log.reader.fill(&mut bytes).map_err(message)?;
        let (whole, rest) = bytes.as_chunks();
        if !rest.is_empty() || whole.len() == ROOM {
            return Err("a log is not whole".into());
        }
        stretches.extend(whole.iter().map(Stretch::from_bytes));
    }
    for pid in children {
        let exited = process::wait(pid).map_err(message)?;
        if exited.code != 0 {
            return Err(format!("process {pid} ended with code {}", exited.code));
        }
    }
    Ok(stretches)
}

/// One process's coroutines, to the end; returns its log.
fn work(
    global: Global,
    processes: usize,
    index: usize,
    run: usize,
    tells: OwnedFd,
    hears: OwnedFd,
) -> Vec<u8> {
    let harts = process::harts() as u64;
    let job = SLICE.as_nanos() as u64 * u64::from(SLICES);
    // What is told costs two slices more for each of the last coroutine's jobs.
    let all = processes as u64 * (u64::from(TIMED) * job + job / 4);
    let period = all * 100 / (LOAD * harts);
    let log = Log::new(index as u8, ROOM);
    let kept = log.clone();
    // Levels interleave: every process has something urgent and something that is not.
    let level = move |place: u8| 8 + place * 10 + index as u8;
    runtime::run(Priority::MOST_URGENT, global, async move {
        let begin = time::nanoseconds();
        let mut tasks = Vec::new();
        let heard = log.clone();
        let at = |level| Priority::new(level).expect("below 64");
        tasks.push(spawn(at(level(0)), async move {
            hear(&heard, level(0), hears).await
        }));
        let mut teller = Some(tells);
        for place in (1..=TIMED).rev() {
            let (log, tells) = (log.clone(), teller.take());
            let seed = run * 1000 + index * 10 + usize::from(place);
            let timed = async move {
                let mut numbers = Numbers::new(seed as u64 + 1);
                let mut due = begin;
                for _ in 0..JOBS {
                    due += numbers.around(period);
                    let ready = wait_until(due).await;
                    log.work(level(place), ready, SLICES, SLICE).await;
                    if let Some(tells) = &tells {
                        let now = time::ticks().to_le_bytes().to_vec();
                        let (told, _) = ring::write(tells, now).await;
                        assert_eq!(told, Ok(8));
                    }
                }
            };
            tasks.push(spawn(at(level(place)), timed));
        }
        for task in tasks {
            task.expect("memory").await.expect("it does not panic");
        }
    });
    kept.to_bytes()
}

/// A job of two slices for each time that something is told, ready since then, until nobody tells any more.
async fn hear(log: &Log, level: u8, hears: OwnedFd) {
    loop {
        let waiting = time::ticks();
        let (count, told) = ring::read(&hears, Vec::with_capacity(8)).await;
        let Some(told) = told.first_chunk().filter(|_| count == Ok(8)) else {
            return;
        };
        let ready = u64::from_le_bytes(*told).max(waiting);
        log.work(level, ready, 2, SLICE).await;
    }
}

/// What happens at an instant: a stretch's coroutine becomes ready, starts, or ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    End,
    Ready,
    Start,
}

/// For how long there was any inversion, and for how long the unluckiest wait suffered one; in ticks.
fn inversions(stretches: &[Stretch]) -> (u64, u64) {
    let mut changes: Vec<(u64, Change, usize)> = Vec::with_capacity(3 * stretches.len());
    for (number, stretch) in stretches.iter().enumerate() {
        changes.push((stretch.ready, Change::Ready, number));
        changes.push((stretch.start, Change::Start, number));
        changes.push((stretch.end, Change::End, number));
    }
    changes.sort_unstable();
    let mut waiting: Vec<usize> = Vec::new();
    let mut running: Vec<usize> = Vec::new();
    let mut suffered = alloc::vec![0_u64; stretches.len()];
    let (mut total, mut before) = (0, 0);
    for (at, change, number) in changes {
        let passed = at - before;
        let least = running.iter().map(|&one| stretches[one].level).max();
        let mut any = false;
        if let Some(least) = least.filter(|_| passed > 0) {
            for &one in &waiting {
                let Stretch { level, process, .. } = stretches[one];
                let served = running.iter().any(|&other| {
                    stretches[other].process == process && stretches[other].level <= level
                });
                if level < least && !served {
                    suffered[one] += passed;
                    any = true;
                }
            }
        }
        total += if any { passed } else { 0 };
        before = at;
        match change {
            Change::Ready => waiting.push(number),
            Change::Start => {
                waiting.retain(|&one| one != number);
                // An end at the same instant has come before.
                if stretches[number].end > at {
                    running.push(number);
                }
            }
            Change::End => running.retain(|&one| one != number),
        }
    }
    (total, suffered.into_iter().max().unwrap_or(0))
}
