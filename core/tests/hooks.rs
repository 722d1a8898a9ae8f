//! The observer is called for every transition, in order.

#![cfg(feature = "hooks")]

use std::cell::RefCell;
use std::rc::Rc;

use crate::common::{executor_with, level, spawn};
use corank::sync::{Event, Mutex};
use corank::{Config, CoroutineId, Executor, Exit, Observer, Priority, yield_now};

thread_local! {
    static LOG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn log(entry: String) {
    LOG.with_borrow_mut(|log| log.push(entry));
}

fn take() -> String {
    LOG.take().join(" ")
}

/// An observer that writes each transition with the coroutine's place in the table.
struct Writer;

fn index(id: CoroutineId) -> u32 {
    id.to_bits() as u32
}

// SAFETY: it writes a log of its own.
unsafe impl Observer for Writer {
    fn spawned(&self, id: CoroutineId, priority: Priority) {
        log(format!("spawned:{}@{priority}", index(id)));
    }

    fn woken(&self, id: CoroutineId, priority: Priority) {
        log(format!("woken:{}@{priority}", index(id)));
    }

    fn poll_started(&self, id: CoroutineId, priority: Priority) {
        log(format!("poll:{}@{priority}", index(id)));
    }

    fn poll_ended(&self, id: CoroutineId) {
        log(format!("end:{}", index(id)));
    }

    fn wake_applied(&self, id: CoroutineId) {
        log(format!("wake:{}", index(id)));
    }

    fn blocked(&self, id: CoroutineId) {
        log(format!("block:{}", index(id)));
    }

    fn base_changed(&self, id: CoroutineId, base: Priority) {
        log(format!("base:{}@{base}", index(id)));
    }

    fn donation_began(&self, lender: CoroutineId, borrower: CoroutineId) {
        log(format!("lend:{}-{}", index(lender), index(borrower)));
    }

    fn donation_ended(&self, lender: CoroutineId, borrower: CoroutineId) {
        log(format!("unlend:{}-{}", index(lender), index(borrower)));
    }

    fn reprioritized(&self, id: CoroutineId, from: Priority, to: Priority) {
        log(format!("level:{}:{from}-{to}", index(id)));
    }

    fn exited(&self, id: CoroutineId, exit: Exit) {
        log(format!("exit:{}:{exit:?}", index(id)));
    }
}

fn watched() -> Executor {
    executor_with(Config::new().observer(&Writer))
}

#[test]
fn an_observer_sees_each_transition_from_spawn_to_exit() {
    let executor = watched();
    let event = Rc::new(Event::new());
    let theirs = event.clone();
    drop(spawn(&executor, 5, async move {
        yield_now().await;
        theirs.wait().await;
    }));
    executor.run_until_idle();
    assert_eq!(
        take(),
        "spawned:0@5 poll:0@5 end:0 woken:0@5 poll:0@5 end:0 block:0"
    );
    event.set();
    event.set();
    executor.run_until_idle();
    assert_eq!(take(), "wake:0 woken:0@5 poll:0@5 end:0 exit:0:Finished");
}

#[test]
fn a_join_donates_and_exit_precedes_the_wake() {
    let executor = watched();
    let low = spawn(&executor, 40, async {});
    drop(spawn(&executor, 2, async move { low.await.unwrap() }));
    executor.run_until_idle();
    assert_eq!(
        take(),
        "spawned:0@40 spawned:1@2 poll:1@2 lend:1-0 level:0:40-2 end:1 block:1 \
         poll:0@2 end:0 exit:0:Finished unlend:1-0 wake:1 woken:1@2 \
         poll:1@2 end:1 exit:1:Finished"
    );
}

#[test]
fn levels_are_reported_only_when_they_change() {
    let executor = watched();
    let mutex = Rc::new(Mutex::new(()));
    let theirs = mutex.clone();
    let holder = spawn(&executor, 40, async move {
        let _guard = theirs.lock().await;
        std::future::pending::<()>().await;
    });
    executor.run_until_idle();
    let waiter = spawn(&executor, 9, async move { drop(mutex.lock().await) });
    executor.run_until_idle();
    take();
    waiter.reprioritize(level(9));
    holder.reprioritize(level(30));
    assert_eq!(take(), "base:1@9 base:0@30");
    waiter.reprioritize(level(3));
    assert_eq!(take(), "base:1@3 level:1:9-3 level:0:9-3");
    waiter.cancel();
    assert_eq!(take(), "unlend:1-0 level:0:3-30 exit:1:Cancelled");
}

#[cfg(feature = "std")]
#[test]
fn a_panic_is_reported_as_such() {
    let executor = watched();
    drop(spawn(&executor, 5, async { panic!("on purpose") }));
    executor.run_until_idle();
    assert_eq!(take(), "spawned:0@5 poll:0@5 end:0 exit:0:Panicked");
}

#[test]
fn dropping_the_executor_reports_all_remaining_coroutines() {
    let executor = watched();
    drop(spawn(&executor, 5, std::future::pending::<()>()));
    drop(spawn(&executor, 6, std::future::pending::<()>()));
    executor.step();
    take();
    drop(executor);
    assert_eq!(take(), "exit:0:Cancelled exit:1:Cancelled");
}
