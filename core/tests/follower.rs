//! Followers: what works for a coroutine outside the executor learns its live level (rules I2, I4,
//! I9).

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::common::{Counter, executor, level, spawn};
use corank::{CoroutineId, Follower, Priority, State, current};

thread_local! {
    /// The levels that followers were told, in order.
    static TOLD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn told() -> Vec<u8> {
    TOLD.with(RefCell::take)
}

/// A request to the outside that never changes hands: done when `done` says so.
struct Request {
    follower: Follower,
    done: Rc<Cell<bool>>,
    /// Who waits, if it is not whoever polls.
    waits: Option<CoroutineId>,
    /// Where the outside finds the follower.
    place: Rc<Cell<*const Follower>>,
}

impl Request {
    fn new(outside: &Outside) -> Self {
        // SAFETY: noting a level calls nothing of the crate.
        let follower = unsafe {
            Follower::new(|_, level| TOLD.with(|told| told.borrow_mut().push(level.level())))
        };
        Self {
            follower,
            done: outside.done.clone(),
            waits: None,
            place: outside.place.clone(),
        }
    }
}

impl Future for Request {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.done.get() {
            return Poll::Ready(());
        }
        // SAFETY: pinned with the request.
        let follower = unsafe { self.as_ref().map_unchecked(|request| &request.follower) };
        self.place.set(&raw const *follower);
        match self.waits {
            Some(id) => assert!(follower.wait_as(id)),
            None => follower.wait(cx),
        }
        Poll::Pending
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.place.set(std::ptr::null());
    }
}

/// The other side.
struct Outside {
    done: Rc<Cell<bool>>,
    place: Rc<Cell<*const Follower>>,
}

impl Outside {
    fn new() -> Self {
        Self {
            done: Rc::default(),
            place: Rc::new(Cell::new(std::ptr::null())),
        }
    }

    fn follower(&self) -> Option<&Follower> {
        // SAFETY: a request that is dropped takes its follower from here.
        unsafe { self.place.get().as_ref() }
    }

    fn complete(&self, executor: &corank::Executor) {
        self.done.set(true);
        executor.within(|| self.follower().expect("someone waits").wake());
    }
}

#[test]
fn a_change_is_told_at_once() {
    let executor = executor();
    let outside = Outside::new();
    let waiting = spawn(&executor, 40, Request::new(&outside));
    executor.run_until_idle();
    assert_eq!(outside.follower().unwrap().level(), level(40));
    assert_eq!(told(), []);
    waiting.reprioritize(level(7));
    assert_eq!(told(), [7]);
    waiting.reprioritize(level(7));
    assert_eq!(told(), [], "the same level again is no change");
    waiting.reprioritize(level(50));
    assert_eq!(told(), [50]);
    assert_eq!(outside.follower().unwrap().level(), level(50));
    outside.complete(&executor);
    assert_eq!(executor.run_until_idle(), 1);
    assert!(waiting.has_exited());
    assert_eq!(told(), []);
}

/// A joins B, which joins C, which waits for the outside: the urgency of A reaches the outside, and
/// leaves it again.
#[test]
fn inherited_urgency_is_told() {
    let executor = executor();
    let outside = Outside::new();
    let inner = spawn(&executor, 40, Request::new(&outside));
    let middle = spawn(&executor, 30, async move { inner.await.unwrap() });
    executor.run_until_idle();
    assert_eq!(told(), [], "it lent before the wait began");
    assert_eq!(outside.follower().unwrap().level(), level(30));
    let outer = spawn(&executor, 1, async move { middle.await.unwrap() });
    executor.run_until_idle();
    assert_eq!(told(), [1]);
    assert_eq!(outside.follower().unwrap().level(), level(1));
    outer.cancel();
    assert_eq!(told(), [30], "the loan ends with the one that lent");
    outside.complete(&executor);
    executor.run_until_idle();
    assert_eq!(told(), []);
    assert!(outside.follower().is_none());
}

#[test]
fn several_followers_of_one_coroutine() {
    let executor = executor();
    let outsides = [Outside::new(), Outside::new(), Outside::new()];
    let requests = outsides.each_ref().map(Request::new);
    let waiting = spawn(&executor, 40, async move {
        let [first, second, third] = requests;
        futures::join!(first, second, third);
    });
    executor.run_until_idle();
    waiting.reprioritize(level(5));
    assert_eq!(told(), [5, 5, 5]);
    for (left, outside) in [2, 1, 0].into_iter().zip(&outsides) {
        outside.complete(&executor);
        executor.run_until_idle();
        waiting.reprioritize(level(6 + left));
        assert_eq!(told(), vec![6 + left; usize::from(left)]);
    }
    assert!(waiting.has_exited());
}

