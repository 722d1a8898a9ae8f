//! Instructions per switch: tasks that yield to each other, under corank and under
//! embassy-executor. Without the feature `priority`, only the latter runs, first in, first out.
//!
//! Both are compiled with the same settings and run in the same image, one after the other. A
//! switch is everything from one task's `yield` to the next one's return from it: the loop in the
//! task, the wake, the queue, the poll. Rows are JSON after `@row `, as
//! `cargo xtask experiment mcu-switch` wants them.

#![no_std]
#![no_main]

use core::mem::MaybeUninit;

use corank::{Config, Executor, Pool, Priority, yield_now};
use corank_mcu::{InstructionCounter, embassy_yield, exit};
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

/// Prints one row: instructions per switch with one decimal.
fn row(model: &str, tasks: usize, levels: usize, instructions: u32) {
    let switches = tasks as u32 * ROUNDS;
    let tenths = (u64::from(instructions) * 10 + u64::from(switches) / 2) / u64::from(switches);
    hprintln!(
        "@row {{\"experiment\": \"mcu-switch\", \"model\": \"{}\", \"tasks\": {}, \"levels\": {}, \"compiler\": \"rustc\", \"opt\": \"O{}\", \"metric\": \"instructions\", \
         \"unit\": \"instructions\", \"value\": {}.{}}}",
        model,
        tasks,
        levels,
        OPTIMISATION,
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
            } else if levels == 1 {
                let instructions = embassy_run(&mut counter, embassy, tasks, levels);
                row("embassy-fifo", tasks, levels, instructions);
            }
        }
    }
    exit(true)
}
