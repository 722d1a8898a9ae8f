//! Tests of coroutines that are preempted while they compute (rules S8 to S11).
//!
//! `computations.rs` has what the computation keeps, `handlers.rs` processes that end meanwhile,
//! `upcalls.rs` the kernel's side by hand. Where possible, the computation itself causes the
//! interrupt, so that the tests know at which instruction it comes. It writes a byte to a pipe that
//! a more urgent coroutine reads.
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::pin::Pin;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use core::time::Duration;

use corank_abi::upcall::STACK_COUNT;
use corank_user::corank::time::sleep;
use corank_user::interrupt::{preemptible, stacks};
use corank_user::runtime::{self, Global};
use corank_user::{block_on, page, process, ring, spawn, thread, yield_now};

use crate::interrupting::{
    Log, Seen, level, on_a_byte, until_the_least_urgent_runs, write_and_wait,
};
use crate::support::{one_hart, pipe, tests};

tests![
    a_completion_interrupts_a_long_computation,
    more_completions_than_entries_interrupt_a_long_computation,
    a_timer_interrupts_a_long_computation,
    another_thread_interrupts_a_long_computation,
    its_own_wake_interrupts_a_computation,
    a_coroutine_already_ready_goes_first,
    equal_and_less_urgent_ones_wait,
    preemption_nests,
    at_the_last_stack_an_interrupt_stays_pending,
    calls_of_the_more_urgent_are_handed_over,
    a_strict_executor_is_interrupted,
];

/// Tests that a completion interrupts a long computation.
///
/// The kernel completes the read inside the computation's own system call. When that call returns,
/// the urgent coroutine has run.
fn a_completion_interrupts_a_long_computation() {
    block_on(async {
        let (writer, seen) = on_a_byte(5, || {});
        preemptible(|| {
            assert!(!seen.get());
            write_and_wait(&writer);
            assert!(
                seen.get(),
                "the more urgent one runs before the next instruction"
            );
        });
        assert_eq!((stacks().in_use, stacks().most), (0, 1));
    });
}

/// Tests that more completions than entries interrupt a long computation.
///
/// They come all at once, from another process. The kernel keeps those for which the ring has no
/// room, and nothing comes later that would bring them.
fn more_completions_than_entries_interrupt_a_long_computation() {
    const READERS: usize = ring::ENTRIES as usize + 10;
    block_on(async {
        let (reader, writer) = pipe();
        let reader = Rc::new(reader);
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..READERS {
            let (reader, done) = (reader.clone(), done.clone());
            spawn(level(10), async move {
                let (count, _) = ring::read(&reader, Vec::with_capacity(1)).await;
                assert_eq!(count, Ok(1));
                done.fetch_add(1, Ordering::Relaxed);
            })
            .expect("memory");
        }
        until_the_least_urgent_runs().await;
        let child = process::spawn(|| i32::from(writer.write(&[1; READERS]) != Ok(READERS)));
        preemptible(|| {
            let ticks = || page::system().ticks.load(Ordering::Relaxed);
            let start = ticks();
            while done.load(Ordering::Relaxed) < READERS {
                assert!(ticks() - start < 1000, "a completion was not collected");
                core::hint::spin_loop();
            }
        });
        let ended = child.and_then(process::wait);
        assert_eq!(ended.map(|ended| ended.code), Ok(0));
    });
}

fn a_timer_interrupts_a_long_computation() {
    block_on(async {
        let seen = Seen::default();
        let set = seen.clone();
        spawn(level(5), async move {
            for _ in 0..3 {
                sleep(Duration::from_millis(1)).await;
            }
            set.set();
        })
        .expect("memory");
        preemptible(|| seen.spin());
    });
}

