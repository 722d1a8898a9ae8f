//! Panics stay in their coroutine (rule F1), wherever they come from.
//!
//! They come from polls, and from destructors of futures, of outputs and of payloads.

#![cfg(feature = "std")]

use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::common::{Counter, Guard, executor, spawn};
use corank::{Executor, JoinError, JoinHandle, Priority, State, Step, SystemView, yield_now};

/// Panics without a message from the hook.
fn panic_quietly() -> ! {
    resume_unwind(Box::new("on purpose"))
}

fn has_panicked<T>(handle: JoinHandle<T>) -> bool {
    match handle.try_join() {
        Ok(Err(error @ JoinError::Panicked(_))) => {
            assert_eq!(error.to_string(), "the coroutine panicked: on purpose");
            true
        }
        _ => false,
    }
}

/// A value that panics when it is dropped, and counts that.
struct PanicsInDrop(#[expect(dead_code, reason = "counts its drop")] Guard);

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic_quietly();
    }
}

/// Checks that the executor still spawns, runs and joins after something went wrong.
///
/// Its table uses each slot once.
fn assert_works(executor: &Executor) {
    let handles: Vec<_> = (0..3)
        .map(|i| spawn(executor, 7, async move { i }))
        .collect();
    executor.run_until_idle();
    for (i, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.try_join().unwrap().unwrap(), i);
    }
    assert_eq!(executor.live(), 0);
    assert!(executor.published().urgency().is_empty());
}

#[test]
fn a_panic_in_a_poll_ends_its_coroutine_alone() {
    let executor = executor();
    let (drops, after) = (Counter::new(), Counter::new());
    let (guard, count) = (drops.guard(), after.clone());
    let bad = spawn(&executor, 1, async move {
        let _guard = guard;
        yield_now().await;
        panic_quietly();
    });
    drop(spawn(&executor, 2, async move { count.add() }));
    assert_eq!(executor.run_until_idle(), 3);
    assert_eq!((drops.count(), after.count()), (1, 1));
    assert!(has_panicked(bad));
    assert_works(&executor);
}

#[test]
fn joiner_gets_the_payload() {
    let executor = executor();
    let bad = spawn(&executor, 9, async {
        if true {
            resume_unwind(Box::new(17_u32));
        }
    });
    let joiner = spawn(&executor, 3, async move {
        match bad.await {
            Err(JoinError::Panicked(payload)) => *payload.into_inner().downcast::<u32>().unwrap(),
            _ => 0,
        }
    });
    executor.run_until_idle();
    assert_eq!(joiner.try_join().unwrap().unwrap(), 17);
}

#[test]
fn a_panic_in_a_detached_coroutine_ends_it_alone() {
    let executor = executor();
    drop(spawn(&executor, 9, async { panic_quietly() }));
    assert_eq!(executor.run_until_idle(), 1);
    assert_works(&executor);
}

#[test]
fn one_step_runs_one_coroutine_even_if_it_panics() {
    let executor = executor();
    let bad = spawn(&executor, 1, async { panic_quietly() });
    let good = spawn(&executor, 2, async {});
    assert_eq!(executor.step(), Step::Ran);
    assert!(has_panicked::<()>(bad));
    assert_eq!(executor.state(good.id()), Some(State::Ready));
}

#[test]
fn a_panic_in_the_destructor_of_a_cancelled_future_ends_it_alone() {
    let executor = executor();
    let drops = Counter::new();
    let guard = PanicsInDrop(drops.guard());
    let handle = spawn(&executor, 9, async move {
        let _guard = guard;
        pending::<()>().await;
    });
    executor.run_until_idle();
    assert!(handle.cancel());
    assert_eq!(drops.count(), 1);
    assert!(has_panicked(handle));
    assert_works(&executor);
}

/// A future that is ready and whose own destructor panics.
struct ReadyThenPanics(Option<Guard>, #[expect(dead_code)] PanicsInDrop);

impl Future for ReadyThenPanics {
    type Output = Option<Guard>;
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(self.0.take())
    }
}

#[test]
fn a_panic_in_the_destructor_of_a_finished_future_ends_it_alone() {
    let executor = executor();
    let (outputs, drops) = (Counter::new(), Counter::new());
    let future = ReadyThenPanics(Some(outputs.guard()), PanicsInDrop(drops.guard()));
    let handle = spawn(&executor, 9, future);
    assert_eq!(executor.run_until_idle(), 1);
    assert_eq!((outputs.count(), drops.count()), (1, 1));
    assert!(has_panicked(handle));
    assert_works(&executor);
}

/// Two panics in one coroutine, the second while the first is not unwinding any more.
#[test]
fn panics_in_a_poll_and_then_in_the_destructor_end_one_coroutine() {
    struct PanicsTwice(#[expect(dead_code)] PanicsInDrop);
    impl Future for PanicsTwice {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            panic_quietly();
        }
    }
    let executor = executor();
    let drops = Counter::new();
    let handle = spawn(&executor, 9, PanicsTwice(PanicsInDrop(drops.guard())));
    assert_eq!(executor.run_until_idle(), 1);
    assert_eq!(drops.count(), 1);
    assert!(has_panicked(handle));
    assert_works(&executor);
}

