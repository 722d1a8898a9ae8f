//! Preemption in the middle of a poll (rules S8 to S10): counts, orders, and what others see.
//!
//! A poll that calls [`Executor::preempt`] stands for one that is interrupted there.

use std::cell::Cell;
use std::future::{Future, pending};
use std::rc::Rc;

use crate::common::{Log, executor, executor_with, level as p};
use corank::sync::Mutex;
use corank::{
    Config, Executor, Interrupted, JoinError, JoinHandle, Levels, Policy, State, Step, current,
    yield_now,
};

fn shared() -> Rc<Executor> {
    Rc::new(executor())
}

/// Interrupts the running poll: polls what is more urgent until nothing is.
///
/// Returns how many polls that were.
fn interrupt(executor: &Executor) -> u32 {
    let polls = executor.preempt(Interrupted::Ready, |preempted| {
        let mut polls = 0;
        while preempted.step() == Step::Ran {
            polls += 1;
        }
        polls
    });
    polls.expect("a coroutine is being polled")
}

/// Spawns a coroutine that makes one of each given level and is then interrupted.
fn interrupted_among(executor: &Rc<Executor>, level: u8, others: &[u8]) -> (Log, JoinHandle<u32>) {
    let diary = Log::default();
    let (inner, notes, others) = (executor.clone(), diary.clone(), others.to_vec());
    let handle = executor
        .spawn(p(level), async move {
            for other in others {
                let notes = notes.clone();
                inner
                    .spawn(p(other), async move { notes.push(other.to_string()) })
                    .unwrap();
            }
            notes.push("before");
            let polls = interrupt(&inner);
            notes.push("after");
            polls
        })
        .unwrap();
    (diary, handle)
}

fn output<T>(handle: JoinHandle<T>) -> T {
    match handle.try_join() {
        Ok(Ok(output)) => output,
        _ => panic!("it has not finished"),
    }
}

#[test]
fn only_strictly_more_urgent_ones_run_in_between() {
    let executor = shared();
    let (diary, handle) = interrupted_among(&executor, 30, &[31, 30, 10, 29, 10, 40]);
    executor.run_until_idle();
    assert_eq!(diary.take(), "before 10 10 29 after 30 31 40");
    assert_eq!(output(handle), 3);
}

#[test]
fn nothing_preempts_the_most_urgent_level() {
    let executor = shared();
    let (diary, handle) = interrupted_among(&executor, 0, &[0, 1]);
    executor.run_until_idle();
    assert_eq!(diary.take(), "before after 0 1");
    assert_eq!(output(handle), 0);
}

#[test]
fn outside_a_poll_there_is_nothing_to_preempt() {
    let executor = shared();
    executor.spawn(p(1), async {}).unwrap();
    assert_eq!(executor.preempt(Interrupted::Ready, |_| ()), None);
    assert_eq!(executor.live(), 1);
}

/// 40 is preempted by 20, and that one by 10.
///
/// Each goes on when nothing strictly more urgent is left.
#[test]
fn preemption_nests_by_urgency() {
    fn level(
        executor: &Rc<Executor>,
        diary: &Log,
        levels: &'static [u8],
    ) -> impl Future<Output = ()> + 'static {
        let (executor, diary) = (executor.clone(), diary.clone());
        async move {
            let Some((own, rest)) = levels.split_first() else {
                return;
            };
            diary.push(format!("{own}("));
            if let Some(next) = rest.first() {
                // The next one is ready twice: the second time it waits for the first to end.
                for _ in 0..2 {
                    let next_one = level(&executor, &diary, rest);
                    executor.spawn(p(*next), next_one).unwrap();
                }
                interrupt(&executor);
            }
            diary.push(format!("){own}"));
        }
    }
    let executor = shared();
    let diary = Log::default();
    let first = level(&executor, &diary, &[40, 20, 10]);
    executor.spawn(p(40), first).unwrap();
    executor.run_until_idle();
    assert_eq!(
        diary.take(),
        "40( 20( 10( )10 10( )10 )20 20( 10( )10 10( )10 )20 )40"
    );
}