fn another_thread_interrupts_a_long_computation() {
    block_on(async {
        let event = Arc::new(atomic_waker::AtomicWaker::new());
        let rung = Seen::default();
        let seen = Seen::default();
        spawn(level(5), {
            let (event, rung, seen) = (event.clone(), rung.clone(), seen.clone());
            core::future::poll_fn(move |context| {
                event.register(context.waker());
                if rung.get() {
                    seen.set();
                    return core::task::Poll::Ready(());
                }
                core::task::Poll::Pending
            })
        })
        .expect("memory");
        let started = Seen::default();
        let thread = thread::spawn({
            let (started, rung) = (started.clone(), rung.clone());
            move || {
                started.spin();
                rung.set();
                event.wake();
            }
        })
        .expect("a thread");
        preemptible(|| {
            started.set();
            seen.spin();
        });
        assert_eq!(thread.join(), Ok(()));
    });
}

/// Tests that a computation may wake a coroutine by its waker.
///
/// If that coroutine is more urgent, it runs at once.
fn its_own_wake_interrupts_a_computation() {
    block_on(async {
        let waker = Arc::new(atomic_waker::AtomicWaker::new());
        let polls = Arc::new(AtomicU32::new(0));
        let handle = spawn(level(5), {
            let (waker, polls) = (waker.clone(), polls.clone());
            core::future::poll_fn(move |context| {
                waker.register(context.waker());
                match polls.fetch_add(1, Ordering::Relaxed) {
                    3 => core::task::Poll::Ready(()),
                    _ => core::task::Poll::Pending,
                }
            })
        })
        .expect("memory");
        preemptible(|| {
            for expected in 1..4 {
                assert_eq!(polls.load(Ordering::Relaxed), expected);
                waker.wake();
            }
            assert_eq!(polls.load(Ordering::Relaxed), 4);
        });
        handle.await.expect("it ends");
    });
}

fn a_coroutine_already_ready_goes_first() {
    block_on(async {
        let log = Log::default();
        for priority in [33, 10, 31, 32] {
            let log = log.clone();
            spawn(level(priority), async move { log.push(priority.into()) }).expect("memory");
        }
        preemptible(|| ());
        log.push(0);
        until_the_least_urgent_runs().await;
        assert_eq!(log.take(), [10, 31, 0, 32, 33]);
    });
}

fn equal_and_less_urgent_ones_wait() {
    // On several harts the kernel serves the less urgent ones in any order.
    let _one = one_hart();
    runtime::run(level(20), Global::Relaxed, async {
        let log = Log::default();
        let (all_done, done) = pipe();
        let writers: Vec<_> = [20, 21, 62, 19]
            .map(|priority| {
                let log = log.clone();
                let done = done.duplicate().expect("a descriptor");
                on_a_byte(priority, move || {
                    log.push(priority.into());
                    assert_eq!(done.write(&[1]), Ok(1));
                })
            })
            .into_iter()
            .collect();
        until_the_least_urgent_runs().await;
        preemptible(|| {
            for (writer, _) in &writers {
                write_and_wait(writer);
            }
            let seen: Vec<bool> = writers.iter().map(|(_, seen)| seen.get()).collect();
            assert_eq!(seen, [false, false, false, true]);
        });
        log.push(0);
        assert_eq!(ring::read(&all_done, Vec::with_capacity(4)).await.0, Ok(4));
        assert_eq!(log.take(), [19, 0, 20, 21, 62]);
    });
}

/// Returns nested coroutines of these levels, each of which computes and interrupts itself.
///
/// In the middle of its computation each writes a byte for the next one, and runs `check` before
/// and after that.
fn nest(
    levels: &'static [u8],
    log: Log,
    check: fn(usize, bool),
) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async move {
        let depth = stacks().in_use;
        let Some((own, rest)) = levels.split_first() else {
            return;
        };
        log.push(u32::from(*own) * 10);
        if let Some(next) = rest.first() {
            let (reader, writer) = pipe();
            let inner = log.clone();
            let seen = Seen::default();
            let set = seen.clone();
            spawn(level(*next), async move {
                let (count, _) = ring::read(&reader, Vec::with_capacity(1)).await;
                assert_eq!(count, Ok(1));
                nest(rest, inner, check).await;
                set.set();
            })
            .expect("memory");
            preemptible(|| {
                check(depth, seen.get());
                write_and_wait(&writer);
                check(depth, seen.get());
            });
        }
        assert_eq!(stacks().in_use, depth);
        log.push(u32::from(*own) * 10 + 1);
    })
}