#[test]
fn a_panic_in_the_destructor_of_an_output_ends_it_alone() {
    let executor = executor();
    let drops = Counter::new();
    // Detached first: the executor drops the output.
    let output = PanicsInDrop(drops.guard());
    drop(spawn(&executor, 9, async move { output }));
    assert_eq!(executor.run_until_idle(), 1);
    assert_eq!(drops.count(), 1);
    // Exited first: the handle drops the output.
    let output = PanicsInDrop(drops.guard());
    let handle = spawn(&executor, 9, async move { output });
    assert_eq!(executor.run_until_idle(), 1);
    drop(handle);
    assert_eq!(drops.count(), 2);
    assert_works(&executor);
}

#[test]
fn a_panic_in_the_destructor_of_a_payload_ends_it_alone() {
    struct Payload(#[expect(dead_code)] Guard);
    impl Drop for Payload {
        fn drop(&mut self) {
            // Nothing is allocated for this one. What the second panic carries is leaked on
            // purpose.
            resume_unwind(Box::new(()));
        }
    }
    // `Send`, as payloads have to be: the counter does not leave the thread.
    struct Sent(#[expect(dead_code)] Payload);
    // SAFETY: nothing here uses another thread.
    unsafe impl Send for Sent {}
    let executor = executor();
    let drops = Counter::new();
    let payload = Sent(Payload(drops.guard()));
    drop(spawn(&executor, 9, async move {
        resume_unwind(Box::new(payload));
    }));
    assert_eq!(executor.run_until_idle(), 1);
    assert_eq!(drops.count(), 1);
    assert_works(&executor);
}

#[test]
fn a_panic_while_the_executor_is_dropped_leaves_nothing() {
    let executor = executor();
    let drops = Counter::new();
    let mut handles = Vec::new();
    for _ in 0..3 {
        let guard = PanicsInDrop(drops.guard());
        handles.push(spawn(&executor, 9, async move {
            let _guard = guard;
            pending::<()>().await;
        }));
    }
    executor.run_until_idle();
    drop(handles.pop());
    drop(executor);
    assert_eq!(drops.count(), 3);
    assert!(handles.into_iter().all(has_panicked));
}

#[test]
fn a_panic_in_a_nested_executor_stays_there() {
    let outer = executor();
    let handle = spawn(&outer, 5, async {
        let inner = executor();
        let bad = spawn(&inner, 5, async { panic_quietly() });
        inner.run_until_idle();
        has_panicked::<()>(bad) && corank::current().is_some()
    });
    outer.run_until_idle();
    assert!(handle.try_join().unwrap().unwrap());
}

/// A panic of the platform's own code goes on to the platform.
#[test]
fn a_panic_of_the_system_view_propagates() {
    struct Broken;
    impl SystemView for Broken {
        fn most_urgent_elsewhere(&self) -> Option<Priority> {
            resume_unwind(Box::new("the view"));
        }
    }
    let executor = executor();
    let handle = spawn(&executor, 5, async { 1 });
    let caught = catch_unwind(AssertUnwindSafe(|| executor.step_under(&Broken)));
    assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "the view");
    assert_eq!(corank::current(), None);
    executor.run_until_idle();
    assert_eq!(handle.try_join().unwrap().unwrap(), 1);
}

#[test]
fn a_coroutine_woken_and_cancelled_in_its_panicking_poll_has_panicked() {
    let executor = executor();
    let handle = spawn(
        &executor,
        5,
        poll_fn(|cx| -> Poll<()> {
            cx.waker().wake_by_ref();
            corank::cancel(corank::current().unwrap());
            panic_quietly();
        }),
    );
    assert_eq!(executor.run_until_idle(), 1);
    assert!(has_panicked(handle));
    assert_works(&executor);
}

/// An assertion that fails in a coroutine without a handle ends the program.
///
/// All these tests rely on that (`common/asserts.rs`). This test runs itself as a program of its
/// own, and the variable tells that program from the test.
#[cfg(unix)]
#[test]
#[cfg_attr(miri, ignore = "Miri starts no programs")]
fn an_assertion_in_a_detached_coroutine_is_seen() {
    use std::os::unix::process::ExitStatusExt;
    const FAIL: &str = "CORANK_TEST_FAILS";
    if std::env::var_os(FAIL).is_some() {
        let executor = executor();
        drop(spawn(&executor, 9, async { assert_eq!(6 * 9, 42) }));
        executor.run_until_idle();
        return;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "panic::an_assertion_in_a_detached_coroutine_is_seen",
        ])
        .env(FAIL, "")
        .output()
        .unwrap();
    // Aborted.
    assert_eq!(output.status.signal(), Some(6), "{output:?}");
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("in a coroutine"), "{message}");
}
