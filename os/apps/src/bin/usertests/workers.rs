//! Tests of workers, which are several executors in one process, each on a thread of its own.
//!
//! Each has its page, its rings, its interrupts and its level.
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::future::poll_fn;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::task::Poll;
use core::time::Duration;

use atomic_waker::AtomicWaker;
use corank_abi::call::{EXIT, FAILED, FAULT_END, FAULT_MEMORY, RING_ENTER, UPCALL_RAISE, WORKER};
use corank_user::corank::time;
use corank_user::interrupt::{preemptible, stacks};
use corank_user::page::{self, WORKERS};
use corank_user::runtime::{self, Global};
use corank_user::sync::Semaphore;
use corank_user::{Priority, block_on, information, process, ring, spawn, thread, yield_now};

use crate::injected::{at_every_step_by, footprint};
use crate::support::{
    call, calls_under_way, exit_code, frames_free, one_hart, pipe, record, tests,
};

tests![
    each_worker_waits_for_its_own_calls,
    the_record_counts_the_coroutines_of_all_workers,
    the_worker_with_the_urgent_coroutine_goes_first,
    another_level_moves_its_thread_alone,
    workers_wake_each_other,
    each_worker_is_interrupted_for_its_own_coroutines,
    timers_of_each_worker_count,
    worker_numbers_are_reused,
    a_worker_beyond_the_limit_runs_without_waiting,
    a_thread_that_ends_cancels_its_calls,
    a_child_keeps_the_number_of_its_worker,
    a_child_wakes_an_ended_coroutine,
    an_exec_on_any_worker_makes_worker_0,
    a_kill_at_any_step_leaves_nothing,
    workers_survive_each_failing_allocation,
];

const KILLED: i32 = corank_abi::exit_code::KILLED;
const MILLISECOND: Duration = Duration::from_millis(1);

fn level(level: u8) -> Priority {
    Priority::new(level).expect("below 64")
}

/// Runs an executor on a thread of its own, on which its main future is made.
fn worker<T: Send + 'static, F: Future<Output = T> + 'static>(
    main: impl FnOnce() -> F + Send + 'static,
) -> thread::JoinHandle<T> {
    thread::spawn(move || block_on(async move { main().await })).expect("a thread")
}

/// Waits until `calls` calls of this process are under way, and the threads that made them wait.
///
/// This thread is no worker, and may be more urgent than those threads.
pub(crate) fn wait_for_calls(calls: usize) {
    loop {
        // What was woken is counted as ready from the kernel's next pick on. So there is one
        // between whatever came before and each check of what is ready.
        corank_user::time::sleep(MILLISECOND);
        let is_ready = information::system().expect("it is there").ready != 0;
        if !is_ready && calls_under_way() >= calls {
            break;
        }
    }
    process::quiesce();
}

/// Tests that all workers wait in the kernel, for calls of their own and for timers.
///
/// Each goes on by what comes for it.
fn each_worker_waits_for_its_own_calls() {
    const ROUNDS: usize = 20;
    // The pipes form a ring, in which each worker reads from the one before it.
    let (mut readers, mut writers): (Vec<_>, Vec<_>) = (0..WORKERS).map(|_| pipe()).unzip();
    let first = writers.remove(0);
    let (last, end) = pipe();
    writers.push(end);
    let threads: Vec<_> = readers
        .drain(..)
        .zip(writers)
        .map(|(reader, writer)| {
            worker(move || async move {
                let mut sum = 0;
                for _ in 0..ROUNDS {
                    let (read, byte) = ring::read(&reader, Vec::with_capacity(1)).await;
                    assert_eq!(read, Ok(1));
                    sum += usize::from(byte[0]);
                    time::sleep(MILLISECOND / 4).await;
                    ring::sleep(MILLISECOND).await.expect("a call");
                    let (written, _) =
                        ring::write(&writer, byte.iter().map(|byte| byte + 1).collect()).await;
                    assert_eq!(written, Ok(1));
                }
                sum
            })
        })
        .collect();
    for round in 0..ROUNDS {
        first.write(&[round as u8]).expect("room");
    }
    for round in 0..ROUNDS {
        let mut byte = [0];
        assert_eq!(last.read(&mut byte), Ok(1));
        assert_eq!(usize::from(byte[0]), round + WORKERS);
    }
    let sum: usize = (0..ROUNDS).sum();
    for (place, thread) in threads.into_iter().enumerate() {
        assert_eq!(thread.join(), Ok(sum + place * ROUNDS));
    }
    assert_eq!(calls_under_way(), 0);
}