fn preemption_nests() {
    let log = Log::default();
    let inner = log.clone();
    runtime::run(
        level(40),
        Global::Relaxed,
        nest(&[40, 30, 7, 0], inner, |_, _| ()),
    );
    assert_eq!(log.take(), [400, 300, 70, 0, 1, 71, 301, 401]);
    assert_eq!((stacks().in_use, stacks().most), (0, 3));
}

/// Tests that an interrupt stays pending while every stack is in use.
///
/// There is one coroutine for each stack, one on the thread's own, and one more. That one waits
/// until the computation on the last stack is over.
fn at_the_last_stack_an_interrupt_stays_pending() {
    static LEVELS: [u8; STACK_COUNT + 2] = {
        let mut levels = [0; STACK_COUNT + 2];
        let mut at = 0;
        while at < levels.len() {
            levels[at] = 40 - at as u8;
            at += 1;
        }
        levels
    };
    static CHECKS: AtomicUsize = AtomicUsize::new(0);
    let log = Log::default();
    let inner = log.clone();
    let check = |depth: usize, rung: bool| {
        // Twice at each depth, before the byte is written and after it.
        let behind = CHECKS.fetch_add(1, Ordering::Relaxed) > STACK_COUNT;
        assert_eq!(rung, behind && depth < STACK_COUNT, "at depth {depth}");
        assert_eq!(stacks().in_use, depth);
        assert_eq!(page::process().stacks.load(Ordering::Relaxed), depth);
    };
    runtime::run(
        level(LEVELS[0]),
        Global::Relaxed,
        nest(&LEVELS, inner, check),
    );
    let mut expected: Vec<u32> = LEVELS[..=STACK_COUNT]
        .iter()
        .map(|l| u32::from(*l) * 10)
        .collect();
    let last = u32::from(LEVELS[STACK_COUNT + 1]) * 10;
    // The last coroutine runs when the computation of the last but one is over, after that one's
    // poll.
    expected.push(u32::from(LEVELS[STACK_COUNT]) * 10 + 1);
    expected.extend([last, last + 1]);
    expected.extend(
        LEVELS[..STACK_COUNT]
            .iter()
            .rev()
            .map(|l| u32::from(*l) * 10 + 1),
    );
    assert_eq!(log.take(), expected);
    assert_eq!(stacks().most, STACK_COUNT);
}

/// Tests that the kernel learns of a call of a more urgent coroutine while the computation goes on.
///
/// This needs no help from the computation.
fn calls_of_the_more_urgent_are_handed_over() {
    block_on(async {
        let (writer, first) = on_a_byte(5, || {});
        let (reader, answer) = pipe();
        let second = Seen::default();
        let set = second.clone();
        spawn(level(6), async move {
            let (question, asked) = pipe();
            for _ in 0..3 {
                yield_now().await;
                let (count, data) = ring::write(&asked, alloc::vec![7]).await;
                assert_eq!(count, Ok(1));
                let (count, data) = ring::read(&question, data).await;
                assert_eq!((count, data.as_slice()), (Ok(1), &[7][..]));
            }
            assert_eq!(ring::write(&answer, alloc::vec![8]).await.0, Ok(1));
            set.set();
        })
        .expect("memory");
        preemptible(|| {
            write_and_wait(&writer);
            assert!(first.get());
            second.spin();
            assert_eq!(reader.read(&mut [0]), Ok(1));
        });
    });
}

fn a_strict_executor_is_interrupted() {
    runtime::run(level(40), Global::Strict, async {
        let (writer, seen) = on_a_byte(5, || {});
        preemptible(|| {
            write_and_wait(&writer);
            assert!(seen.get());
        });
    });
}