/// Returns what the executor shows at one moment: ready levels, running level.
fn shown(executor: &Executor) -> (Levels, Levels) {
    let published = executor.published();
    (published.ready(), published.running())
}

fn levels(of: &[u8]) -> Levels {
    of.iter()
        .fold(Levels::NONE, |all, level| all.with(p(*level)))
}

#[test]
fn a_preempted_coroutine_counts_as_ready_and_not_as_running() {
    let executor = shared();
    let inner = executor.clone();
    let handle = executor
        .spawn(p(30), async move {
            let own = current().unwrap();
            assert_eq!(shown(&inner), (Levels::NONE, levels(&[30])));
            let nested = inner.clone();
            inner
                .spawn(p(5), async move {
                    assert_eq!(shown(&nested), (levels(&[30]), levels(&[5])));
                    assert_ne!(current(), Some(own));
                    assert_eq!(nested.state(own), Some(State::ReadyWithStack));
                })
                .unwrap();
            inner.preempt(Interrupted::Ready, |preempted| {
                assert_eq!(shown(&inner), (levels(&[5, 30]), Levels::NONE));
                assert_eq!(current(), None, "no poll is under way here");
                assert_eq!(preempted.step(), Step::Ran);
                assert_eq!(shown(&inner), (levels(&[30]), Levels::NONE));
                assert_eq!(preempted.step(), Step::Idle);
            });
            assert_eq!(shown(&inner), (Levels::NONE, levels(&[30])));
            assert_eq!(
                (current(), inner.state(own)),
                (Some(own), Some(State::Running))
            );
        })
        .unwrap();
    executor.run_until_idle();
    output(handle);
    assert_eq!(shown(&executor), (Levels::NONE, Levels::NONE));
}

#[test]
fn a_coroutine_blocked_with_stack_counts_nowhere() {
    let executor = shared();
    let inner = executor.clone();
    let handle = executor
        .spawn(p(30), async move {
            let own = current().unwrap();
            inner.preempt(Interrupted::Blocked, |preempted| {
                assert_eq!(shown(&inner), (Levels::NONE, Levels::NONE));
                assert_eq!(inner.state(own), Some(State::BlockedWithStack));
                assert_eq!(preempted.step(), Step::Idle);
            });
            assert_eq!(shown(&inner), (Levels::NONE, levels(&[30])));
        })
        .unwrap();
    executor.run_until_idle();
    output(handle);
}

/// Rules W3, X2 and R4 hold for a preempted coroutine as for a running one.
#[test]
fn wake_cancel_and_reprioritize_while_preempted() {
    let executor = shared();
    let polls = Rc::new(Cell::new(0));
    let (inner, count) = (executor.clone(), polls.clone());
    let handle = executor
        .spawn(p(30), async move {
            let own = current().unwrap();
            count.set(count.get() + 1);
            let nested = inner.clone();
            inner
                .spawn(p(5), async move {
                    assert!(nested.wake(own));
                    assert!(nested.reprioritize(own, p(20)));
                    assert_eq!(shown(&nested), (levels(&[20]), levels(&[5])));
                })
                .unwrap();
            assert_eq!(interrupt(&inner), 1);
            assert_eq!(
                shown(&inner).1,
                levels(&[20]),
                "it goes on at its new level"
            );
            std::future::poll_fn(|_| {
                count.set(count.get() + 1);
                if count.get() == 2 {
                    std::task::Poll::Pending
                } else {
                    std::task::Poll::Ready(())
                }
            })
            .await;
        })
        .unwrap();
    assert_eq!(
        executor.run_until_idle(),
        2,
        "the wake during the preempted poll led to another one"
    );
    output(handle);

    let (inner, dropped) = (executor.clone(), Rc::new(()));
    let guard = dropped.clone();
    let handle = executor
        .spawn(p(30), async move {
            let _guard = guard;
            let own = current().unwrap();
            let nested = inner.clone();
            inner
                .spawn(p(5), async move {
                    assert!(nested.cancel(own) && !nested.cancel(own))
                })
                .unwrap();
            interrupt(&inner);
            // X2: it takes effect when the poll ends pending.
            pending::<()>().await;
        })
        .unwrap();
    executor.run_until_idle();
    assert!(matches!(handle.try_join(), Ok(Err(JoinError::Cancelled))));
    assert_eq!(Rc::strong_count(&dropped), 1);
}