/// Tests that the process's record has the levels and numbers of all workers.
fn the_record_counts_the_coroutines_of_all_workers() {
    let (reader, writer) = pipe();
    let begun = Arc::new(Semaphore::new(0).expect("a semaphore"));
    let reader = Arc::new(reader);
    let threads: Vec<_> = [7, 41, 12]
        .into_iter()
        .map(|number| {
            let (reader, begun) = (reader.clone(), begun.clone());
            thread::spawn(move || {
                runtime::run(level(number), Global::Relaxed, async move {
                    let other = spawn(level(number + 1), core::future::pending::<()>());
                    begun.up();
                    let (read, _) = ring::read(&reader, Vec::with_capacity(1)).await;
                    other.expect("memory").cancel();
                    read
                })
            })
            .expect("a thread")
        })
        .collect();
    for _ in &threads {
        begun.down();
    }
    wait_for_calls(threads.len());
    // The kernel has their calls. The workers say how many coroutines they have when they come to
    // rest.
    let mut record = record(process::id());
    for _ in 0..2000 {
        if record.coroutines == 6 {
            break;
        }
        corank_user::time::sleep(MILLISECOND);
        record = crate::support::record(process::id());
    }
    assert_eq!((record.executors, record.coroutines), (3, 6));
    // Each worker keeps the level that it had last.
    assert_eq!(record.level, 8);
    writer.write(&[1, 2, 3]).expect("room");
    for thread in threads {
        assert_eq!(thread.join(), Ok(Ok(1)));
    }
    assert_eq!(crate::support::record(process::id()).executors, 0);
}

/// Tests that of two workers that can go on, the one with the more urgent coroutine has the hart.
///
/// This holds whichever began first.
fn the_worker_with_the_urgent_coroutine_goes_first() {
    let _one = one_hart();
    for levels in [[50, 10], [10, 50]] {
        assert_eq!(order(levels, |_| ()), [10, 50]);
    }
}

/// Tests that a coroutine that gets another level takes its worker's thread along, and no other.
fn another_level_moves_its_thread_alone() {
    let _one = one_hart();
    let first_becomes = |new| {
        move |number| {
            if number == 50 {
                corank_user::corank::reprioritize(
                    corank_user::corank::current().expect("it runs"),
                    level(new),
                );
            }
        }
    };
    assert_eq!(order([50, 10], first_becomes(3)), [50, 10]);
    assert_eq!(order([50, 10], first_becomes(20)), [10, 50]);
}

/// Lets two workers wait at these levels and go on together, and returns the order in which they
/// do.
fn order(levels: [u8; 2], before: impl Fn(u8) + Copy + Send + 'static) -> Vec<u8> {
    let book = Arc::new(Book::default());
    let gates: Vec<_> = levels.iter().map(|_| pipe()).collect();
    let (gates, keys): (Vec<_>, Vec<_>) = gates.into_iter().unzip();
    let threads: Vec<_> = levels
        .into_iter()
        .zip(gates)
        .map(|(number, gate)| {
            let book = book.clone();
            thread::spawn(move || {
                runtime::run(level(number), Global::Relaxed, async move {
                    before(number);
                    let (read, _) = ring::read(&gate, Vec::with_capacity(1)).await;
                    assert_eq!(read, Ok(1));
                    book.note(number);
                });
            })
            .expect("a thread")
        })
        .collect();
    wait_for_calls(2);
    // The level of a thread that is no worker is that of worker 0, one of the two. So a tick of the
    // clock between the writes would let that one go on first. As a worker this thread has a level
    // of its own, which is more urgent than theirs.
    runtime::run(Priority::MOST_URGENT, Global::Relaxed, async move {
        // The kernel follows a worker's level when its thread comes to rest.
        thread::yield_now();
        for key in keys {
            key.write(&[1]).expect("room");
        }
    });
    for thread in threads {
        assert_eq!(thread.join(), Ok(()));
    }
    book.read()
}

