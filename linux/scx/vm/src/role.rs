//! What the processes of a scene do.

use crate::shared::{Cell, Shared, add, now};
use anyhow::{Context, Result, bail};
use corank_scx::client::{JoinError, Membership, Thread};
use corank_scx::page::Board;
use corank_scx::protocol::SOCKET;
use rustix::mm::{MprotectFlags, mprotect};
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Urgent work: how often and for how long, in nanoseconds, and its level.
pub(crate) const URGENT: (u64, u64, u8) = (2_000_000, 200_000, 0);
/// Work in the middle, in polls of [`POLL`].
const MIDDLE: (u64, u64, u8) = (20_000_000, 1_000_000, 16);
/// The level of work without end.
const BULK: u8 = 48;
/// The length of a poll, in nanoseconds.
const POLL: u64 = 100_000;

/// A process of a scene.
struct Process {
    shared: &'static Shared,
    index: usize,
    /// The rounds of [`spin`] in a microsecond.
    rounds: u64,
    membership: Option<Membership>,
}

/// Computes for some rounds.
pub(crate) fn spin(rounds: u64) {
    let mut value = 1u64;
    for round in 0..rounds {
        value = black_box(value.wrapping_mul(6364136223846793005).wrapping_add(round));
    }
}

/// Runs the process that `arguments` describe: a role, its number, the speed and its options.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [role, index, rounds, options @ ..] = arguments else {
        bail!("a role, a number and a speed are needed");
    };
    let shared = Shared::open(false)?;
    let index: usize = index.parse()?;
    let cell = &shared.cells[index];
    let membership = if role == "stranger" {
        None
    } else {
        match Membership::join(Path::new(SOCKET)) {
            Ok(membership) => membership,
            Err(JoinError::Refused(_)) => {
                cell.joined.store(2, Ordering::Relaxed);
                None
            }
            Err(error) => return Err(error.into()),
        }
    };
    if let Some(membership) = &membership {
        let result = if can_write(membership) { 3 } else { 1 };
        cell.joined.store(result, Ordering::Relaxed);
    }
    let process = Process {
        shared,
        index,
        rounds: rounds.parse()?,
        membership,
    };
    cell.is_ready.store(1, Ordering::Release);
    while shared.start.load(Ordering::Acquire) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    sleep_until(shared.start.load(Ordering::Acquire));
    match role.as_str() {
        "mixed" => process.mix(),
        "threads" => process.two_threads(),
        "stranger" => process.compute(None),
        "claim" => {
            let level: u8 = (options.first().context("a level is needed")?).parse()?;
            process.compute(Some(level));
        }
        "nonsense" => process.write_nonsense(),
        other => bail!("there is no role {other}"),
    }
    Ok(())
}

/// Tests whether a process can make the board writable, which all others read.
fn can_write(membership: &Membership) -> bool {
    let board: *const Board = membership.board();
    let access = MprotectFlags::READ | MprotectFlags::WRITE;
    // SAFETY: the mapping of the board alone, whose readers do not mind.
    unsafe { mprotect(board.cast_mut().cast(), 4096, access) }.is_ok()
}

fn sleep_until(time: u64) {
    while let Some(left) = time.checked_sub(now()).filter(|&left| left > 0) {
        std::thread::sleep(Duration::from_nanos(left));
    }
}