/// A more urgent coroutine that waits for something that the preempted one holds donates its level.
///
/// So the preempted one goes on.
#[test]
fn a_donated_level_resumes_the_preempted_coroutine() {
    let executor = shared();
    let mutex = Rc::new(Mutex::new(()));
    let diary = Log::default();
    let (inner, notes, lock) = (executor.clone(), diary.clone(), mutex.clone());
    executor
        .spawn(p(30), async move {
            let held = lock.lock().await;
            for level in [10, 20] {
                let (notes, lock) = (notes.clone(), lock.clone());
                let locks = level == 10;
                inner
                    .spawn(p(level), async move {
                        notes.push(format!("{level}"));
                        if locks {
                            drop(lock.lock().await);
                            notes.push("locked");
                        }
                    })
                    .unwrap();
            }
            assert_eq!(
                interrupt(&inner),
                1,
                "20 does not overtake the holder, which is as urgent as 10 now"
            );
            notes.push("unlocks");
            drop(held);
        })
        .unwrap();
    executor.run_until_idle();
    assert_eq!(diary.take(), "10 unlocks locked 20");
}

#[cfg(feature = "std")]
#[test]
fn a_panic_in_between_ends_alone() {
    let executor = shared();
    let inner = executor.clone();
    let handle = executor
        .spawn(p(30), async move {
            let bad = inner
                .spawn(p(5), async {
                    std::panic::resume_unwind(Box::new("on purpose"))
                })
                .unwrap();
            let good = inner.spawn(p(6), async { 1 }).unwrap();
            assert_eq!(interrupt(&inner), 2);
            assert_eq!(shown(&inner), (Levels::NONE, levels(&[30])));
            assert!(matches!(bad.try_join(), Ok(Err(JoinError::Panicked(_)))));
            output(good)
        })
        .unwrap();
    executor.run_until_idle();
    assert_eq!(output(handle), 1);
}

#[cfg(feature = "std")]
#[test]
fn a_panic_of_the_interrupt_itself_ends_the_preempted_one() {
    let executor = shared();
    let inner = executor.clone();
    let handle = executor
        .spawn(p(30), async move {
            inner.preempt(Interrupted::Ready, |_| {
                std::panic::resume_unwind(Box::new("on purpose"))
            });
        })
        .unwrap();
    executor.run_until_idle();
    assert!(matches!(handle.try_join(), Ok(Err(JoinError::Panicked(_)))));
    assert_eq!(shown(&executor), (Levels::NONE, Levels::NONE));
    // The executor is as good as new.
    let (diary, handle) = interrupted_among(&executor, 30, &[10]);
    executor.run_until_idle();
    assert_eq!(
        (diary.take().as_str(), output(handle)),
        ("before 10 after", 1)
    );
}

/// Rules B1 to B3: picks in between are strict.
///
/// Reserved picks come where they would have come without the interrupts.
#[test]
fn reserved_picks_are_not_counted_in_between() {
    let run = |interrupts: bool| {
        let executor = Rc::new(executor_with(Config::new().policy(Policy::bounded(3))));
        let diary = Log::default();
        for level in [40, 41, 42, 43] {
            let (inner, notes) = (executor.clone(), diary.clone());
            executor
                .spawn(p(level), async move {
                    for _ in 0..3 {
                        notes.push(level.to_string());
                        // The most urgent one, so that only what it spawns itself runs in between.
                        if interrupts && level == 40 {
                            for _ in 0..2 {
                                inner.spawn(p(7), async {}).unwrap();
                            }
                            assert_eq!(interrupt(&inner), 2);
                        }
                        yield_now().await;
                    }
                })
                .unwrap();
        }
        executor.run_until_idle();
        diary.take()
    };
    assert_eq!(run(true), run(false));
}

