//! Demotion: what the traces cannot show (rule B13), what others see, and the second queue.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::common::{Counter, Log, executor_with, level, spawn};
use corank::{
    Config, Demotion, Executor, Interrupted, LEVELS, Levels, Policy, State, Step, yield_now,
};

thread_local! {
    static CLOCK: Cell<u64> = const { Cell::new(0) };
    static READS: Cell<u32> = const { Cell::new(0) };
}

fn clock() -> u64 {
    READS.set(READS.get() + 1);
    CLOCK.get()
}

/// Lets so many microseconds pass.
fn pass(microseconds: u64) {
    CLOCK.set(CLOCK.get() + 1000 * microseconds);
}

/// The quantum of the executors here: 32 units of 3 µs.
const QUANTUM: Duration = Duration::from_micros(96);

fn timed(demotion: Demotion) -> Executor {
    executor_with(Config::new().clock(clock).demotion(demotion))
}

/// Demotes after each poll by this many levels.
fn by_polls(levels: u8) -> Executor {
    executor_with(Config::new().demotion(Demotion::after_polls(1).levels(levels)))
}

/// Spawns a coroutine whose polls last so many microseconds each and then yield.
///
/// Returns the levels that it had at the beginning of each poll.
fn levels_of(executor: &Rc<Executor>, at: u8, polls: &'static [u64]) -> Vec<u8> {
    let (inner, levels) = (executor.clone(), Rc::new(Cell::new(Vec::new())));
    let seen = levels.clone();
    drop(spawn(executor, at, async move {
        for &time in polls {
            let mut so_far = seen.take();
            so_far.push(inner.published().running().most_urgent().unwrap().level());
            seen.set(so_far);
            pass(time);
            yield_now().await;
        }
    }));
    executor.run_until_idle();
    levels.take()
}

#[test]
fn polls_that_last_are_demoted_after_each_quantum() {
    let executor = Rc::new(timed(Demotion::after(QUANTUM).levels(10)));
    // 31 units of 32, one more, a whole quantum, a quantum and more, and no further.
    let levels = levels_of(&executor, 5, &[92, 2, 96, 96, 1000, 1000]);
    assert_eq!(levels, [5, 5, 5, 15, 25, 25]);
}

#[test]
fn one_long_poll_is_demoted_several_times_at_once() {
    let executor = Rc::new(timed(Demotion::after(QUANTUM).levels(10)));
    assert_eq!(levels_of(&executor, 5, &[2 * 96, 0]), [5, 15]);
    assert_eq!(levels_of(&executor, 50, &[1_000_000, 0]), [50, 63]);
}

#[test]
fn a_poll_counts_as_a_32nd_of_the_quantum_at_least() {
    let executor = Rc::new(timed(Demotion::after(QUANTUM).levels(10)));
    let (inner, polls) = (executor.clone(), Counter::new());
    let counted = polls.clone();
    drop(spawn(&executor, 5, async move {
        while inner.published().running().most_urgent() == Some(level(5)) {
            counted.add();
            yield_now().await;
        }
    }));
    executor.run_until_idle();
    assert_eq!(polls.count(), 64, "two quanta of 32 polls without any time");
}

#[test]
fn a_wait_ends_the_use() {
    let executor = Rc::new(timed(Demotion::after(QUANTUM).levels(10)));
    let inner = executor.clone();
    let long = spawn(&executor, 5, async move {
        let me = corank::current().unwrap();
        for _ in 0..3 {
            pass(1000);
            yield_now().await;
            assert_eq!(inner.priority(me), Some(level(25)));
            // Ends the poll without a wake.
            let mut waited = false;
            std::future::poll_fn(|_| match std::mem::replace(&mut waited, true) {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            })
            .await;
            assert_eq!(inner.priority(me), Some(level(5)));
        }
    });
    for _ in 0..3 {
        executor.run_until_idle();
        assert_eq!(executor.priority(long.id()), Some(level(5)));
        assert!(executor.wake(long.id()));
    }
    executor.run_until_idle();
    assert!(long.try_join().is_ok());
}

#[test]
fn the_time_of_what_preempts_a_poll_is_not_counted() {
    let executor = Rc::new(timed(Demotion::after(QUANTUM).levels(10)));
    let inner = executor.clone();
    drop(spawn(&executor, 20, async move {
        let me = corank::current().unwrap();
        drop(inner.spawn(level(1), async { pass(1000) }));
        pass(40);
        inner.preempt(Interrupted::Ready, |preempted| {
            assert_eq!(preempted.step(), Step::Ran);
        });
        pass(40);
        yield_now().await;
        assert_eq!(inner.priority(me), Some(level(20)));
        assert_eq!(inner.state(me), Some(State::Running));
        pass(96 + 12);
        yield_now().await;
        // 14 units before, 14 after, and 37.
        assert_eq!(inner.priority(me), Some(level(30)));
    }));
    executor.run_until_idle();
    assert_eq!(executor.live(), 0);
}