impl Process {
    fn cell(&self) -> &'static Cell {
        &self.shared.cells[self.index]
    }

    fn is_over(&self) -> bool {
        now() >= self.shared.stop.load(Ordering::Relaxed)
    }

    fn spin(&self, nanoseconds: u64) {
        spin(self.rounds * nanoseconds / 1000);
    }

    /// Computes without end, at a level that it shows and never changes.
    fn compute(&self, level: Option<u8>) {
        let thread = self.membership.as_ref().and_then(Membership::thread);
        if let (Some(thread), Some(level)) = (&thread, level) {
            thread.show(level);
        }
        while !self.is_over() {
            self.spin(POLL);
            add(&self.cell().chunks, 1);
        }
    }

    /// Computes without end, and fills its page with numbers that make no sense.
    fn write_nonsense(&self) {
        let thread = self.membership.as_ref().and_then(Membership::thread);
        let mut random = 88172645463325252u64;
        let mut next = move || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        while !self.is_over() {
            if let (Some(membership), Some(_)) = (&self.membership, &thread) {
                let page = membership.page();
                page.generation.store(next(), Ordering::Relaxed);
                let slot = &page.slots[next() as usize % page.slots.len()];
                let small = |value: u64| {
                    if value & 1 == 0 {
                        value
                    } else {
                        value >> 1 & 0x7f
                    }
                };
                // Numbers of other threads, levels that there are not, times of long ago.
                slot.thread.store(small(next()), Ordering::Relaxed);
                slot.level.store(small(next()), Ordering::Relaxed);
                slot.waiting.store(small(next()), Ordering::Relaxed);
                for deadline in &slot.deadlines {
                    deadline.at.store(small(next()), Ordering::Relaxed);
                    deadline.level.store(small(next()), Ordering::Relaxed);
                }
            }
            self.spin(POLL / 4);
            add(&self.cell().chunks, 1);
        }
    }

    /// Runs urgent, middle and bulk work on one thread, as an executor does.
    fn mix(&self) {
        let thread = self.membership.as_ref().and_then(Membership::thread);
        let start = self.shared.start.load(Ordering::Acquire);
        // Not all at once: each process begins a third of a millisecond after the one before.
        let phase = self.index as u64 * 333_000;
        let mut urgent = start + phase;
        let mut middle = start + phase * 3;
        let mut middle_left = MIDDLE.1;
        let cell = self.cell();
        while !self.is_over() {
            cell.due[0].store(urgent, Ordering::Relaxed);
            cell.due[1].store(middle, Ordering::Relaxed);
            let begin = now();
            let (level, length) = if urgent <= begin {
                (URGENT.2, URGENT.1)
            } else if middle <= begin {
                (MIDDLE.2, POLL)
            } else {
                (BULK, POLL)
            };
            if let Some(thread) = &thread {
                let after = |due: u64, period| if due <= begin { due + period } else { due };
                let next = [after(urgent, URGENT.0), after(middle, MIDDLE.0)];
                thread.due([(next[0], URGENT.2), (next[1], MIDDLE.2)]);
                if thread.show(level) {
                    std::thread::yield_now();
                    continue;
                }
            }
            self.poll(level, begin, length);
            match level {
                0 => {
                    let end = now();
                    cell.record_latency(end - urgent);
                    add(&cell.urgent, 1);
                    urgent += URGENT.0;
                    // Periods that are over are missed, not made up for.
                    while urgent + URGENT.0 <= end {
                        add(&cell.missed, 1);
                        urgent += URGENT.0;
                    }
                }
                BULK => add(&cell.chunks, 1),
                _ => {
                    middle_left -= POLL;
                    if middle_left == 0 {
                        middle_left = MIDDLE.1;
                        middle += MIDDLE.0;
                    }
                }
            }
        }
        cell.due[0].store(0, Ordering::Relaxed);
        cell.due[1].store(0, Ordering::Relaxed);
    }

    /// Runs one poll, and counts for how long something more urgent of another process waited
    /// meanwhile. What waits for the end of a poll of its own process is no matter of the kernel.
    fn poll(&self, level: u8, begin: u64, length: u64) {
        let before = cpu_time();
        self.spin(length);
        let ran = cpu_time() - before;
        let end = now();
        let mut waited = 0;
        let cells = self.shared.cells.iter().enumerate();
        for (_, cell) in cells.filter(|(index, _)| *index != self.index) {
            for (due, of_level) in cell.due.iter().zip([URGENT.2, MIDDLE.2]) {
                let due = due.load(Ordering::Relaxed);
                if of_level < level && due != 0 && due < end {
                    waited = waited.max(end - due.max(begin));
                }
            }
        }
        add(&self.cell().inversion, waited.min(ran));
    }

    /// Runs urgent work on one thread, which sleeps in between, and bulk on another.
    fn two_threads(&self) {
        let membership = self.membership.as_ref();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let thread = membership.and_then(Membership::thread);
                if let Some(thread) = &thread {
                    thread.show(BULK);
                }
                while !self.is_over() {
                    self.spin(POLL);
                    add(&self.cell().chunks, 1);
                }
            });
            let thread: Option<Thread<'_>> = membership.and_then(Membership::thread);
            let mut due = self.shared.start.load(Ordering::Acquire);
            while !self.is_over() {
                if let Some(thread) = &thread {
                    thread.wait(URGENT.2);
                }
                sleep_until(due);
                if let Some(thread) = &thread {
                    thread.show(URGENT.2);
                }
                self.spin(URGENT.1);
                let end = now();
                self.cell().record_latency(end - due);
                add(&self.cell().urgent, 1);
                due += URGENT.0;
                while due + URGENT.0 <= end {
                    add(&self.cell().missed, 1);
                    due += URGENT.0;
                }
            }
        });
    }
}

/// Returns the time that the calling thread has run, in nanoseconds.
fn cpu_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
