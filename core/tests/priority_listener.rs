//! Priority listeners: what works for a coroutine outside the executor learns its live level.
//!
//! These are rules I2, I4 and I9.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::common::{Counter, executor, level, spawn};
use corank::{CoroutineId, Priority, PriorityListener, State, current};

thread_local! {
    /// The levels that listeners were told, in order.
    static TOLD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn told() -> Vec<u8> {
    TOLD.with(RefCell::take)
}

/// A request to the outside that never changes hands.
///
/// It is done when `done` says so.
struct Request {
    listener: PriorityListener,
    done: Rc<Cell<bool>>,
    /// The coroutine that waits, if it is not the one that polls.
    waits: Option<CoroutineId>,
    /// The place where the outside finds the listener.
    place: Rc<Cell<*const PriorityListener>>,
}

impl Request {
    fn new(outside: &Outside) -> Self {
        // SAFETY: noting a level calls nothing of the crate.
        let listener = unsafe {
            PriorityListener::new(|_, level| {
                TOLD.with(|told| told.borrow_mut().push(level.level()))
            })
        };
        Self {
            listener,
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
        let listener = unsafe { self.as_ref().map_unchecked(|request| &request.listener) };
        self.place.set(&raw const *listener);
        match self.waits {
            Some(id) => assert!(listener.wait_as(id)),
            None => listener.wait(cx),
        }
        Poll::Pending
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.place.set(std::ptr::null());
    }
}

/// The side outside the executor, which completes a request.
struct Outside {
    done: Rc<Cell<bool>>,
    place: Rc<Cell<*const PriorityListener>>,
}

impl Outside {
    fn new() -> Self {
        Self {
            done: Rc::default(),
            place: Rc::new(Cell::new(std::ptr::null())),
        }
    }

    fn listener(&self) -> Option<&PriorityListener> {
        // SAFETY: a request that is dropped takes its listener from here.
        unsafe { self.place.get().as_ref() }
    }

    fn complete(&self, executor: &corank::Executor) {
        self.done.set(true);
        executor.within(|| self.listener().expect("a coroutine waits").wake());
    }
}

#[test]
fn a_change_is_reported_at_once() {
    let executor = executor();
    let outside = Outside::new();
    let waiting = spawn(&executor, 40, Request::new(&outside));
    executor.run_until_idle();
    assert_eq!(outside.listener().unwrap().level(), level(40));
    assert_eq!(told(), []);
    waiting.reprioritize(level(7));
    assert_eq!(told(), [7]);
    waiting.reprioritize(level(7));
    assert_eq!(told(), [], "the same level again is no change");
    waiting.reprioritize(level(50));
    assert_eq!(told(), [50]);
    assert_eq!(outside.listener().unwrap().level(), level(50));
    outside.complete(&executor);
    assert_eq!(executor.run_until_idle(), 1);
    assert!(waiting.has_exited());
    assert_eq!(told(), []);
}

/// Donated urgency reaches the outside, and leaves it again.
///
/// A joins B, which joins C, which waits for the outside. The urgency is that of A.
#[test]
fn an_inherited_level_is_reported() {
    let executor = executor();
    let outside = Outside::new();
    let inner = spawn(&executor, 40, Request::new(&outside));
    let middle = spawn(&executor, 30, async move { inner.await.unwrap() });
    executor.run_until_idle();
    assert_eq!(told(), [], "it lent before the wait began");
    assert_eq!(outside.listener().unwrap().level(), level(30));
    let outer = spawn(&executor, 1, async move { middle.await.unwrap() });
    executor.run_until_idle();
    assert_eq!(told(), [1]);
    assert_eq!(outside.listener().unwrap().level(), level(1));
    outer.cancel();
    assert_eq!(told(), [30], "the loan ends with the one that lent");
    outside.complete(&executor);
    executor.run_until_idle();
    assert_eq!(told(), []);
    assert!(outside.listener().is_none());
}

#[test]
fn several_listeners_of_one_coroutine() {
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
fn a_dropped_listener_is_not_notified() {
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
    // `join_all` polls with wakers of its own from some size on. A request that is polled by such a
    // waker is woken by it.
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

/// The coroutine that polls need not be the one that waits.
#[test]
fn the_waiting_coroutine_need_not_poll() {
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
    assert_eq!(outside.listener().unwrap().level(), level(20));
    sleeper.reprioritize(level(4));
    poller.reprioritize(level(3));
    assert_eq!(told(), [4], "the level of the waiter, not of the poller");
    executor.within(|| outside.listener().unwrap().wake());
    assert_eq!(executor.run_until_idle(), 1);
    assert!(sleeper.has_exited());
    assert_eq!(executor.state(poller.id()), Some(State::Blocked));
    poller.cancel();
}

#[test]
fn code_outside_a_coroutine_has_the_default_level() {
    let outside = Outside::new();
    let mut request = pin!(Request::new(&outside));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(request.as_mut().poll(&mut cx).is_pending());
    assert_eq!(outside.listener().unwrap().level(), Priority::DEFAULT);
    assert_eq!(current(), None);
}

/// A coroutine that several workers may poll waits like code outside a coroutine.
///
/// Its waker is called.
#[cfg(feature = "std")]
#[test]
fn a_listener_ignores_a_coroutine_of_several_workers() {
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
    assert_eq!(outside.listener().unwrap().level(), Priority::DEFAULT);
    waiting.reprioritize(level(2));
    assert_eq!(told(), []);
    // Waiting by identifier does not work either.
    let own = executor.spawn(level(9), async {}).unwrap();
    worker.within(|| {
        // SAFETY: pinned in its box, which stays until the end of the test.
        let listener = unsafe { Pin::new_unchecked(outside.listener().unwrap()) };
        assert!(!listener.wait_as(own.id()));
    });
    REQUEST.set(Some(Box::pin(Request::new(&outside))));
    executor.wake(waiting.id());
    worker.run_until_idle();
    outside.done.set(true);
    outside.listener().unwrap().wake();
    worker.run_until_idle();
    assert!(waiting.has_exited());
    drop(REQUEST.take());
}
