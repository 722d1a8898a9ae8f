//! The scheduler of this repository.

use std::time::Instant;

use corank::{Executor, LEVELS, Priority, spawn, yield_now};

use super::{Model, check, returns, yields};
use crate::Measured;
use crate::memory::beside_future;
use crate::ring::Ring;

pub(crate) struct Corank;

/// Returns a task's level; neighbours are on different levels, the worst case for the caches.
fn level(number: usize, levels: usize) -> Priority {
    Priority::new((number % levels * (LEVELS / levels)) as u8).expect("below 64")
}

impl Model for Corank {
    fn name(&self) -> &'static str {
        "corank"
    }

    fn has_levels(&self) -> bool {
        true
    }

    fn yield_now(&self, n: usize, levels: usize, rounds: usize) -> Measured {
        let executor = Executor::new();
        for number in 0..n {
            let body = yields(number, rounds, yield_now);
            drop(executor.spawn(level(number, levels), body).expect("memory"));
        }
        let start = Instant::now();
        let polls = executor.run_until_idle();
        let time = start.elapsed();
        assert_eq!(polls as usize, n * (rounds + 1));
        Some((time, n * rounds))
    }

    fn spawn_join(&self, n: usize, repetitions: usize) -> Measured {
        let executor = Executor::new();
        let main = async move {
            for _ in 0..repetitions {
                let mut handles = Vec::with_capacity(n);
                for number in 0..n {
                    handles.push(spawn(Priority::DEFAULT, returns(number)).expect("memory"));
                }
                let mut sum = 0;
                for handle in handles {
                    sum += handle.await.expect("no panic");
                }
                check(sum, n);
            }
        };
        let start = Instant::now();
        let main = executor.spawn(Priority::DEFAULT, main).expect("memory");
        executor.run_until_idle();
        let time = start.elapsed();
        main.try_join().expect("main has ended").expect("no panic");
        Some((time, n * repetitions))
    }

    fn wake(&self, n: usize, rounds: usize) -> Measured {
        let executor = Executor::new();
        let ring = Ring::new(n, rounds);
        for place in 0..n {
            drop(
                executor
                    .spawn(Priority::DEFAULT, ring.clone().sit(place))
                    .expect("memory"),
            );
        }
        executor.run_until_idle();
        let start = Instant::now();
        ring.start();
        let polls = executor.run_until_idle();
        let time = start.elapsed();
        assert_eq!(polls as usize, ring.hops());
        Some((time, ring.hops()))
    }

    fn reprioritize(&self, n: usize, levels: usize, rounds: usize) -> Measured {
        let executor = Executor::new();
        let ids: Vec<_> = (0..n)
            .map(|number| {
                let handle = executor.spawn(level(number, levels), returns(number));
                handle.expect("memory").id()
            })
            .collect();
        let start = Instant::now();
        for round in 1..=rounds {
            for (number, id) in ids.iter().enumerate() {
                // Each coroutine goes to the next of the levels in use, or to and fro between two.
                let step = LEVELS / levels.max(2);
                let to = (number % levels * (LEVELS / levels) + round * step) % LEVELS;
                executor.reprioritize(*id, Priority::new(to as u8).expect("below 64"));
            }
        }
        let time = start.elapsed();
        assert_eq!(executor.run_until_idle() as usize, n);
        Some((time, n * rounds))
    }

    fn memory(&self, n: usize) -> Option<f64> {
        let size = size_of_val(&yields(0, 0, yield_now));
        let memory = beside_future(n, size, Executor::new(), |executor, number| {
            let body = yields(number, 1, yield_now);
            drop(executor.spawn(Priority::DEFAULT, body).expect("memory"));
        });
        Some(memory)
    }
}