/// A record of what has happened, in order.
#[derive(Default)]
struct Book {
    lines: [AtomicUsize; 2],
    written: AtomicUsize,
}

impl Book {
    fn note(&self, line: u8) {
        let place = self.written.fetch_add(1, Ordering::AcqRel);
        self.lines[place].store(line.into(), Ordering::Release);
    }

    fn read(&self) -> Vec<u8> {
        let written = self.written.load(Ordering::Acquire);
        let lines = self.lines[..written].iter();
        lines
            .map(|line| line.load(Ordering::Acquire) as u8)
            .collect()
    }
}

/// Tests a ball that goes from worker to worker by wakes alone.
///
/// A worker that waits for it waits in the kernel, without a call.
fn workers_wake_each_other() {
    const PLAYERS: usize = 4;
    const PASSES: usize = 2000;
    struct Court {
        ball: AtomicUsize,
        wakers: [AtomicWaker; PLAYERS],
    }
    let court = Arc::new(Court {
        ball: AtomicUsize::new(0),
        wakers: [const { AtomicWaker::new() }; PLAYERS],
    });
    let players: Vec<_> = (0..PLAYERS)
        .map(|player| {
            let court = court.clone();
            worker(move || async move {
                let mut passes = 0;
                loop {
                    let ball = poll_fn(|context| {
                        court.wakers[player].register(context.waker());
                        match court.ball.load(Ordering::Acquire) {
                            ball if ball % PLAYERS == player || ball >= PASSES => Poll::Ready(ball),
                            _ => Poll::Pending,
                        }
                    })
                    .await;
                    if ball >= PASSES {
                        court.wakers.iter().for_each(AtomicWaker::wake);
                        return passes;
                    }
                    passes += 1;
                    court.ball.store(ball + 1, Ordering::Release);
                    court.wakers[(player + 1) % PLAYERS].wake();
                }
            })
        })
        .collect();
    for player in players {
        assert_eq!(player.join(), Ok(PASSES / PLAYERS));
    }
}

/// Tests that computations of two workers are interrupted, each by what arrives for it.
fn each_worker_is_interrupted_for_its_own_coroutines() {
    let threads: [_; 2] = core::array::from_fn(|_| {
        worker(|| async {
            let seen = Arc::new(AtomicUsize::new(0));
            for round in 1..=10 {
                let (theirs, depth) = (seen.clone(), Rc::new(Cell::new(0)));
                let noted = depth.clone();
                let (reader, writer) = pipe();
                let urgent = spawn(level(5), async move {
                    let (read, _) = ring::read(&reader, Vec::with_capacity(1)).await;
                    assert_eq!(read, Ok(1));
                    noted.set(stacks().in_use);
                    theirs.store(round, Ordering::Release);
                });
                yield_now().await;
                preemptible(|| {
                    writer.write(&[1]).expect("room");
                    while seen.load(Ordering::Acquire) < round {
                        core::hint::spin_loop();
                    }
                });
                assert_eq!(depth.get(), 1, "it ran on a stack of its own");
                urgent.expect("memory").await.expect("it ends");
            }
            stacks().most
        })
    });
    for thread in threads {
        assert_eq!(thread.join(), Ok(1));
    }
}

/// Tests that a worker counts at the level of a sleeping coroutine when its timer is due (rule T9).
///
/// The coroutine sleeps in the worker's executor. This holds although another worker has pushed
/// another coroutine of it off the hart.
fn timers_of_each_worker_count() {
    let _one = one_hart();
    let done = Arc::new(AtomicBool::new(false));
    let begun = Arc::new(Semaphore::new(0).expect("a semaphore"));
    let (gate, key) = pipe();
    let busy = thread::spawn({
        let (begun, done) = (begun.clone(), done.clone());
        move || {
            runtime::run(level(40), Global::Relaxed, async move {
                begun.up();
                let (read, _) = ring::read(&gate, Vec::with_capacity(1)).await;
                assert_eq!(read, Ok(1));
                while !done.load(Ordering::Acquire) {
                    core::hint::spin_loop();
                }
            });
        }
    })
    .expect("a thread");
    begun.down();
    let sleeper = thread::spawn({
        let done = done.clone();
        move || {
            runtime::run(level(50), Global::Relaxed, async move {
                let urgent = spawn(level(10), async move {
                    time::sleep(MILLISECOND * 30).await;
                    done.store(true, Ordering::Release);
                });
                yield_now().await;
                // From here on the other worker has the hart.
                key.write(&[1]).expect("room");
                urgent.expect("memory").await.expect("it ends");
            });
        }
    })
    .expect("a thread");
    assert_eq!(sleeper.join(), Ok(()));
    assert_eq!(busy.join(), Ok(()));
    assert!(done.load(Ordering::Acquire));
}