#[test]
fn without_a_clock_time_is_what_advance_says() {
    let config = Config::new().demotion(Demotion::after(QUANTUM).levels(10));
    let executor = Rc::new(executor_with(config));
    let inner = executor.clone();
    drop(spawn(&executor, 5, async move {
        inner.advance(2 * 96_000);
        yield_now().await;
        assert_eq!(inner.published().running(), Levels::NONE.with(level(15)));
    }));
    executor.run_until_idle();
    assert_eq!(executor.live(), 0);
}

/// Statistics read the clock as well.
#[cfg(not(feature = "stats"))]
#[test]
fn the_clock_is_read_before_polls_and_after_those_that_yield() {
    let executor = timed(Demotion::after(QUANTUM));
    let waits = spawn(&executor, 5, std::future::pending::<()>());
    executor.run_until_idle();
    assert_eq!(READS.replace(0), 1);
    drop(spawn(&executor, 5, yield_now()));
    executor.run_until_idle();
    assert_eq!(READS.replace(0), 3);
    assert!(waits.cancel());

    let polls = executor_with(
        Config::new()
            .clock(clock)
            .demotion(Demotion::after_polls(1)),
    );
    drop(spawn(&polls, 5, yield_now()));
    polls.run_until_idle();
    assert_eq!(READS.replace(0), 0);
}

#[test]
fn parameters_are_brought_into_range() {
    assert_eq!(Demotion::after_polls(0), Demotion::after_polls(1));
    assert_eq!(Demotion::after_polls(200), Demotion::after_polls(32));
    assert_eq!(
        Demotion::after(Duration::ZERO),
        Demotion::after(Duration::from_nanos(32))
    );
    assert_eq!(
        Demotion::after(Duration::MAX),
        Demotion::after(Duration::from_secs(1000))
    );
    let least = Demotion::after_polls(1).levels(LEVELS as u8 - 1);
    assert_eq!(Demotion::after_polls(1).levels(255), least);
}

#[test]
fn published_words_show_the_lowered_level() {
    let executor = by_polls(10);
    let long = spawn(&executor, 20, async {
        loop {
            yield_now().await;
        }
    });
    let mut seen = Vec::new();
    for _ in 0..4 {
        assert_eq!(executor.step(), Step::Ran);
        let published = executor.published();
        assert_eq!(published.ready(), executor.ready());
        assert_eq!(published.urgency(), executor.ready());
        seen.push(executor.ready().bits());
    }
    assert_eq!(seen, [1 << 20, 1 << 30, 1 << 40, 1 << 40]);
    assert_eq!(executor.base_priority(long.id()), Some(level(20)));
    assert!(executor.reprioritize(long.id(), level(21)));
    assert_eq!(executor.ready().bits(), 1 << 21);
}

/// Fills the second queue of level 5 with coroutines that log their names when they run again.
fn second_queue(executor: &Executor, log: &Log) -> [corank::JoinHandle<()>; 4] {
    let handles = ["a", "b", "c", "d"].map(|name| {
        let log = log.clone();
        spawn(executor, 5, async move {
            yield_now().await;
            log.push(name);
        })
    });
    for _ in 0..4 {
        assert_eq!(executor.step(), Step::Ran);
    }
    handles
}

#[test]
fn a_coroutine_leaves_the_second_queue_from_any_position() {
    for cancelled in 0..16_u8 {
        let (executor, log) = (by_polls(0), Log::default());
        let handles = second_queue(&executor, &log);
        let mut left = Vec::new();
        for (at, (handle, name)) in handles.iter().zip(["a", "b", "c", "d"]).enumerate() {
            if cancelled & 1 << at != 0 {
                assert!(handle.cancel());
            } else {
                left.push(name);
            }
        }
        let ready = if left.is_empty() { 0 } else { 1 << 5 };
        assert_eq!(executor.ready().bits(), ready);
        assert_eq!(executor.published().ready().bits(), ready);
        // A first queue that was empty in between has no trace of them.
        let of_first = log.clone();
        drop(spawn(&executor, 5, async move { of_first.push("first") }));
        left.insert(0, "first");
        executor.run_until_idle();
        assert_eq!(log.take(), left.join(" "));
        assert_eq!(executor.ready(), Levels::NONE);
        assert_eq!(executor.live(), 0);
    }
}

#[test]
fn a_level_stays_ready_while_either_queue_has_a_coroutine() {
    let (executor, log) = (by_polls(0), Log::default());
    let [a, b, c, d] = second_queue(&executor, &log);
    let first = spawn(&executor, 5, async {});
    assert_eq!(executor.step(), Step::Ran);
    assert!(first.has_exited());
    assert_eq!(executor.ready().bits(), 1 << 5, "the first queue is empty");
    let first = spawn(&executor, 5, std::future::pending::<()>());
    for handle in [a, b, c, d] {
        assert!(handle.cancel());
        assert_eq!(executor.ready().bits(), 1 << 5);
    }
    assert!(first.cancel());
    assert_eq!(executor.ready(), Levels::NONE);
}

