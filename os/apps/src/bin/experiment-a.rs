//! Experiment A (AsyncOS, section 3.1): numbered tasks pass a turn through one shared variable.
//!
//! The main task sets the variable to 1 when all tasks are there. Task *i* waits until it is *i*,
//! and makes it *i* + 1. `order` says whether the tasks are created by number or shuffled.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use corank_apps::experiment::model::{Coroutine, Model, Signal, ThreadBlock, ThreadYield};
use corank_apps::experiment::{self, Experiment, Span};

corank_user::main!(main);

fn main() -> i32 {
    experiment::main::<A>()
}

struct A;

impl Experiment for A {
    const NAME: &'static str = "a";
    const PARAMETER: &'static str = "order";
    const DEFAULTS: &'static str = "in-order";
    const NUMERIC: bool = false;

    fn run(model: &str, n: usize, order: &str) -> Result<Span, String> {
        let mut numbers: Vec<usize> = (1..=n).collect();
        match order {
            "in-order" => {}
            "shuffled" => shuffle(&mut numbers),
            _ => {
                return Err(alloc::format!(
                    "the order is in-order or shuffled, not {order}"
                ));
            }
        }
        let (span, last) = match model {
            Coroutine::NAME => pass_turn::<Coroutine>(numbers),
            ThreadYield::NAME => pass_turn::<ThreadYield>(numbers),
            ThreadBlock::NAME => pass_turn::<ThreadBlock>(numbers),
            _ => return Err(alloc::format!("there is no model {model}")),
        };
        if last == n + 1 {
            Ok(span)
        } else {
            Err(alloc::format!("the turn ended at {last}, not at {}", n + 1))
        }
    }
}

/// State that the tasks share.
struct Table<M: Model> {
    /// Number of the task that has the turn.
    turn: AtomicUsize,
    /// Element *i* tells task *i* to check `turn`; element 0 is unused.
    signals: Vec<M::Signal>,
}

/// Creates a task for each of `numbers` and returns the time, and where the turn ended.
fn pass_turn<M: Model>(numbers: Vec<usize>) -> (Span, usize) {
    M::run(async {
        let start = corank_user::time::ticks();
        let signals = (0..=numbers.len())
            .map(|_| M::Signal::new())
            .collect::<Result<_, _>>();
        let table = Arc::new(Table::<M> {
            turn: AtomicUsize::new(0),
            signals: signals.expect("memory for the signals"),
        });
        let mut tasks = Vec::with_capacity(numbers.len());
        for number in numbers {
            let table = Arc::clone(&table);
            tasks.push(M::spawn(move || take_turn(number, table)));
        }
        table.pass_to(1);
        for task in tasks {
            M::join(task).await;
        }
        let end = corank_user::time::ticks();
        (Span { start, end }, table.turn.load(Ordering::Acquire))
    })
}

/// Runs one task: waits for its turn, and passes the turn on.
async fn take_turn<M: Model>(number: usize, table: Arc<Table<M>>) {
    table.signals[number].wait_until(&table.turn, number).await;
    table.pass_to(number + 1);
}

impl<M: Model> Table<M> {
    fn pass_to(&self, number: usize) {
        self.turn.store(number, Ordering::Release);
        if let Some(signal) = self.signals.get(number) {
            signal.give();
        }
    }
}

/// Shuffles in the same order each time.
///
/// This is Fisher and Yates's shuffle over Lehmer's generator (minimal standard).
fn shuffle(numbers: &mut [usize]) {
    let mut state = 42_usize;
    for last in (1..numbers.len()).rev() {
        state = state * 48_271 % 0x7fff_ffff;
        numbers.swap(last, state % (last + 1));
    }
}
