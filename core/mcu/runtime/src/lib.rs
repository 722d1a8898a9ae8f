//! Corank for microcontrollers: tasks with 64 priorities, in static memory, without a heap.
//!
//! The rules of scheduling are those of the crate [`corank`] (`spec/contract.md` in the repository;
//! comments here cite them by number). The executor is another one, made for one core with
//! interrupts: a task costs 24 bytes beside its future, and what a program does not use is not
//! linked.
//!
//! ```ignore
//! #![no_std]
//! #![no_main]
//!
//! use corank_mcu::{Priority, Spawner, sync::Event, yield_now};
//!
//! static PRESSED: Event = Event::new();
//!
//! #[corank_mcu::task(level = 3)]
//! async fn button() {
//!     loop {
//!         PRESSED.wait().await; // set by an interrupt handler
//!         PRESSED.reset();
//!     }
//! }
//!
//! #[corank_mcu::task(pool_size = 2)]
//! async fn work(part: u32) -> u32 {
//!     yield_now().await;
//!     part * 2
//! }
//!
//! #[corank_mcu::main]
//! async fn main(spawner: Spawner) {
//!     spawner.spawn(button().unwrap());
//!     let part = spawner.spawn(work(1).unwrap().at(Priority::BULK));
//!     assert_eq!(part.await.ok(), Some(2));
//! }
//! ```
//!
//! # What a program needs
//! - An implementation of the crate `critical-section`, such as the feature
//!   `critical-section-single-core` of `cortex-m`. It has one core.
//! - `cortex-m-rt` or `riscv-rt`, whose `entry` the attribute [`main`] uses.
//!
//! # From an interrupt handler
//! Any [`Waker`](core::task::Waker), [`wake`], [`reprioritize`], [`cancel`], [`SendSpawner`], and
//! of [`sync`] what does not wait.
//!
//! # Features
//! - `cortex-m`: `InterruptExecutor::start` for the interrupts of a Cortex-M.
//! - `embassy-time`: a driver for `embassy-time` on SysTick, in the module `systick`.

#![no_std]

mod executor;
mod join;
mod policy;
#[doc(hidden)]
pub mod pool;
mod port;
mod rings;
mod scheduler;
pub mod sync;
#[cfg(all(target_arch = "arm", feature = "embassy-time"))]
pub mod systick;
mod task;
pub mod time;
mod token;
mod waiter;
mod waker;

pub use corank::{
    JoinError, LEVELS, Levels, Priority, PriorityOutOfRange, Relaxed, SpawnError, State, Step,
    SystemView, YieldNow, yield_now,
};
pub use corank_mcu_macros::{main, task};
pub use executor::{Executor, InterruptExecutor, priority, state};
pub use join::JoinHandle;
pub use policy::{Bounded, Choose, Strict};
pub use scheduler::{cancel, current, reprioritize, wake};
pub use task::{CoroutineId, TaskStorage};
pub use token::{SendSpawner, Spawner, Token};

/// Runs `act` with interrupts masked.
#[inline(always)]
fn critical<R>(act: impl FnOnce() -> R) -> R {
    critical_section::with(|_| act())
}