#[test]
fn an_executor_drops_what_is_in_its_second_queues() {
    let dropped = Counter::new();
    let executor = by_polls(10);
    for at in [3, 3, 4, 60] {
        let guard = dropped.guard();
        drop(spawn(&executor, at, async move {
            let _guard = guard;
            loop {
                yield_now().await;
            }
        }));
    }
    for _ in 0..50 {
        assert_eq!(executor.step(), Step::Ran);
    }
    drop(executor);
    assert_eq!(dropped.count(), 4);
}

#[test]
fn a_panic_in_a_counted_poll_ends_alone() {
    let executor = by_polls(10);
    let log = Log::default();
    let mine = log.clone();
    #[cfg(feature = "std")]
    let bad = spawn(&executor, 5, async {
        yield_now().await;
        std::panic::resume_unwind(Box::new("on purpose"))
    });
    drop(spawn(&executor, 5, async move {
        yield_now().await;
        mine.push("good");
    }));
    executor.run_until_idle();
    assert_eq!(log.take(), "good");
    #[cfg(feature = "std")]
    assert!(matches!(bad.try_join(), Ok(Err(_))));
    let again = spawn(&executor, 5, async { 1 });
    executor.run_until_idle();
    assert!(matches!(again.try_join(), Ok(Ok(1))));
}

#[test]
fn bounded_picks_go_round_lowered_levels() {
    let config = Config::new()
        .policy(Policy::bounded(2))
        .demotion(Demotion::after_polls(1).levels(63));
    let (executor, polls) = (executor_with(config), Counter::new());
    let counted = polls.clone();
    // Demoted to level 63, below one that is always ready and never demoted.
    drop(spawn(&executor, 0, async move {
        loop {
            counted.add();
            yield_now().await;
        }
    }));
    let busy = spawn(
        &executor,
        1,
        std::future::poll_fn(|_| std::task::Poll::<()>::Pending),
    );
    for _ in 0..100 {
        assert_eq!(executor.step(), Step::Ran);
        executor.wake(busy.id());
    }
    assert!(polls.count() >= 25, "{} of 100", polls.count());
}

#[cfg(feature = "std")]
mod shared {
    use super::*;
    use corank::SharedExecutor;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;

    #[test]
    fn workers_pass_over_what_was_demoted() {
        let executor =
            SharedExecutor::with(Config::new().demotion(Demotion::after_polls(1).levels(10)));
        let worker = executor.worker(Waker::noop().clone());
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = polls.clone();
        let long = executor
            .spawn(level(5), async move {
                loop {
                    counted.fetch_add(1, Ordering::Relaxed);
                    yield_now().await;
                }
            })
            .unwrap();
        for _ in 0..3 {
            assert_eq!(worker.step(), Step::Ran);
        }
        assert_eq!(executor.priority(long.id()), Some(level(25)));
        for at in [5, 15, 25] {
            drop(executor.spawn(level(at), async {}));
            assert_eq!(worker.step(), Step::Ran);
        }
        assert_eq!(polls.load(Ordering::Relaxed), 3, "short ones went first");
        // From outside, while it is in a second queue.
        let remote = long.remote();
        std::thread::spawn(move || remote.reprioritize(level(7)))
            .join()
            .unwrap();
        assert_eq!(worker.step(), Step::Ran);
        assert_eq!(executor.priority(long.id()), Some(level(7)));
        assert!(long.cancel());
        assert_eq!(executor.published().ready(), Levels::NONE);
    }

    /// What is left over is handed on also if it is in a second queue.
    #[test]
    fn an_idle_worker_is_called_for_a_second_queue() {
        struct Called(AtomicUsize);
        impl std::task::Wake for Called {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let executor = Arc::new(SharedExecutor::with(
            Config::new().demotion(Demotion::after_polls(1)),
        ));
        let called = Arc::new(Called(AtomicUsize::new(0)));
        let busy = executor.worker(Waker::noop().clone());
        let forever = || async {
            loop {
                yield_now().await;
            }
        };
        let handles = [(); 2].map(|()| executor.spawn(level(5), forever()).unwrap());
        assert_eq!(busy.step(), Step::Ran);
        assert_eq!(busy.step(), Step::Ran);
        let idle = executor.worker(Waker::from(called.clone()));
        // Both are in the second queue: the idle worker finds one.
        assert_eq!(idle.step(), Step::Ran);
        for handle in handles {
            assert!(handle.cancel());
        }
        assert_eq!(idle.step(), Step::Idle);
        let calls = called.0.load(Ordering::Relaxed);
        let again = executor.spawn(level(5), forever()).unwrap();
        assert_eq!(busy.step(), Step::Ran);
        assert!(called.0.load(Ordering::Relaxed) > calls);
        assert!(again.cancel());
    }
}
