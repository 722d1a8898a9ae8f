//! Tests of levels that threads lend each other.
//!
//! A thread that waits for a lock of its process lends its level to the thread that holds it.
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::hint::{black_box, spin_loop};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;

use corank_user::runtime::{self, Global};
use corank_user::sync::Semaphore;
use corank_user::{Priority, ring, thread};

use crate::support::{one_hart, tests};
use crate::workers::wait_for_calls;

tests![
    an_urgent_worker_gets_the_heap,
    a_loan_counts_until_its_thread_yields,
    another_loan_ends_the_first_one,
    a_loan_needs_another_thread,
];

const MILLISECOND: Duration = Duration::from_millis(1);

fn level(level: u8) -> Priority {
    Priority::new(level).expect("below 64")
}

/// Starts a worker that runs `work` at this level.
fn at<T: Send + 'static>(
    number: u8,
    work: impl AsyncFnOnce() -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let run = move || {
        runtime::run(level(number), Global::Relaxed, async move {
            // The kernel follows a worker's level when its thread comes to rest.
            thread::yield_now();
            work().await
        })
    };
    thread::spawn(run).expect("a thread")
}

/// Returns a closed gate: a thread waits before it in the kernel until another one opens it.
fn gate() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(0).expect("a semaphore"))
}

/// Tests that a worker which needs the heap while a less urgent one holds it goes on.
///
/// The less urgent one is in the middle of the heap most of the time. So some of the timers
/// interrupt it there.
fn an_urgent_worker_gets_the_heap() {
    let _one = one_hart();
    let done = Arc::new(AtomicBool::new(false));
    let theirs = done.clone();
    let busy = at(50, async move || {
        while !theirs.load(Ordering::Acquire) {
            drop(black_box(Box::new([0_u8; 100])));
        }
    });
    let urgent = at(10, async move || {
        for _ in 0..100 {
            ring::sleep(MILLISECOND).await.expect("a call");
            drop(black_box(Box::new([0_u8; 200])));
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(urgent.join(), Ok(()));
    assert_eq!(busy.join(), Ok(()));
}

/// Tests that the holder of a lock goes before a worker whose level is between its own and that of
/// the worker that waits, and behind it when it has unlocked and yielded.
fn a_loan_counts_until_its_thread_yields() {
    let _one = one_hart();
    let [for_holder, for_waiting, for_between] = [(); 3].map(|()| gate());
    let held = Arc::new(AtomicBool::new(true));
    let [locked, between_ran] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let holder_id = Arc::new(AtomicUsize::new(0));
    let between = at(30, {
        let (gate, locked, ran) = (for_between.clone(), locked.clone(), between_ran.clone());
        async move || {
            gate.down();
            // It keeps the hart while it is the most urgent one.
            while !locked.load(Ordering::Acquire) {
                spin_loop();
            }
            ran.store(true, Ordering::Release);
        }
    });
    let waiting = at(10, {
        let (gate, held, holder) = (for_waiting.clone(), held.clone(), holder_id.clone());
        async move || {
            gate.down();
            while held.load(Ordering::Acquire) {
                assert_eq!(thread::yield_to(holder.load(Ordering::Acquire)), Ok(()));
            }
            locked.store(true, Ordering::Release);
        }
    });
    let holder = at(50, {
        let gate = for_holder.clone();
        async move || {
            holder_id.store(thread::id(), Ordering::Release);
            gate.down();
            for_waiting.up();
            for_between.up();
            assert!(
                !between_ran.load(Ordering::Acquire),
                "while it has the loan"
            );
            held.store(false, Ordering::Release);
            thread::yield_now();
            assert!(between_ran.load(Ordering::Acquire), "its loan is over");
        }
    });
    wait_for_calls(0);
    for_holder.up();
    for thread in [waiting, between, holder] {
        assert_eq!(thread.join(), Ok(()));
    }
}

/// Tests that a process has one loan at a time.
///
/// The first borrower is interrupted by the second lender, which is more urgent. It has lost its
/// loan when it goes on.
fn another_loan_ends_the_first_one() {
    let _one = one_hart();
    let [
        for_first,
        for_second,
        for_lender,
        for_more_urgent,
        for_between,
    ] = [(); 5].map(|()| gate());
    let ids = Arc::new([const { AtomicUsize::new(0) }; 2]);
    let second_is_over = Arc::new(AtomicBool::new(false));
    let order = Arc::new(AtomicUsize::new(0));
    let next = |order: &AtomicUsize| order.fetch_add(1, Ordering::AcqRel);
    let lender = at(10, {
        let (gate, ids) = (for_lender.clone(), ids.clone());
        async move || {
            gate.down();
            let first = ids[0].load(Ordering::Acquire);
            assert_eq!(thread::yield_to(first), Ok(()));
        }
    });
    let more_urgent = at(5, {
        let (gate, ids, is_over) = (for_more_urgent.clone(), ids.clone(), second_is_over.clone());
        async move || {
            gate.down();
            while !is_over.load(Ordering::Acquire) {
                let second = ids[1].load(Ordering::Acquire);
                assert_eq!(thread::yield_to(second), Ok(()));
            }
        }
    });
    let between = at(30, {
        let (gate, order) = (for_between.clone(), order.clone());
        async move || {
            gate.down();
            next(&order)
        }
    });
    let second = at(50, {
        let (gate, ids) = (for_second.clone(), ids.clone());
        async move || {
            ids[1].store(thread::id(), Ordering::Release);
            gate.down();
            for_between.up();
            second_is_over.store(true, Ordering::Release);
        }
    });
    let first = at(50, {
        let gate = for_first.clone();
        async move || {
            ids[0].store(thread::id(), Ordering::Release);
            gate.down();
            // It is ready from now on, as urgent as this one.
            for_second.up();
            for_lender.up();
            for_more_urgent.up();
            next(&order)
        }
    });
    wait_for_calls(0);
    for_first.up();
    for thread in [lender, more_urgent, second] {
        assert_eq!(thread.join(), Ok(()));
    }
    assert_eq!((between.join(), first.join()), (Ok(0), Ok(1)));
}

/// Tests that a loan to itself, to a thread that has ended, and to none is refused.
fn a_loan_needs_another_thread() {
    assert!(thread::yield_to(thread::id()).is_err());
    for id in [7, usize::MAX] {
        assert!(thread::yield_to(id).is_err(), "thread {id}");
    }
    let other = thread::spawn(thread::id).expect("a thread");
    let id = other.id();
    assert_eq!(other.join(), Ok(id));
    assert!(thread::yield_to(id).is_err());
}