fn worker_numbers_are_reused() {
    let number = || call(WORKER, [0; 3]);
    assert_eq!(thread::spawn(number).expect("a thread").join(), Ok(0));
    assert_eq!(number(), 0, "it is free again");
    assert_eq!(number(), 0, "and this thread's from now on");
    assert_eq!(thread::spawn(number).expect("a thread").join(), Ok(1));
    let begun = Arc::new(Semaphore::new(0).expect("a semaphore"));
    let go = Arc::new(Semaphore::new(0).expect("a semaphore"));
    let round = || {
        let threads: Vec<_> = (1..WORKERS)
            .map(|round| {
                let (begun, go) = (begun.clone(), go.clone());
                worker(move || async move {
                    assert_eq!(page::here().executors.load(Ordering::Relaxed), 1);
                    ring::sleep(MILLISECOND).await.expect("a call");
                    // All workers are there at once, so that each round needs as much memory.
                    begun.up();
                    go.down();
                    round
                })
            })
            .collect();
        threads.iter().for_each(|_| begun.down());
        threads.iter().for_each(|_| go.up());
        for (number, thread) in threads.into_iter().enumerate() {
            assert_eq!(thread.join(), Ok(number + 1));
        }
        frames_free()
    };
    round();
    let before = round();
    for _ in 0..10 {
        assert_eq!(round(), before);
    }
}

/// Tests that one worker too many can run what is ready, and not wait.
fn a_worker_beyond_the_limit_runs_without_waiting() {
    let begun = Arc::new(Semaphore::new(0).expect("a semaphore"));
    let go = Arc::new(Semaphore::new(0).expect("a semaphore"));
    let all: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (begun, go) = (begun.clone(), go.clone());
            thread::spawn(move || {
                let number = call(WORKER, [0; 3]);
                begun.up();
                go.down();
                number
            })
            .expect("a thread")
        })
        .collect();
    all.iter().for_each(|_| begun.down());
    assert_eq!(call(WORKER, [0; 3]), FAILED);
    assert_eq!(call(UPCALL_RAISE, [WORKERS, 0, 0]), FAILED);
    let sum = block_on(async {
        let handle = spawn(level(3), async { 2 }).expect("memory");
        yield_now().await;
        handle.await.expect("it ends") + 3
    });
    assert_eq!(sum, 5);
    all.iter().for_each(|_| go.up());
    let mut numbers: Vec<_> = all
        .into_iter()
        .map(|thread| thread.join().expect("it ends"))
        .collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..WORKERS as isize));
    // Now there is room for one more.
    block_on(async { ring::sleep(MILLISECOND).await.expect("a call") });
}

