//! Instructions per switch: tasks that yield to each other. Without the feature `priority` under
//! `corank-mcu` and embassy-executor's default, first in, first out; with it under the core and
//! embassy-executor with priorities.
//!
//! Both are compiled with the same settings and run in the same image, one after the other. A
//! switch is everything from one task's `yield` to the next one's return from it: the loop in the
//! task, the wake, the queue, the poll. Rows are JSON after `@row `, as
//! `cargo xtask experiment mcu-switch` wants them.

#![no_std]
#![no_main]

use core::mem::MaybeUninit;

use corank::{Config, Executor, Pool, Priority, yield_now};
use corank_mcu_firmware::{InstructionCounter, embassy_yield, exit};
use cortex_m_rt::entry;
use cortex_m_semihosting::hprintln;
use embassy_executor::raw;

/// How often each task yields.
const ROUNDS: u32 = 1000;
const MOST_TASKS: usize = 64;

/// Cargo's name of the optimisation, which the build sets.
const OPTIMISATION: &str = match option_env!("CORANK_BENCH_OPT") {
    Some(level) => level,
    None => "3",
};

/// The processor as a field of a row, unless it is the Cortex-M4.
const PROCESSOR: &str = if cfg!(target_has_atomic = "32") {
    ""
} else {
    " \"processor\": \"cortex-m0\","
};

static POOL: Pool<MOST_TASKS, 32> = Pool::new();

async fn corank_task() {
    for _ in 0..ROUNDS {
        yield_now().await;
    }
}

/// Instructions for `tasks` on so many levels, which yield `ROUNDS` times each.
fn corank_run(counter: &mut InstructionCounter, tasks: usize, levels: usize) -> u32 {
    let Ok(executor) = Executor::in_pool(&POOL, Config::new()) else {
        panic!("the pool is in use");
    };
    for each in 0..tasks {
        let level = Priority::new((each % levels) as u8).expect("there are 64 levels");
        let spawned = executor.spawn(level, corank_task());
        drop(spawned.expect("the pool has room for the task"));
    }
    let instructions = counter.count(|| {
        executor.run_until_idle();
    });
    assert_eq!(executor.live(), 0);
    instructions
}

#[embassy_executor::task(pool_size = 64)]
async fn embassy_task() {
    for _ in 0..ROUNDS {
        embassy_yield().await;
    }
}

fn embassy_run(
    counter: &mut InstructionCounter,
    executor: &'static raw::Executor,
    tasks: usize,
    levels: usize,
) -> u32 {
    let spawner = executor.spawner();
    for each in 0..tasks {
        match embassy_task() {
            Ok(token) => {
                #[cfg(feature = "priority")]
                token.metadata().set_priority((each % levels) as u8);
                #[cfg(not(feature = "priority"))]
                let _ = (each, levels);
                spawner.spawn(token);
            }
            Err(_) => panic!("the pool has room for the task"),
        }
    }
    // First in, first out, a poll of the executor takes all tasks that are ready when it begins.
    let polls = if cfg!(feature = "priority") {
        1
    } else {
        ROUNDS + 1
    };
    counter.count(|| {
        for _ in 0..polls {
            // SAFETY: not from within itself.
            unsafe { executor.poll() };
        }
    })
}

#[corank_mcu::task(pool_size = MOST_TASKS)]
async fn mcu_task() {
    for _ in 0..ROUNDS {
        corank_mcu::yield_now().await;
    }
}

/// Yields in the code of embassy's task, by its waker.
#[corank_mcu::task(pool_size = MOST_TASKS)]
async fn mcu_waker_task() {
    for _ in 0..ROUNDS {
        embassy_yield().await;
    }
}

struct Here(corank_mcu::Executor);

// SAFETY: the main program alone refers to it.
unsafe impl Sync for Here {}

static MCU: Here = Here(corank_mcu::Executor::new());

fn mcu_run(
    counter: &mut InstructionCounter,
    tasks: usize,
    levels: usize,
    spawn: impl Fn(corank_mcu::Spawner, Priority),
) -> u32 {
    let executor = &MCU.0;
    for each in 0..tasks {
        let level = Priority::new((each % levels) as u8).expect("there are 64 levels");
        spawn(executor.spawner(), level);
    }
    let instructions = counter.count(|| executor.run_until_idle());
    assert_eq!(executor.live(), 0);
    instructions
}

/// Prints one row: instructions per switch with one decimal.
fn row(model: &str, tasks: usize, levels: usize, instructions: u32) {
    let switches = tasks as u32 * ROUNDS;
    let tenths = (u64::from(instructions) * 10 + u64::from(switches) / 2) / u64::from(switches);
    hprintln!(
        "@row {{\"experiment\": \"mcu-switch\", \"model\": \"{}\", \"tasks\": {}, \"levels\": {}, \"compiler\": \"rustc\", \"opt\": \"O{}\",{} \"metric\": \"instructions\", \
         \"unit\": \"instructions\", \"value\": {}.{}}}",
        model,
        tasks,
        levels,
        OPTIMISATION,
        PROCESSOR,
        tenths / 10,
        tenths % 10
    );
}

#[entry]
fn main() -> ! {
    static mut EMBASSY: MaybeUninit<raw::Executor> = MaybeUninit::uninit();
    let peripherals = cortex_m::Peripherals::take().expect("taken once");
    let mut counter = InstructionCounter::new(peripherals.SYST);
    let embassy: &'static raw::Executor = EMBASSY.write(raw::Executor::new(core::ptr::null_mut()));
    for tasks in [2, 8, 64] {
        for levels in [1, 2, 4, 8].into_iter().filter(|levels| *levels <= tasks) {
            if cfg!(feature = "priority") {
                let instructions = corank_run(&mut counter, tasks, levels);
                row("corank-rust", tasks, levels, instructions);
                let instructions = embassy_run(&mut counter, embassy, tasks, levels);
                row("embassy", tasks, levels, instructions);
            } else {
                let instructions = mcu_run(&mut counter, tasks, levels, |spawner, level| {
                    let token = mcu_task().expect("there is memory for all");
                    spawner.spawn(token.at(level));
                });
                row("corank-mcu", tasks, levels, instructions);
                let instructions = mcu_run(&mut counter, tasks, levels, |spawner, level| {
                    let token = mcu_waker_task().expect("there is memory for all");
                    spawner.spawn(token.at(level));
                });
                row("corank-mcu-by-waker", tasks, levels, instructions);
                if levels == 1 {
                    let instructions = embassy_run(&mut counter, embassy, tasks, levels);
                    row("embassy-fifo", tasks, levels, instructions);
                }
            }
        }
    }
    exit(true)
}
