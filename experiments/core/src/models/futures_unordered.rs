//! `FuturesUnordered`: not an executor, but what many programs use as one.

use std::time::Instant;

use futures::StreamExt;
use futures::executor::block_on;
use futures::stream::FuturesUnordered;

use super::{Model, check, returns, yield_by_waker, yields};
use crate::Measured;
use crate::memory::beside_future;
use crate::ring::Ring;

pub(crate) struct Unordered;

impl Model for Unordered {
    fn name(&self) -> &'static str {
        "futures-unordered"
    }

    fn yield_now(&self, n: usize, _levels: usize, rounds: usize) -> Measured {
        let tasks: FuturesUnordered<_> = (0..n)
            .map(|number| yields(number, rounds, yield_by_waker))
            .collect();
        let start = Instant::now();
        check(block_on(tasks.fold(0, async |sum, number| sum + number)), n);
        Some((start.elapsed(), n * rounds))
    }

    fn spawn_join(&self, n: usize, repetitions: usize) -> Measured {
        let start = Instant::now();
        block_on(async {
            let mut tasks = FuturesUnordered::new();
            for _ in 0..repetitions {
                for number in 0..n {
                    tasks.push(returns(number));
                }
                let mut sum = 0;
                while let Some(number) = tasks.next().await {
                    sum += number;
                }
                check(sum, n);
            }
        });
        Some((start.elapsed(), n * repetitions))
    }

    fn wake(&self, n: usize, rounds: usize) -> Measured {
        let ring = Ring::new(n, rounds);
        let tasks: FuturesUnordered<_> = (0..n).map(|place| ring.clone().sit(place)).collect();
        let start = Instant::now();
        ring.start();
        block_on(tasks.for_each(async |()| {}));
        Some((start.elapsed(), ring.hops()))
    }

    fn memory(&self, n: usize) -> Option<f64> {
        let size = size_of_val(&yields(0, 0, yield_by_waker));
        let memory = beside_future(n, size, FuturesUnordered::new(), |tasks, number| {
            tasks.push(yields(number, 1, yield_by_waker));
        });
        Some(memory)
    }
}
