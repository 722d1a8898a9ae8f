//! Firmware whose size `cargo xtask experiment mcu-size` compares: `CORANK_SIZE_TASKS` tasks that
//! switch for ever, under `corank-mcu`, the core or embassy-executor (`CORANK_SIZE_MODEL`); with 0
//! the same without any. Both are read when it is built.

#![no_std]
#![no_main]

use core::mem::MaybeUninit;

use corank::{Config, Executor, Pool, Priority, yield_now};
use corank_mcu_firmware::embassy_yield;
use cortex_m_rt::entry;
use embassy_executor::raw;

const TASKS: usize = match option_env!("CORANK_SIZE_TASKS") {
    Some(number) => match usize::from_str_radix(number, 10) {
        Ok(tasks) => tasks,
        Err(_) => panic!("CORANK_SIZE_TASKS is a number"),
    },
    None => 2,
};

/// The model: `corank-mcu`, `corank-rust` or `embassy`.
const MODEL: &[u8] = match option_env!("CORANK_SIZE_MODEL") {
    Some(model) => model.as_bytes(),
    None => b"corank-mcu",
};
const EMBASSY: bool = matches!(MODEL, b"embassy");
const MCU: bool = matches!(MODEL, b"corank-mcu");

/// How many places each executor has: at least one. What a build doesn't use isn't linked.
const PLACES: usize = if TASKS == 0 { 1 } else { TASKS };

static POOL: Pool<PLACES, 8> = Pool::new();

/// Toggles an output pin between two switches, as the models in C++ do.
fn toggle() {
    const OUTPUT: *mut u32 = 0x4002_0014 as *mut u32;
    // SAFETY: the output register of port A, which this program alone uses.
    unsafe { OUTPUT.write_volatile(OUTPUT.read_volatile() ^ 1) };
}

async fn corank_task() {
    loop {
        toggle();
        yield_now().await;
    }
}

#[embassy_executor::task(pool_size = PLACES)]
async fn embassy_task() {
    loop {
        toggle();
        embassy_yield().await;
    }
}

#[corank_mcu::task(pool_size = PLACES)]
async fn mcu_task() {
    loop {
        toggle();
        corank_mcu::yield_now().await;
    }
}

struct Here(corank_mcu::Executor);

// SAFETY: the main program alone refers to it.
unsafe impl Sync for Here {}

static MCU_EXECUTOR: Here = Here(corank_mcu::Executor::new());

#[entry]
fn main() -> ! {
    static mut EXECUTOR: MaybeUninit<raw::Executor> = MaybeUninit::uninit();
    if TASKS == 0 {
        loop {
            toggle();
        }
    }
    if MCU {
        MCU_EXECUTOR.0.run(|spawner| {
            for _ in 0..TASKS {
                if let Ok(token) = mcu_task() {
                    spawner.spawn(token);
                }
            }
        });
    }
    if EMBASSY {
        let executor: &'static raw::Executor =
            EXECUTOR.write(raw::Executor::new(core::ptr::null_mut()));
        for _ in 0..TASKS {
            if let Ok(token) = embassy_task() {
                executor.spawner().spawn(token);
            }
        }
        loop {
            // SAFETY: not from within itself.
            unsafe { executor.poll() };
        }
    }
    let Ok(executor) = Executor::in_pool(&POOL, Config::new()) else {
        panic!("the pool is in use");
    };
    for _ in 0..TASKS {
        drop(executor.spawn(Priority::DEFAULT, corank_task()));
    }
    loop {
        executor.run_until_idle();
    }
}
