//! Tests of the core's scheduler in a process.
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Poll;

use corank_user::corank::{self, JoinError};
use corank_user::{Policy, Priority, block_on, page, ring, runtime, spawn, thread, yield_now};

use crate::support::{exit_code, pipe, tests};

tests![
    main_returns_a_value,
    the_most_urgent_runs_first,
    first_in_first_out_within_a_level,
    long_work_goes_behind_short_work_of_its_level,
    a_new_priority_counts_at_once,
    cancelled_coroutines_do_not_run,
    a_hundred_thousand_coroutines_run,
    the_bitmap_shows_what_is_ready,
    a_second_executor_follows_the_first,
    an_urgent_call_goes_before_less_urgent_polls,
    calls_are_not_delayed_by_yielding_coroutines,
    another_thread_wakes_a_coroutine,
    wakes_from_many_threads_are_not_lost,
    threads_run_executors_of_their_own,
    a_deadlock_is_reported,
    a_panic_ends_the_process,
    a_process_without_coroutines_shows_none,
];

fn level(level: u8) -> Priority {
    Priority::new(level).expect("below 64")
}

fn main_returns_a_value() {
    assert_eq!(block_on(async { 42 }), 42);
}

type Log = Rc<RefCell<Vec<u32>>>;

fn note(log: &Log, number: u32) {
    log.borrow_mut().push(number);
}

fn the_most_urgent_runs_first() {
    let log = Log::default();
    let theirs = Rc::clone(&log);
    block_on(async move {
        let handles: Vec<_> = [40, 3, 63, 0, 31]
            .into_iter()
            .map(|number| {
                let log = Rc::clone(&theirs);
                let task = async move {
                    note(&log, number);
                    yield_now().await;
                    note(&log, number);
                };
                spawn(level(number as u8), task).expect("memory")
            })
            .collect();
        for handle in handles {
            handle.await.expect("it ends");
        }
    });
    assert_eq!(*log.borrow(), [0, 0, 3, 3, 31, 31, 40, 40, 63, 63]);
}

fn first_in_first_out_within_a_level() {
    let log = Log::default();
    let theirs = Rc::clone(&log);
    block_on(async move {
        let handles: Vec<_> = (0..3)
            .map(|number| {
                let log = Rc::clone(&theirs);
                let task = async move {
                    for _ in 0..2 {
                        note(&log, number);
                        yield_now().await;
                    }
                };
                spawn(level(7), task).expect("memory")
            })
            .collect();
        for handle in handles {
            handle.await.expect("it ends");
        }
    });
    assert_eq!(*log.borrow(), [0, 1, 2, 0, 1, 2]);
}

fn long_work_goes_behind_short_work_of_its_level() {
    const POLLS: u8 = 4;
    let run = |choice: runtime::Choice| {
        let log = Log::default();
        let theirs = Rc::clone(&log);
        runtime::run_under(choice, level(63), runtime::Global::Relaxed, async move {
            let long = Rc::clone(&theirs);
            let long = spawn(level(20), async move {
                for _ in 0..2 * POLLS {
                    note(&long, 0);
                    yield_now().await;
                }
            });
            // After the long one's first polls, a few short ones that wait for each other.
            let short = spawn(level(20), async move {
                for number in 1..=3 {
                    for _ in 1..POLLS {
                        yield_now().await;
                    }
                    let log = Rc::clone(&theirs);
                    let task = spawn(level(20), async move { note(&log, number) });
                    task.expect("memory").await.expect("it ends");
                }
            });
            for handle in [long, short] {
                handle.expect("memory").await.expect("it ends");
            }
        });
        log.take()
    };
    let demotion = corank::Demotion::after_polls(POLLS);
    let strict = run(Policy::Strict.into());
    let demoted = run(runtime::Choice::from(Policy::Strict).demotion(demotion));
    let last = |log: &[u32], number| log.iter().rposition(|&at| at == number);
    assert!(last(&strict, 0) < last(&strict, 3), "{strict:?}");
    assert!(last(&demoted, 0) > last(&demoted, 3), "{demoted:?}");
}