/// Timers that become due fire in between.
#[test]
fn timers_fire_in_between() {
    thread_local! { static NOW: Cell<u64> = const { Cell::new(0) }; }
    let executor = Rc::new(executor_with(Config::new().clock(|| NOW.get())));
    let diary = Log::default();
    let (notes, inner) = (diary.clone(), executor.clone());
    executor
        .spawn(p(5), {
            let notes = notes.clone();
            async move {
                corank::time::sleep_until(100).await;
                notes.push("due");
            }
        })
        .unwrap();
    executor
        .spawn(p(30), async move {
            assert_eq!(interrupt(&inner), 0);
            NOW.set(100);
            assert_eq!(interrupt(&inner), 1);
            notes.push("goes on");
        })
        .unwrap();
    executor.run_until_idle();
    assert_eq!(diary.take(), "due goes on");
}

/// A wake from another thread during the interrupt is collected.
#[test]
fn wakes_from_other_threads_arrive_in_between() {
    let executor = shared();
    let inner = executor.clone();
    let woken = executor
        .spawn(p(5), async {
            let mut first = true;
            std::future::poll_fn(|_| {
                if std::mem::take(&mut first) {
                    std::task::Poll::Pending
                } else {
                    std::task::Poll::Ready(())
                }
            })
            .await;
        })
        .unwrap();
    executor.run_until_idle();
    let remote = woken.remote();
    executor
        .spawn(p(30), async move {
            std::thread::spawn(move || remote.wake()).join().unwrap();
            assert_eq!(interrupt(&inner), 1);
        })
        .unwrap();
    executor.run_until_idle();
    output(woken);
}

#[cfg(feature = "stats")]
#[test]
fn time_as_preempted_is_waiting_time() {
    thread_local! { static NOW: Cell<u64> = const { Cell::new(0) }; }
    let executor = Rc::new(executor_with(Config::new().clock(|| NOW.get())));
    let inner = executor.clone();
    let handle = executor
        .spawn(p(30), async move {
            NOW.set(10);
            inner.spawn(p(5), async { NOW.set(NOW.get() + 7) }).unwrap();
            interrupt(&inner);
            NOW.set(NOW.get() + 3);
        })
        .unwrap();
    executor.run_until_idle();
    let stats = executor.stats(handle.id()).unwrap();
    assert_eq!(
        (
            stats.polls,
            stats.run_time,
            stats.wait_time,
            stats.longest_wait
        ),
        (1, 13, 7, 7)
    );
    assert_eq!(executor.level_stats(p(5)).run_time, 7);
}

#[cfg(feature = "hooks")]
#[test]
fn an_observer_sees_preemptions() {
    use std::sync::Mutex as StdMutex;
    static SEEN: StdMutex<Vec<String>> = StdMutex::new(Vec::new());
    struct Watch;
    // SAFETY: it writes a log of its own.
    unsafe impl corank::Observer for Watch {
        fn poll_started(&self, _: corank::CoroutineId, priority: corank::Priority) {
            SEEN.lock()
                .unwrap()
                .push(format!("poll {}", priority.level()));
        }
        fn preempted(&self, _: corank::CoroutineId) {
            SEEN.lock().unwrap().push("preempted".into());
        }
        fn resumed(&self, _: corank::CoroutineId, priority: corank::Priority) {
            SEEN.lock()
                .unwrap()
                .push(format!("resumed {}", priority.level()));
        }
    }
    let executor = Rc::new(executor_with(Config::new().observer(&Watch)));
    let (_, handle) = interrupted_among(&executor, 30, &[10]);
    executor.run_until_idle();
    output(handle);
    assert_eq!(
        SEEN.lock().unwrap().join(" "),
        "poll 30 preempted poll 10 resumed 30"
    );
}
