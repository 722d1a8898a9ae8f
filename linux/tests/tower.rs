//! The layer that chooses a level for each request.

#![cfg(all(feature = "tower", not(loom)))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;
#[cfg(feature = "hyper")]
#[path = "tower/http2.rs"]
mod http2;
#[cfg(feature = "hyper")]
#[path = "tower/overload.rs"]
mod overload;
#[path = "tower/shedding.rs"]
mod shedding;

use std::convert::Infallible;
use std::future::{Ready, poll_fn, ready};
use std::pin::pin;
use std::task::{Context, Poll};

use corank_linux::tower::PriorityLayer;
use corank_linux::{Builder, Handle, Priority, current, yield_now};
use tower_layer::Layer;
use tower_service::Service;

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

fn own_level() -> u8 {
    let me = Handle::current().zip(current()).unwrap();
    me.0.priority(me.1).unwrap().level()
}

/// Answers with the levels of its two polls; not ready the first time.
struct Levels {
    ready: bool,
}

impl Service<u8> for Levels {
    type Response = [u8; 2];
    type Error = Infallible;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<[u8; 2], Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if !std::mem::replace(&mut self.ready, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: u8) -> Self::Future {
        Box::pin(async {
            let first = own_level();
            yield_now().await;
            Ok([first, own_level()])
        })
    }
}

#[test]
fn each_request_runs_on_its_level() {
    let runtime = Builder::new().workers(1).build().unwrap();
    runtime.block_on_at(level(20), async {
        let layer = PriorityLayer::new(|&wanted: &u8| level(wanted));
        let mut service = layer.layer(Levels { ready: false });
        poll_fn(|cx| service.poll_ready(cx)).await.unwrap();
        for wanted in [3, 20, 63] {
            assert_eq!(service.call(wanted).await, Ok([wanted; 2]));
            assert_eq!(own_level(), 20);
        }
        // A request whose future is dropped leaves no trace.
        {
            let mut given_up = pin!(service.call(50));
            assert!(futures::poll!(given_up.as_mut()).is_pending());
            assert_eq!(own_level(), 50);
        }
        assert_eq!(own_level(), 20);
    });
}

/// Outside of a runtime there are no levels: a request that asks for one fails.
#[test]
#[should_panic(expected = "PriorityLayer serves a request where no runtime of corank-linux runs")]
fn a_request_outside_of_a_runtime_fails_loudly() {
    struct Same;
    impl Service<u8> for Same {
        type Response = u8;
        type Error = Infallible;
        type Future = Ready<Result<u8, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: u8) -> Self::Future {
            ready(Ok(request))
        }
    }
    let mut service = PriorityLayer::new(|_: &u8| Priority::MOST_URGENT).layer(Same);
    let _ = futures::executor::block_on(service.call(7));
}