fn a_new_priority_counts_at_once() {
    let log = Log::default();
    let theirs = Rc::clone(&log);
    block_on(async move {
        let handles = [1, 2, 3].map(|number| {
            let log = Rc::clone(&theirs);
            spawn(level(40), async move { note(&log, number) }).expect("memory")
        });
        assert!(corank::reprioritize(handles[2].id(), level(39)));
        let main = corank::current().expect("this is a coroutine");
        assert!(corank::reprioritize(main, level(63)));
        // The other coroutines run before this one goes on. Awaited one by one, each would inherit
        // the main coroutine's priority.
        yield_now().await;
        assert!(handles.iter().all(corank::JoinHandle::has_exited));
    });
    assert_eq!(*log.borrow(), [3, 1, 2]);
}

fn cancelled_coroutines_do_not_run() {
    block_on(async {
        let handle = spawn(level(40), async { unreachable!("it was cancelled") }).expect("memory");
        assert!(handle.cancel());
        assert!(matches!(handle.await, Err::<(), _>(JoinError::Cancelled)));
    });
}

fn a_hundred_thousand_coroutines_run() {
    let sum = block_on(async {
        let handles: Vec<_> = (0..100_000_u64)
            .map(|number| {
                spawn(level((number % 64) as u8), async move {
                    yield_now().await;
                    number
                })
                .expect("memory")
            })
            .collect();
        let mut sum = 0;
        for handle in handles {
            sum += handle.await.expect("it ends");
        }
        sum
    });
    assert_eq!(sum, 100_000 * 99_999 / 2);
}

fn the_bitmap_shows_what_is_ready() {
    let page = page::process();
    runtime::run(level(5), runtime::Global::Relaxed, async move {
        assert_eq!(page.executors.load(Ordering::Relaxed), 1);
        assert_eq!(page.running.load(Ordering::Relaxed), 1 << 5);
        assert_eq!(page.ready.load(Ordering::Relaxed), 0);
        let first = spawn(level(10), async {}).expect("memory");
        let second = spawn(level(63), async {}).expect("memory");
        assert_eq!(page.ready.load(Ordering::Relaxed), 1 << 10 | 1 << 63);
        first.cancel();
        assert_eq!(page.ready.load(Ordering::Relaxed), 1 << 63);
        corank::reprioritize(second.id(), level(0));
        assert_eq!(page.ready.load(Ordering::Relaxed), 1);
        second.await.expect("it ends");
        assert_eq!(page.ready.load(Ordering::Relaxed), 0);
    });
    assert_eq!(page.executors.load(Ordering::Relaxed), 0);
    assert_eq!(page.running.load(Ordering::Relaxed), 0);
}

fn a_second_executor_follows_the_first() {
    for round in 0..100 {
        let (reader, writer) = pipe();
        let length = block_on(async move {
            // It ends with the executor, while it waits.
            let endless = spawn(level(1), async { core::future::pending::<()>().await });
            drop(endless.expect("memory"));
            ring::write_and_close(writer, alloc::vec![1; round])
                .await
                .0
                .expect("room");
            ring::read(&reader, Vec::with_capacity(round + 1))
                .await
                .1
                .len()
        });
        assert_eq!(length, round);
    }
}

/// Tests that an urgent coroutine's call is served before a less urgent coroutine is polled at all.
fn an_urgent_call_goes_before_less_urgent_polls() {
    block_on(async {
        let (reader, writer) = pipe();
        let written = Rc::new(core::cell::Cell::new(false));
        let urgent = spawn(level(1), {
            let written = Rc::clone(&written);
            async move {
                ring::write(&writer, b"x".to_vec()).await.0.expect("room");
                written.set(true);
            }
        });
        let lazy = spawn(level(50), async move { written.get() }).expect("memory");
        assert!(lazy.await.expect("it ends"));
        urgent.expect("memory").await.expect("it ends");
        drop(reader);
    });
}

