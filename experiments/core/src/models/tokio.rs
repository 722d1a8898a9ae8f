//! tokio's runtime of one thread.

use std::time::Instant;

use tokio::runtime::{Builder, Runtime};
use tokio::task::{LocalSet, yield_now};

use super::{Model, check, returns, yields};
use crate::Measured;
use crate::memory::beside_future;
use crate::ring::Ring;

pub(crate) struct Tokio;

fn runtime() -> Runtime {
    Builder::new_current_thread()
        .build()
        .expect("a runtime without drivers needs nothing of the system")
}

impl Model for Tokio {
    fn name(&self) -> &'static str {
        "tokio"
    }

    fn yield_now(&self, n: usize, _levels: usize, rounds: usize) -> Measured {
        let runtime = runtime();
        let handles: Vec<_> = (0..n)
            .map(|number| runtime.spawn(yields(number, rounds, yield_now)))
            .collect();
        let start = Instant::now();
        runtime.block_on(async {
            for handle in handles {
                handle.await.expect("no panic");
            }
        });
        Some((start.elapsed(), n * rounds))
    }

    fn spawn_join(&self, n: usize, repetitions: usize) -> Measured {
        let runtime = runtime();
        let start = Instant::now();
        runtime.block_on(async {
            for _ in 0..repetitions {
                let mut handles = Vec::with_capacity(n);
                for number in 0..n {
                    handles.push(tokio::spawn(returns(number)));
                }
                let mut sum = 0;
                for handle in handles {
                    sum += handle.await.expect("no panic");
                }
                check(sum, n);
            }
        });
        Some((start.elapsed(), n * repetitions))
    }

    fn wake(&self, n: usize, rounds: usize) -> Measured {
        let (runtime, local) = (runtime(), LocalSet::new());
        let ring = Ring::new(n, rounds);
        let handles: Vec<_> = (0..n)
            .map(|place| local.spawn_local(ring.clone().sit(place)))
            .collect();
        // All tasks wait before the token starts.
        local.block_on(&runtime, yield_now());
        let start = Instant::now();
        ring.start();
        local.block_on(&runtime, async {
            for handle in handles {
                handle.await.expect("no panic");
            }
        });
        Some((start.elapsed(), ring.hops()))
    }

    fn memory(&self, n: usize) -> Option<f64> {
        let size = size_of_val(&yields(0, 0, yield_now));
        let memory = beside_future(n, size, runtime(), |runtime, number| {
            drop(runtime.spawn(yields(number, 1, yield_now)));
        });
        Some(memory)
    }
}