#[test]
fn a_dropped_follower_hears_nothing() {
    let executor = executor();
    let outside = Outside::new();
    let request = Request::new(&outside);
    let waiting = spawn(&executor, 40, async move {
        let mut request = Box::pin(request);
        poll_fn(|cx| {
            assert!(request.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        drop(request);
        std::future::pending::<()>().await;
    });
    executor.run_until_idle();
    waiting.reprioritize(level(1));
    assert_eq!(told(), []);
    waiting.cancel();
}

#[test]
fn the_waker_of_a_combinator_is_called() {
    let executor = executor();
    let (outside, polls) = (Outside::new(), Counter::new());
    let (request, count) = (Request::new(&outside), polls.clone());
    // `join_all` polls with wakers of its own from some size on; one that polls by such a waker is
    // woken by it.
    let waiting = spawn(&executor, 9, async move {
        let mut all = futures::stream::FuturesUnordered::new();
        all.push(request);
        futures::StreamExt::next(&mut all).await;
        count.add();
    });
    executor.run_until_idle();
    waiting.reprioritize(level(3));
    assert_eq!(told(), [3]);
    outside.complete(&executor);
    assert_eq!(executor.run_until_idle(), 1);
    assert_eq!(polls.count(), 1);
}

/// What polls need not be who waits.
#[test]
fn another_one_waits() {
    let executor = executor();
    let outside = Outside::new();
    let sleeper = spawn(&executor, 20, async {
        let mut woken = false;
        poll_fn(|_| {
            if std::mem::replace(&mut woken, true) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    });
    executor.run_until_idle();
    let mut request = Request::new(&outside);
    request.waits = Some(sleeper.id());
    let poller = spawn(&executor, 10, request);
    executor.run_until_idle();
    assert_eq!(outside.follower().unwrap().level(), level(20));
    sleeper.reprioritize(level(4));
    poller.reprioritize(level(3));
    assert_eq!(told(), [4], "the level of who waits, not of who polls");
    executor.within(|| outside.follower().unwrap().wake());
    assert_eq!(executor.run_until_idle(), 1);
    assert!(sleeper.has_exited());
    assert_eq!(executor.state(poller.id()), Some(State::Blocked));
    poller.cancel();
}

#[test]
fn what_is_no_coroutine_has_the_default_level() {
    let outside = Outside::new();
    let mut request = pin!(Request::new(&outside));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(request.as_mut().poll(&mut cx).is_pending());
    assert_eq!(outside.follower().unwrap().level(), Priority::DEFAULT);
    assert_eq!(current(), None);
}

/// A coroutine that several workers may poll waits like what is no coroutine: its waker is called.
#[cfg(feature = "std")]
#[test]
fn it_does_not_follow_a_coroutine_of_several_workers() {
    thread_local!(static REQUEST: RefCell<Option<Pin<Box<Request>>>> = const { RefCell::new(None) });
    let executor = corank::SharedExecutor::new();
    let worker = executor.worker(Waker::noop().clone());
    let outside = Outside::new();
    REQUEST.set(Some(Box::pin(Request::new(&outside))));
    let polls = || {
        poll_fn(|cx| REQUEST.with_borrow_mut(|request| request.as_mut().unwrap().as_mut().poll(cx)))
    };
    let waiting = executor.spawn(level(9), polls()).unwrap();
    worker.run_until_idle();
    assert_eq!(outside.follower().unwrap().level(), Priority::DEFAULT);
    waiting.reprioritize(level(2));
    assert_eq!(told(), []);
    // By name neither.
    let own = executor.spawn(level(9), async {}).unwrap();
    worker.within(|| {
        // SAFETY: pinned in its box, which stays until the end of the test.
        let follower = unsafe { Pin::new_unchecked(outside.follower().unwrap()) };
        assert!(!follower.wait_as(own.id()));
    });
    REQUEST.set(Some(Box::pin(Request::new(&outside))));
    executor.wake(waiting.id());
    worker.run_until_idle();
    outside.done.set(true);
    outside.follower().unwrap().wake();
    worker.run_until_idle();
    assert!(waiting.has_exited());
    drop(REQUEST.take());
}
