//! smol's `async-executor`, the variant for one thread.

use std::time::Instant;

use async_executor::LocalExecutor;
use futures::executor::block_on;

use super::{Model, check, returns, yield_by_waker, yields};
use crate::Measured;
use crate::memory::beside_future;
use crate::ring::Ring;

pub(crate) struct AsyncExecutor;

impl Model for AsyncExecutor {
    fn name(&self) -> &'static str {
        "async-executor"
    }

    fn yield_now(&self, n: usize, _levels: usize, rounds: usize) -> Measured {
        let executor = LocalExecutor::new();
        let tasks: Vec<_> = (0..n)
            .map(|number| executor.spawn(yields(number, rounds, yield_by_waker)))
            .collect();
        let start = Instant::now();
        block_on(executor.run(async {
            for task in tasks {
                task.await;
            }
        }));
        Some((start.elapsed(), n * rounds))
    }

    fn spawn_join(&self, n: usize, repetitions: usize) -> Measured {
        let executor = LocalExecutor::new();
        let start = Instant::now();
        block_on(executor.run(async {
            for _ in 0..repetitions {
                let mut tasks = Vec::with_capacity(n);
                for number in 0..n {
                    tasks.push(executor.spawn(returns(number)));
                }
                let mut sum = 0;
                for task in tasks {
                    sum += task.await;
                }
                check(sum, n);
            }
        }));
        Some((start.elapsed(), n * repetitions))
    }

    fn wake(&self, n: usize, rounds: usize) -> Measured {
        let executor = LocalExecutor::new();
        let ring = Ring::new(n, rounds);
        let tasks: Vec<_> = (0..n)
            .map(|place| executor.spawn(ring.clone().sit(place)))
            .collect();
        while executor.try_tick() {}
        let start = Instant::now();
        ring.start();
        block_on(executor.run(async {
            for task in tasks {
                task.await;
            }
        }));
        Some((start.elapsed(), ring.hops()))
    }

    fn memory(&self, n: usize) -> Option<f64> {
        let size = size_of_val(&yields(0, 0, yield_by_waker));
        let memory = beside_future(n, size, LocalExecutor::new(), |executor, number| {
            executor.spawn(yields(number, 1, yield_by_waker)).detach();
        });
        Some(memory)
    }
}
