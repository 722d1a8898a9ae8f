//! Measures the cost of the strict comparison before each poll, and how often it enters the kernel
//! although nothing more urgent waits.
//!
//! A coroutine at level 10 yields again and again, alone in its process. `poll-instructions` is the
//! number of instructions that one such turn takes: the fewest over many batches, so that clock
//! ticks don't count. `check-instructions` is how many more that are under strict than under
//! relaxed scheduling. `yield-calls` is the number of system calls that all the turns made
//! together.
use alloc::format;
use alloc::string::String;
use core::sync::atomic::Ordering;

use corank_abi::call::CALLS_MADE;
use corank_user::process::{self, Pid};
use corank_user::runtime::{self, Global};
use corank_user::{Priority, page, yield_now};

use crate::{message, row};

/// Batches that count: those during which every other process is where the comparison wants it.
const BATCHES: u32 = 40;
/// Batches at most.
///
/// Harts of a machine that counts instructions take turns, and the others may be elsewhere for some
/// batches.
const MOST_BATCHES: u32 = 4000;
/// Turns of a batch, which are much shorter than a clock tick.
const TURNS: u32 = 500;
const LEVEL: u8 = 10;

/// The other processes that there are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Elsewhere {
    Nothing,
    /// A process that is ready at a less urgent level, so that the comparison has something to
    /// compare with.
    LessUrgent,
    /// A process that is more urgent, and that another hart serves already.
    Served,
}

impl Elsewhere {
    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::LessUrgent => "less-urgent",
            Self::Served => "served",
        }
    }

    /// Returns the level that the others claim.
    fn level(self) -> Option<u8> {
        match self {
            Self::Nothing => None,
            Self::LessUrgent => Some(60),
            Self::Served => Some(2),
        }
    }

    /// Returns the number of other processes.
    ///
    /// A process that waits has to find every hart busy.
    fn processes(self, harts: usize) -> usize {
        match self {
            Self::Nothing => 0,
            Self::LessUrgent => harts,
            Self::Served => harts - 1,
        }
    }

    /// Tests whether the others are as they should be now.
    fn holds(self) -> bool {
        let ready = page::system().ready.load(Ordering::Relaxed);
        match self {
            Self::Nothing => ready == 0,
            Self::LessUrgent => ready >> LEVEL != 0,
            Self::Served => page::system().running.load(Ordering::Relaxed) & 1 << 2 != 0,
        }
    }
}

/// Measures one model beside each kind of other processes that this number of harts allows.
///
/// With a number of instructions, a comparison that takes more is an error, and so is one that
/// makes a system call.
pub(crate) fn measure(global: Global, run: usize, most: Option<usize>) -> Result<(), String> {
    let harts = process::harts();
    let all = [Elsewhere::Nothing, Elsewhere::LessUrgent, Elsewhere::Served];
    let there = all
        .into_iter()
        .filter(|&one| one != Elsewhere::Served || harts > 1);
    for elsewhere in there {
        let others: Result<alloc::vec::Vec<Pid>, _> = (0..elsewhere.processes(harts))
            .map(|_| process::spawn(|| spin(elsewhere.level().unwrap_or(63))).map_err(message))
            .collect();
        let measured = others.as_ref().map_err(String::clone).and_then(|_| {
            let relaxed = turns(Global::Relaxed, elsewhere)?;
            Ok((relaxed, turns(global, elsewhere)?))
        });
        for pid in others.into_iter().flatten() {
            process::kill(pid, 9).map_err(message)?;
            process::wait(pid).map_err(message)?;
        }
        let (relaxed, this) = measured?;
        let parameters = format!(r#""elsewhere":"{}","#, elsewhere.name());
        let print = |metric, unit, value| row(global, &parameters, run, metric, unit, value);
        print("poll-instructions", "instructions", this.instructions);
        print("yield-calls", "calls", this.calls as f64);
        if global == Global::Strict {
            let more = (this.instructions - relaxed.instructions).max(0.0);
            print("check-instructions", "instructions", more);
            if let Some(most) = most {
                judge(elsewhere, more, this.calls, most)?;
            }
        }
    }
    Ok(())
}

/// Returns an error if a comparison takes too many instructions or has made system calls.
fn judge(elsewhere: Elsewhere, instructions: f64, calls: usize, most: usize) -> Result<(), String> {
    let name = elsewhere.name();
    if instructions > most as f64 {
        return Err(format!(
            "beside {name} the comparison takes {instructions:.3} instructions, {most} at most were asked for"
        ));
    }
    if calls > 0 {
        return Err(format!(
            "beside {name} the comparison made {calls} system calls, although nothing more urgent waited"
        ));
    }
    Ok(())
}

/// Costs of the turns.
struct Turns {
    /// Instructions of each turn.
    instructions: f64,
    /// System calls of all turns together.
    calls: usize,
}

fn turns(global: Global, elsewhere: Elsewhere) -> Result<Turns, String> {
    let priority = Priority::new(LEVEL).expect("below 64");
    runtime::run(priority, global, async move {
        // By the next ticks the kernel knows how urgent this process is, and the others have begun.
        let begin = page::system().ticks.load(Ordering::Relaxed);
        while page::system().ticks.load(Ordering::Relaxed) < begin + 3 {
            yield_now().await;
        }
        let (mut least, mut calls, mut counted) = (u64::MAX, 0, 0);
        for _ in 0..MOST_BATCHES {
            let held = elsewhere.holds();
            let before = calls_made();
            let start = instructions();
            for _ in 0..TURNS {
                yield_now().await;
            }
            let taken = instructions() - start;
            // This count is a call itself.
            let made = calls_made() - before - 1;
            if held && elsewhere.holds() {
                least = least.min(taken);
                calls += made;
                counted += 1;
            }
            if counted == BATCHES {
                break;
            }
        }
        if counted < BATCHES {
            return Err(format!("{}: that was hardly ever so", elsewhere.name()));
        }
        let instructions = least as f64 / f64::from(TURNS);
        Ok(Turns {
            instructions,
            calls,
        })
    })
}

/// Runs a process that is always ready at this level.
fn spin(level: u8) -> i32 {
    let page = page::process();
    page.executors.store(1, Ordering::Relaxed);
    page.ready.store(1 << level, Ordering::Release);
    loop {
        core::hint::spin_loop();
    }
}

fn calls_made() -> usize {
    // SAFETY: it touches no memory.
    let made = unsafe { corank_user::raw::system_call(CALLS_MADE, [0; 3]) };
    made.cast_unsigned()
}

/// Returns the number of instructions that this hart has executed.
fn instructions() -> u64 {
    let count: u64;
    // SAFETY: reads a counter that the kernel lets programs read.
    unsafe {
        core::arch::asm!("rdinstret {}", out(reg) count, options(nomem, nostack, preserves_flags))
    };
    count
}