fn calls_are_not_delayed_by_yielding_coroutines() {
    block_on(async {
        let done = Rc::new(core::cell::Cell::new(false));
        let spinning = spawn(Priority::DEFAULT, {
            let done = Rc::clone(&done);
            async move {
                let mut polls = 0_u32;
                while !done.get() {
                    polls += 1;
                    yield_now().await;
                }
                polls
            }
        });
        let (reader, writer) = pipe();
        ring::write_and_close(writer, b"x".to_vec())
            .await
            .0
            .expect("room");
        ring::read(&reader, Vec::with_capacity(2))
            .await
            .0
            .expect("it can be read");
        done.set(true);
        let polls = spinning.expect("memory").await.expect("it ends");
        assert!(
            polls <= 2 * (runtime::PATIENCE + 8),
            "{polls} polls for two calls"
        );
    });
}

/// A flag that a coroutine waits for, and that wakes it when it is set.
struct Flag {
    set: AtomicBool,
    waker: atomic_waker::AtomicWaker,
}

impl Flag {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            set: AtomicBool::new(false),
            waker: atomic_waker::AtomicWaker::new(),
        })
    }

    fn set(&self) {
        self.set.store(true, Ordering::Release);
        self.waker.wake();
    }

    async fn wait(&self) {
        core::future::poll_fn(|context| {
            self.waker.register(context.waker());
            if self.set.load(Ordering::Acquire) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

fn another_thread_wakes_a_coroutine() {
    for _ in 0..20 {
        let flag = Flag::new();
        let theirs = Arc::clone(&flag);
        let thread = block_on(async move {
            let thread = thread::spawn(move || {
                // By now the executor waits in the kernel.
                crate::support::spin_for_ticks(1);
                theirs.set();
            });
            flag.wait().await;
            thread
        });
        thread.expect("a thread").join().expect("it ends");
    }
}

fn wakes_from_many_threads_are_not_lost() {
    block_on(async {
        let flags: Vec<_> = (0..200).map(|_| Flag::new()).collect();
        let tasks: Vec<_> = flags
            .iter()
            .map(|flag| {
                let flag = Arc::clone(flag);
                spawn(level(20), async move { flag.wait().await }).expect("memory")
            })
            .collect();
        let threads: Vec<_> = flags
            .chunks(50)
            .map(|flags| {
                let flags = flags.to_vec();
                thread::spawn(move || {
                    for flag in flags {
                        flag.set();
                        thread::yield_now();
                    }
                })
                .expect("a thread")
            })
            .collect();
        for task in tasks {
            task.await.expect("it ends");
        }
        for thread in threads {
            thread.join().expect("it ends");
        }
    });
}

fn threads_run_executors_of_their_own() {
    let threads: [_; 4] = core::array::from_fn(|number| {
        thread::spawn(move || {
            block_on(async move {
                let mut sum = 0;
                for part in 0..100_usize {
                    let handle = spawn(level(9), async move {
                        yield_now().await;
                        part * number
                    });
                    if part % 10 == 0 {
                        thread::yield_now();
                    }
                    sum += handle.expect("memory").await.expect("it ends");
                }
                sum
            })
        })
        .expect("a thread")
    });
    for (number, thread) in threads.into_iter().enumerate() {
        assert_eq!(thread.join(), Ok(4950 * number));
    }
    assert_eq!(page::process().executors.load(Ordering::Relaxed), 0);
}

fn a_deadlock_is_reported() {
    let code = exit_code(|| {
        block_on(core::future::pending::<()>());
        0
    });
    assert_eq!(code, corank_user::entry::PANICKED);
}

fn a_panic_ends_the_process() {
    let code = exit_code(|| {
        block_on(async {
            let handle = spawn(level(3), async { panic!("on purpose") });
            let _: Result<(), _> = handle.expect("memory").await;
        });
        0
    });
    assert_eq!(code, corank_user::entry::PANICKED);
}

fn a_process_without_coroutines_shows_none() {
    let page = page::process();
    assert_eq!(page.executors.load(Ordering::Relaxed), 0);
    assert_eq!(
        page.ready.load(Ordering::Relaxed) | page.running.load(Ordering::Relaxed),
        0
    );
}
