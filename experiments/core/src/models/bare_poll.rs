//! No scheduler at all: boxed futures in an array, polled one after another. The lower bound.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Instant;

use super::{Model, check, returns, yield_by_waker, yields};
use crate::Measured;

pub(crate) struct BarePoll;

type Boxed = Pin<Box<dyn Future<Output = usize>>>;

impl Model for BarePoll {
    fn name(&self) -> &'static str {
        "bare-poll"
    }

    fn yield_now(&self, n: usize, _levels: usize, rounds: usize) -> Measured {
        let mut tasks: Vec<Boxed> = (0..n)
            .map(|number| -> Boxed { Box::pin(yields(number, rounds, yield_by_waker)) })
            .collect();
        let mut context = Context::from_waker(Waker::noop());
        let start = Instant::now();
        let mut done = 0;
        for _ in 0..=rounds {
            done = tasks
                .iter_mut()
                .filter_map(|task| task.as_mut().poll(&mut context).is_ready().then_some(()))
                .count();
        }
        let time = start.elapsed();
        assert_eq!(done, n);
        Some((time, n * rounds))
    }

    fn spawn_join(&self, n: usize, repetitions: usize) -> Measured {
        let mut context = Context::from_waker(Waker::noop());
        let start = Instant::now();
        for _ in 0..repetitions {
            let mut tasks: Vec<Boxed> = Vec::with_capacity(n);
            for number in 0..n {
                tasks.push(Box::pin(returns(number)));
            }
            let mut sum = 0;
            for mut task in tasks {
                if let std::task::Poll::Ready(number) = task.as_mut().poll(&mut context) {
                    sum += number;
                }
            }
            check(sum, n);
        }
        Some((start.elapsed(), n * repetitions))
    }
}
