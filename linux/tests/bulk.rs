//! Threads of a class of their own for work that is not urgent (rule H14).

#![cfg(not(loom))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;

use std::fs;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use corank_linux::{Builder, Class, Priority, pipe, spawn, spawn_blocking, time, yield_now};
use futures::{AsyncReadExt, AsyncWriteExt};

/// Bounds the waits of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

fn builder(class: Class) -> Builder {
    Builder::new().workers(1).name("b").bulk(level(40), class)
}

/// Returns the name of the calling thread, its policy and its niceness, as Linux reports them.
fn scheduled() -> (String, u32, i32) {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let name = thread::current().name().unwrap().to_string();
    // Fields 19 and 41 of proc(5); the first here is the third.
    (
        name,
        fields[38].parse().unwrap(),
        fields[16].parse().unwrap(),
    )
}

#[test]
fn work_runs_on_threads_of_its_levels() {
    let (own_policy, own_nice) = {
        let (_, policy, nice) = scheduled();
        (policy, nice)
    };
    let classes = [
        (Class::Batch, (3, own_nice)),
        (Class::Idle, (5, own_nice)),
        (Class::Nice(7), (own_policy, (own_nice + 7).min(19))),
    ];
    for (class, expected) in classes {
        let runtime = builder(class).build().unwrap();
        for at in [0, 39, 40, 63] {
            let where_it_runs = runtime.handle().spawn(level(at), async { scheduled() });
            // The coroutine that waits donates no more urgent level.
            let result = runtime.block_on_at(level(63), where_it_runs.unwrap());
            let (name, policy, nice) = result.unwrap();
            if at < 40 {
                assert_eq!((&*name, policy, nice), ("b-0", own_policy, own_nice));
            } else {
                assert_eq!((&*name, (policy, nice)), ("b-bulk-0", expected));
            }
        }
    }
}

/// A blocking call of a coroutine on these levels runs in the class.
#[test]
fn blocking_calls_run_in_the_class() {
    // That of the first runtime of the process counts, whichever test is first.
    let runtime = builder(Class::Batch).build().unwrap();
    let policy_at = |at| {
        let call = async { spawn_blocking(scheduled).await.unwrap() };
        runtime.block_on_at(level(at), call)
    };
    let own = scheduled();
    let urgent = policy_at(3);
    assert_eq!((urgent.1, urgent.2), (own.1, own.2));
    let bulk = policy_at(50);
    assert_ne!((bulk.1, bulk.2), (own.1, own.2));
}

/// Coroutines of both kinds wake each other by channels, joins, timers and I/O.
#[test]
fn both_kinds_wake_each_other() {
    let runtime = builder(Class::Batch).build().unwrap();
    runtime.block_on_at(level(50), async {
        let (mut ping, mut pinged) = pipe::pipe().unwrap();
        let (mut pong, mut ponged) = pipe::pipe().unwrap();
        let echo = async move {
            let mut byte = [0];
            while let Ok(1) = pinged.read(&mut byte).await {
                pong.write_all(&byte).await.unwrap();
            }
        };
        let echo = spawn(level(3), echo).unwrap();
        for number in 0..100 {
            ping.write_all(&[number]).await.unwrap();
            let mut byte = [0];
            ponged.read_exact(&mut byte).await.unwrap();
            assert_eq!(byte, [number]);
            if number % 10 == 0 {
                time::sleep(Duration::from_millis(1)).await;
                yield_now().await;
            }
        }
        drop(ping);
        echo.await.unwrap();
    });
}

/// Bulk polls that do not end hold up nothing urgent; nor does an urgent one what is more urgent.
#[test]
fn long_polls_of_both_kinds_hold_up_nothing_urgent() {
    let runtime = builder(Class::Idle).build().unwrap();
    let (begin, begun) = mpsc::channel();
    let mut ends = Vec::new();
    for at in [50, 20] {
        let begin = begin.clone();
        let (end, ended) = mpsc::channel();
        let holds = async move {
            begin.send(()).unwrap();
            ended.recv_timeout(LONG).expect("something urgent has run");
        };
        drop(runtime.handle().spawn(level(at), holds).unwrap());
        begun.recv_timeout(LONG).unwrap();
        ends.push(end);
    }
    let (run, ran) = mpsc::channel();
    let urgent = async move {
        run.send(thread::current().name().unwrap().to_string())
            .unwrap()
    };
    drop(runtime.handle().spawn(level(3), urgent).unwrap());
    assert!(ran.recv_timeout(LONG).unwrap().starts_with("b-spare-"));
    for end in ends {
        end.send(()).unwrap();
    }
    assert_eq!(runtime.shutdown(LONG), Ok(()));
}

#[test]
#[should_panic(expected = "level 0 is for the workers")]
fn a_level_is_left_to_the_workers() {
    drop(Builder::new().bulk(Priority::MOST_URGENT, Class::Idle));
}
