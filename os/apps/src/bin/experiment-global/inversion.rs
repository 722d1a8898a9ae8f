//! Measures how long more urgent coroutines wait while less urgent ones run.
//!
//! [`crate::stretches`] defines an inversion.
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::stretches::{Stretch, inversions};
use corank_user::corank::time::sleep_until;
use corank_user::io::{OwnedFd, Pipe};
use corank_user::process::{self, Fork};
use corank_user::runtime::{self, Global};
use corank_user::{Priority, ring, spawn, time};

use crate::load::{Log, Numbers, wait_until};
use crate::settings::Wake;
use crate::{message, microseconds, row};

/// Coroutines of each process that timers wake; each has jobs of `SLICES` slices.
const TIMED: u8 = 4;
const JOBS: u32 = 30;
const SLICES: u32 = 8;
const SLICE: Duration = Duration::from_micros(50);
/// Part of the harts' time that the coroutines take, in percent.
const LOAD: u64 = 70;

/// More stretches than a process can have, unless it is interrupted all the time.
const ROOM: usize = 1 << 14;

/// Runs the load once, and prints what came out.
///
/// # Errors
/// Something failed, or a log lacks jobs.
pub(crate) fn measure(
    wake: Wake,
    global: Global,
    processes: usize,
    run: usize,
) -> Result<(), String> {
    let scene = Scene {
        wake,
        global,
        processes,
        run,
    };
    let stretches = scene.observe()?;
    let expected = processes * JOBS as usize * (usize::from(TIMED) + 1);
    if stretches.len() < expected {
        return Err(format!(
            "{} stretches of at least {expected}",
            stretches.len()
        ));
    }
    let (total, longest) = inversions(&stretches);
    let name = match wake {
        Wake::Arrival => "arrival",
        Wake::Timer => "timer",
    };
    let parameters = format!(r#""processes":{processes},"wake":"{name}","#);
    for (metric, ticks) in [("inversion-total", total), ("inversion-longest", longest)] {
        row(global, &parameters, run, metric, "us", microseconds(ticks));
    }
    Ok(())
}

/// One run of the load.
#[derive(Clone, Copy)]
struct Scene {
    wake: Wake,
    global: Global,
    processes: usize,
    run: usize,
}

/// The descriptors that one of the processes reads and writes.
struct Ends {
    /// One for each coroutine that is woken from outside.
    arrivals: Vec<OwnedFd>,
    output: OwnedFd,
    input: OwnedFd,
}

fn pipes(count: usize) -> Result<Vec<Pipe>, String> {
    (0..count).map(|_| Pipe::new().map_err(message)).collect()
}

fn other(end: &OwnedFd) -> OwnedFd {
    end.duplicate().expect("a descriptor")
}

impl Scene {
    /// Runs the load and returns all stretches of the run.
    fn observe(self) -> Result<Vec<Stretch>, String> {
        let logs = pipes(self.processes)?;
        // Process i writes to process i + 1, in a circle.
        let ring = pipes(self.processes)?;
        let arrivals = match self.wake {
            Wake::Arrival => pipes(self.processes * usize::from(TIMED))?,
            Wake::Timer => Vec::new(),
        };
        let go = Pipe::new().map_err(message)?;
        let mut children = Vec::new();
        for index in 0..self.processes {
            match process::fork().map_err(message)? {
                Fork::Parent(pid) => children.push(pid),
                Fork::Child => {
                    let first = index * usize::from(TIMED);
                    let own = arrivals.iter().skip(first).take(TIMED.into());
                    let ends = Ends {
                        arrivals: own.map(|pipe| other(&pipe.reader)).collect(),
                        output: other(&ring[index].writer),
                        input: other(&ring[(index + 1) % self.processes].reader),
                    };
                    let log = other(&logs[index].writer);
                    drop((ring, logs, arrivals, go.writer));
                    let _ = go.reader.read(&mut [0]);
                    let bytes = self.work(index, ends);
                    process::exit(i32::from(log.write(&bytes) != Ok(bytes.len())));
                }
            }
        }
        if let Wake::Arrival = self.wake {
            match process::fork().map_err(message)? {
                Fork::Parent(pid) => children.push(pid),
                Fork::Child => {
                    let writers = arrivals.into_iter().map(|pipe| pipe.writer).collect();
                    drop((ring, logs, go.writer));
                    let _ = go.reader.read(&mut [0]);
                    self.arrive(writers);
                    process::exit(0);
                }
            }
        }
        // No process starts before all of them exist.
        drop((ring, arrivals, go));
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

    /// Returns when the jobs of one coroutine are due, in nanoseconds after the beginning.
    fn due(self, index: usize, place: u8) -> impl Iterator<Item = u64> {
        let job = SLICE.as_nanos() as u64 * u64::from(SLICES);
        // Each message costs two slices more for each of the last coroutine's jobs.
        let all = self.processes as u64 * (u64::from(TIMED) * job + job / 4);
        let period = all * 100 / (LOAD * process::harts() as u64);
        let seed = self.run * 1000 + index * 10 + usize::from(place);
        let mut numbers = Numbers::new(seed as u64 + 1);
        let mut due = 0;
        (0..JOBS).map(move |_| {
            due += numbers.around(period);
            due
        })
    }

    /// Sends each coroutine its messages when they are due.
    fn arrive(self, writers: Vec<OwnedFd>) {
        runtime::run(Priority::MOST_URGENT, self.global, async move {
            let begin = time::nanoseconds();
            let mut tasks = Vec::new();
            for (number, writer) in writers.into_iter().enumerate() {
                let (index, place) = (number / usize::from(TIMED), number % usize::from(TIMED));
                let sends = async move {
                    for due in self.due(index, place as u8 + 1) {
                        sleep_until(begin + due).await;
                        assert_eq!(writer.write(&time::ticks().to_le_bytes()), Ok(8));
                    }
                };
                tasks.push(spawn(Priority::MOST_URGENT, sends));
            }
            for task in tasks {
                task.expect("memory").await.expect("it does not panic");
            }
        });
    }

    /// Runs one process's coroutines to the end, and returns its log.
    fn work(self, index: usize, ends: Ends) -> Vec<u8> {
        let log = Log::new(index as u8, ROOM);
        let kept = log.clone();
        // Levels interleave: every process has something urgent and something that is not.
        let level = move |place: u8| 8 + place * 10 + index as u8;
        runtime::run(Priority::MOST_URGENT, self.global, async move {
            let at = |place| Priority::new(level(place)).expect("below 64");
            let begin = time::nanoseconds();
            let (log_of_input, input) = (log.clone(), ends.input);
            let mut tasks = Vec::new();
            tasks.push(spawn(at(0), async move {
                while let Some(ready) = receive_time(&input).await {
                    log_of_input.work(level(0), ready, 2, SLICE).await;
                }
            }));
            let (mut arrivals, mut sender) = (ends.arrivals, Some(ends.output));
            for place in (1..=TIMED).rev() {
                let (log, output, arrivals) = (log.clone(), sender.take(), arrivals.pop());
                let task = async move {
                    for due in self.due(index, place) {
                        let ready = match &arrivals {
                            Some(arrivals) => {
                                receive_time(arrivals).await.expect("as many as are due")
                            }
                            None => wait_until(begin + due).await,
                        };
                        log.work(level(place), ready, SLICES, SLICE).await;
                        if let Some(output) = &output {
                            // Written at once: a call that waits in the ring for the next entry has
                            // sent nothing yet.
                            assert_eq!(output.write(&time::ticks().to_le_bytes()), Ok(8));
                        }
                    }
                };
                tasks.push(spawn(at(place), task));
            }
            for task in tasks {
                task.expect("memory").await.expect("it does not panic");
            }
        });
        kept.to_bytes()
    }
}

/// Returns the time since which the receiver has been ready, from the next message.
///
/// The message says when it was sent. The receiver has been ready since then, or since it began to
/// wait. Returns `None` when no process sends any more.
async fn receive_time(messages: &OwnedFd) -> Option<u64> {
    let waiting = time::ticks();
    let (count, told) = ring::read(messages, Vec::with_capacity(8)).await;
    let told = told.first_chunk().filter(|_| count == Ok(8))?;
    Some(u64::from_le_bytes(*told).max(waiting))
}