/// Tests that a thread that ends takes its calls along, including those with leaked futures.
fn a_thread_that_ends_cancels_its_calls() {
    let (reader, writer) = pipe();
    let reader = Arc::new(reader);
    let thread = {
        let reader = reader.clone();
        worker(move || async move {
            let mut read =
                Box::pin(async move { ring::read(&reader, Vec::with_capacity(8)).await });
            poll_fn(|context| {
                assert!(read.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            core::mem::forget(read);
            ring::sleep(MILLISECOND).await.expect("a call");
            assert_eq!(calls_under_way(), 1);
        })
    };
    assert_eq!(thread.join(), Ok(()));
    assert_eq!(calls_under_way(), 0);
    assert_eq!(call(RING_ENTER, [0; 3]), FAILED, "the rings are gone");
    // The bytes are left for other readers.
    writer.write(b"12345678").expect("room");
    assert_eq!(reader.read(&mut [0; 8]), Ok(8));
}

/// Makes the calling thread worker 1, with another thread that is worker 0 meanwhile.
fn become_worker_1() {
    let [begun, gate] =
        [0, 0].map(|permits| Arc::new(Semaphore::new(permits).expect("a semaphore")));
    let (theirs, ours) = (gate.clone(), begun.clone());
    let other = worker(move || async move {
        ours.up();
        theirs.down();
    });
    begun.down();
    assert_eq!(call(WORKER, [0; 3]), 1);
    gate.up();
    assert_eq!(other.join(), Ok(()));
}

/// Tests that the main thread as worker 1 makes children that are worker 1 too.
fn a_child_keeps_the_number_of_its_worker() {
    become_worker_1();
    let slept = || {
        block_on(async {
            let both = [level(3), level(50)].map(|level| {
                spawn(level, async {
                    ring::sleep(MILLISECOND).await.expect("a call")
                })
                .expect("memory")
            });
            for one in both {
                one.await.expect("it ends");
            }
        });
        page::here().executors.load(Ordering::Relaxed) as i32
    };
    assert_eq!(exit_code(slept), 0);
    // The fork also works in the middle of an executor.
    let inside = block_on(async move {
        ring::sleep(MILLISECOND).await.expect("a call");
        exit_code(slept)
    });
    assert_eq!(inside, 0);
}

/// Tests that a child can wake a worker of a thread that has ended.
///
/// A waker that was copied names that worker. Its thread ended in the middle of its executor. Its
/// page is there in the child too.
fn a_child_wakes_an_ended_coroutine() {
    assert_eq!(call(WORKER, [0; 3]), 0);
    let waker = Arc::new(AtomicWaker::new());
    let theirs = waker.clone();
    let ended = worker(|| async move {
        let waits = poll_fn(move |context| {
            theirs.register(context.waker());
            Poll::<()>::Pending
        });
        let _waits = spawn(level(7), waits).expect("memory");
        yield_now().await;
        assert_eq!(call(WORKER, [0; 3]), 1);
        call(EXIT, [0; 3]);
    });
    assert!(ended.join().is_err(), "it has no result");
    let wake = || {
        waker.wake();
        block_on(async { ring::sleep(MILLISECOND).await.expect("a call") });
        0
    };
    assert_eq!(exit_code(wake), 0);
}

/// Tests that the new program's page is that of worker 0, whichever worker ran the old one.
fn an_exec_on_any_worker_makes_worker_0() {
    let code = exit_code(|| {
        become_worker_1();
        block_on(async { ring::sleep(MILLISECOND).await.expect("a call") });
        let error = process::exec("hello-async", &[]);
        unreachable!("{error:?}");
    });
    assert_eq!(code, 0);
}

/// Runs three workers with calls under way, wakes between them, and interrupts.
///
/// Returns 1 if the kernel has refused something.
fn scenario() -> i32 {
    let shared = Arc::new((AtomicUsize::new(0), AtomicWaker::new()));
    let (mut threads, mut refused) = (Vec::new(), false);
    for _ in 0..2 {
        let theirs = shared.clone();
        let started = thread::spawn(move || {
            if call(WORKER, [0; 3]) == FAILED {
                theirs.0.fetch_add(1, Ordering::Release);
                theirs.1.wake();
                return true;
            }
            let refused = block_on(async { ring::sleep(MILLISECOND).await.is_err() });
            theirs.0.fetch_add(1, Ordering::Release);
            theirs.1.wake();
            refused
        });
        match started {
            Ok(thread) => threads.push(thread),
            Err(_) => refused = true,
        }
    }
    let all = threads.len();
    block_on(async move {
        poll_fn(|context| {
            shared.1.register(context.waker());
            if shared.0.load(Ordering::Acquire) == all {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    });
    for thread in threads {
        refused |= thread.join() != Ok(false);
    }
    i32::from(refused)
}

fn a_kill_at_any_step_leaves_nothing() {
    let steps = at_every_step_by(footprint, FAULT_END, scenario, |code| code == KILLED);
    assert!(steps > 15, "only {steps} steps");
}

/// Tests that a process without memory for what an executor needs ends with a message.
///
/// Nothing is left of it.
fn workers_survive_each_failing_allocation() {
    let panicked = corank_user::entry::PANICKED;
    let may_end = |code| matches!(code, 0 | 1) || code == panicked;
    let steps = at_every_step_by(footprint, FAULT_MEMORY, scenario, may_end);
    assert!(steps > 10, "only {steps} allocations");
}
