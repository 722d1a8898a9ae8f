//! Levels of requests whose connections are tasks of tokio.

use std::convert::Infallible;
use std::sync::mpsc;
use std::task::{Context, Poll};

use corank_linux::tower::PriorityLayer;
use corank_linux::{Handle, current};
use futures::future::BoxFuture;
use tower_layer::Layer;
use tower_service::Service;

use super::{LONG, level, run};

/// Answers with the level on which it runs.
#[derive(Clone)]
struct Level;

impl Service<u8> for Level {
    type Response = u8;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<u8, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: u8) -> Self::Future {
        Box::pin(async {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            let (runtime, me) = Handle::current().zip(current()).expect("it is a coroutine");
            Ok(runtime.priority(me).unwrap().level())
        })
    }
}

#[test]
fn a_task_of_tokio_runs_each_request_on_its_level() {
    run(|| async {
        let task = tokio::spawn(async {
            assert!(current().is_none(), "a task is no coroutine");
            let mut service = PriorityLayer::new(|&wanted: &u8| level(wanted)).layer(Level);
            for wanted in [3, 32, 63] {
                assert_eq!(service.call(wanted).await, Ok(wanted));
            }
        });
        task.await.unwrap();
    });
}

#[test]
fn a_request_that_is_given_up_is_cancelled() {
    struct Endless(mpsc::Sender<&'static str>);

    struct Ended(mpsc::Sender<&'static str>);

    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.send("dropped").unwrap();
        }
    }

    impl Service<u8> for Endless {
        type Response = ();
        type Error = Infallible;
        type Future = BoxFuture<'static, Result<(), Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: u8) -> Self::Future {
            let ended = Ended(self.0.clone());
            Box::pin(async move {
                ended.0.send("begun").unwrap();
                std::future::pending().await
            })
        }
    }

    run(|| async {
        let (send, receive) = mpsc::channel();
        let task = tokio::spawn(async move {
            let mut service = PriorityLayer::new(|_: &u8| level(3)).layer(Endless(send));
            service.call(0).await
        });
        let begun = tokio::task::spawn_blocking(move || {
            assert_eq!(receive.recv_timeout(LONG), Ok("begun"));
            receive
        });
        let receive = begun.await.unwrap();
        task.abort();
        let ended = tokio::task::spawn_blocking(move || receive.recv_timeout(LONG));
        assert_eq!(ended.await.unwrap(), Ok("dropped"));
    });
}
