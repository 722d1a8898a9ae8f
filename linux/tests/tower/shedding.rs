//! A layer that sheds load gives back what a request had, however the request ends.

use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use corank_linux::tower::{PriorityLayer, PriorityService, Refusal, Shed, Shedding};
use corank_linux::{Builder, JoinError, Priority, spawn, sync, yield_now};
use tower_layer::Layer;
use tower_service::Service;

use crate::level;

/// A request: what is to be done, on level 40.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Does what the request says; true is the answer.
#[derive(Clone)]
struct Worker;

impl Service<Work> for Worker {
    type Response = bool;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<bool, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, work: Work) -> Self::Future {
        Box::pin(async move {
            work.await;
            Ok(true)
        })
    }
}

type Choose = fn(&Work) -> Priority;
type Answer = fn(&Refusal) -> bool;
type Guarded = PriorityService<Worker, Choose, Shed<Answer>>;

/// Returns a service that admits a request only if a worker is free, once it has served one.
async fn one_at_a_time() -> Guarded {
    let limits = Shedding::new().limit(Priority::MOST_URGENT, Duration::from_nanos(1));
    let choose: Choose = |_| level(40);
    let answer: Answer = |refusal| {
        assert_eq!(refusal.level(), level(40));
        assert!(refusal.wait() > refusal.limit());
        false
    };
    let layer = PriorityLayer::new(choose).shed_with(limits, answer);
    let mut service = layer.layer(Worker);
    let begun = Instant::now();
    let lasts = async move { while begun.elapsed() < Duration::from_millis(1) {} };
    assert_eq!(service.call(Box::pin(lasts)).await, Ok(true));
    service
}

/// Tests whether a request is admitted: none is ready then.
async fn admits(service: &mut Guarded) -> bool {
    let Ok(admitted) = service.call(Box::pin(async {})).await;
    admitted
}

async fn yields_forever() {
    loop {
        yield_now().await;
    }
}

fn test<F: Future<Output = ()>>(body: impl FnOnce() -> F) {
    let runtime = Builder::new().workers(1).build().unwrap();
    runtime.block_on_at(level(10), body());
}

#[test]
fn a_request_that_is_dropped_before_its_first_poll_leaves_nothing() {
    test(|| async {
        let mut service = one_at_a_time().await;
        let given_up = service.call(Box::pin(pending()));
        assert!(!admits(&mut service).await);
        drop(given_up);
        assert!(admits(&mut service).await);
    });
}

#[test]
fn a_request_that_is_dropped_while_it_is_ready_leaves_nothing() {
    test(|| async {
        let mut service = one_at_a_time().await;
        let mut given_up = Box::pin(service.call(Box::pin(yields_forever())));
        // The first poll changes the level.
        for _ in 0..3 {
            assert!(futures::poll!(given_up.as_mut()).is_pending());
            assert!(!admits(&mut service).await);
        }
        drop(given_up);
        assert!(admits(&mut service).await);
    });
}

#[test]
fn a_request_that_waits_for_something_else_is_no_load() {
    test(|| async {
        let mut service = one_at_a_time().await;
        let mut waits = Box::pin(service.call(Box::pin(pending())));
        assert!(futures::poll!(waits.as_mut()).is_pending());
        assert!(!admits(&mut service).await);
        for _ in 0..2 {
            // A poll of the coroutine that has woken itself says nothing about the request.
            yield_now().await;
            assert!(futures::poll!(waits.as_mut()).is_pending());
            assert!(admits(&mut service).await);
        }
        drop(waits);
        assert!(admits(&mut service).await);
    });
}

#[test]
fn a_request_that_panics_leaves_nothing() {
    test(|| async {
        let mut service = one_at_a_time().await;
        for yields in 0..3 {
            let request = service.call(Box::pin(async move {
                for _ in 0..yields {
                    yield_now().await;
                }
                panic!("on purpose");
            }));
            let coroutine = spawn(level(20), request).unwrap();
            assert!(!admits(&mut service).await);
            assert!(matches!(coroutine.await, Err(JoinError::Panicked(_))));
            assert!(admits(&mut service).await);
        }
    });
}

#[test]
fn a_coroutine_that_is_cancelled_leaves_nothing() {
    test(|| async {
        let mut service = one_at_a_time().await;
        let executor = sync::Shared::here().unwrap();
        let polled = std::sync::Arc::new(sync::Event::new_in(executor));
        for waits_for_first_poll in [false, true] {
            polled.reset();
            let begun = polled.clone();
            let request = service.call(Box::pin(async move {
                begun.set();
                yields_forever().await;
            }));
            let coroutine = spawn(level(20), request).unwrap();
            if waits_for_first_poll {
                polled.wait().await;
            }
            assert!(!admits(&mut service).await);
            coroutine.cancel();
            assert!(matches!(coroutine.await, Err(JoinError::Cancelled)));
            assert!(admits(&mut service).await);
        }
    });
}

/// The layer is used by several services, and their clones: they have one account.
#[test]
fn services_of_a_layer_share_its_accounts() {
    test(|| async {
        let mut service = one_at_a_time().await;
        let other = service.clone();
        let request = service.call(Box::pin(pending()));
        assert!(!admits(&mut other.clone()).await);
        drop(request);
        assert!(admits(&mut other.clone()).await);
    });
}
