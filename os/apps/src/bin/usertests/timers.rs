//! Tests of timers of a process's own coroutines, while the process does not run (rule T9).
//!
//! The timers count at their coroutines' levels.
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::hint::spin_loop;
use core::sync::atomic::Ordering;

use corank_user::corank::sync::Event;
use corank_user::corank::time::sleep_until;
use corank_user::io::OwnedFd;
use corank_user::process::{self, Pid};
use corank_user::runtime::{self, Global};
use corank_user::{Priority, calls, page, spawn, thread, time, yield_now};

use crate::support::{
    claim, claim_nothing, claim_timer, exit_code, kill_and_wait, one_hart, pipe, record,
    spin_for_ticks, tests,
};

tests![
    an_urgent_sleeper_of_a_waiting_process_goes_first,
    an_urgent_sleeper_of_a_busy_process_goes_first,
    an_urgent_sleeper_goes_first_on_one_hart,
    a_sleeper_that_becomes_urgent_goes_first,
    a_less_urgent_sleeper_waits,
    a_child_has_its_parents_timers,
    false_timers_of_another_thread_stop_nothing,
];

/// Both responses to more urgent work elsewhere.
const BOTH: [Global; 2] = [Global::Relaxed, Global::Strict];

const MILLISECOND: u64 = 1_000_000;

fn level(level: u8) -> Priority {
    Priority::new(level).expect("below 64")
}

fn other(end: &OwnedFd) -> OwnedFd {
    end.duplicate().expect("a descriptor")
}

/// Work of the process with the sleeper meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    /// All its coroutines wait.
    Waits,
    /// One computes, at level 40.
    Computes,
    /// The sleeper goes to sleep at level 39, and another coroutine makes it urgent.
    Promotes,
}

/// Starts a process with a sleeper at level 5 that signs the book at `due`.
///
/// Everything else in the process is at level 40. The kernel knows that when the process says that
/// it is ready.
fn with_a_sleeper(
    due: u64,
    global: Global,
    meanwhile: Meanwhile,
    book: &OwnedFd,
    ready: &OwnedFd,
) -> Pid {
    process::spawn(|| {
        claim_nothing();
        let (book, ready) = (other(book), other(ready));
        runtime::run(level(40), global, async move {
            let first = match meanwhile {
                Meanwhile::Promotes => level(39),
                Meanwhile::Waits | Meanwhile::Computes => level(5),
            };
            let urgent = spawn(first, async move {
                sleep_until(due).await;
                book.write(&[5]).expect("room");
            });
            let urgent = urgent.expect("memory");
            yield_now().await;
            if meanwhile == Meanwhile::Promotes {
                urgent.reprioritize(level(5));
            }
            spin_for_ticks(2);
            ready.write(&[1]).expect("room");
            while meanwhile == Meanwhile::Computes && !urgent.has_exited() {
                yield_now().await;
            }
            urgent.await.expect("it ends");
        });
        0
    })
    .expect("a process")
}

/// Starts a process that computes at level 20 until long after `due`, and then signs the book.
///
/// It makes no system call until then.
fn computing(due: u64, global: Global, book: &OwnedFd, begun: &OwnedFd) -> Pid {
    process::spawn(|| {
        claim_nothing();
        let (book, begun) = (other(book), other(begun));
        runtime::run(level(20), global, async move {
            begun.write(&[1]).expect("room");
            while time::nanoseconds() < due + 2000 * MILLISECOND {
                spin_loop();
            }
            book.write(&[20]).expect("room");
        });
        0
    })
    .expect("a process")
}

/// Returns the level that signs first while each hart computes at level 20.
fn first_to_sign(global: Global, meanwhile: Meanwhile) -> u8 {
    // This process only checks, and does so at once.
    claim(1);
    let due = time::nanoseconds() + 200 * MILLISECOND;
    let (page, book) = pipe();
    let (all_ready, ready) = pipe();
    let sleeps = with_a_sleeper(due, global, meanwhile, &book, &ready);
    assert_eq!(all_ready.read(&mut [0]), Ok(1));
    let compute: Vec<_> = (0..process::harts())
        .map(|_| computing(due, global, &book, &ready))
        .collect();
    let mut first = [0];
    assert_eq!(page.read(&mut first), Ok(1));
    compute.into_iter().for_each(kill_and_wait);
    assert_eq!(process::wait(sleeps).expect("the child").code, 0);
    first[0]
}

fn an_urgent_sleeper_of_a_waiting_process_goes_first() {
    for global in BOTH {
        assert_eq!(first_to_sign(global, Meanwhile::Waits), 5, "{global:?}");
    }
}

fn an_urgent_sleeper_of_a_busy_process_goes_first() {
    for global in BOTH {
        assert_eq!(first_to_sign(global, Meanwhile::Computes), 5, "{global:?}");
    }
}

fn a_sleeper_that_becomes_urgent_goes_first() {
    assert_eq!(first_to_sign(Global::Relaxed, Meanwhile::Promotes), 5);
}

/// Tests that the same holds on one hart, however many there are.
fn an_urgent_sleeper_goes_first_on_one_hart() {
    let _alone = one_hart();
    for global in BOTH {
        for meanwhile in [Meanwhile::Waits, Meanwhile::Computes] {
            assert_eq!(first_to_sign(global, meanwhile), 5, "{global:?}");
        }
    }
}

/// Tests that a less urgent sleeper waits.
///
/// Its process was at level 5 when it went to wait. The sleeper at level 50 doesn't count as that.
fn a_less_urgent_sleeper_waits() {
    let _alone = one_hart();
    claim(1);
    for delay in [200, 1000, 5000] {
        let due = time::nanoseconds() + delay * MILLISECOND;
        let (page, book) = pipe();
        let (all_ready, ready) = pipe();
        let sleeps = process::spawn(|| {
            claim_nothing();
            let (book, ready) = (other(&book), other(&ready));
            runtime::run(level(5), Global::Relaxed, async move {
                let over = Rc::new(Event::new());
                let sets = over.clone();
                spawn(level(50), async move {
                    sleep_until(due).await;
                    book.write(&[50]).expect("room");
                    sets.set();
                })
                .expect("memory");
                spin_for_ticks(2);
                ready.write(&[1]).expect("room");
                over.wait().await;
            });
            0
        })
        .expect("a process");
        assert_eq!(all_ready.read(&mut [0]), Ok(1));
        let computes = process::spawn(|| {
            claim_nothing();
            let book = other(&book);
            runtime::run(level(20), Global::Relaxed, async move {
                book.write(&[1]).expect("room");
                while time::nanoseconds() < due + 50 * MILLISECOND {
                    spin_loop();
                }
                book.write(&[20]).expect("room");
            });
            0
        })
        .expect("a process");
        drop(book);
        let mut signed = Vec::with_capacity(4);
        page.fill(&mut signed).expect("it can be read");
        for child in [sleeps, computes] {
            assert_eq!(process::wait(child).expect("the child").code, 0);
        }
        if signed == [1, 20, 50] {
            return;
        }
        // This happens only if the host delayed the machine until the sleeper was due, before the
        // other one had begun.
        assert_eq!(signed, [50, 1, 20]);
    }
    panic!("the machine never ran for long enough");
}

/// Tests that a child goes on with its parent's executor.
fn a_child_has_its_parents_timers() {
    let code = exit_code(|| {
        runtime::run(level(7), Global::Relaxed, async {
            let due = time::nanoseconds() + 1000 * MILLISECOND;
            spawn(level(5), sleep_until(due)).expect("memory");
            yield_now().await;
            let deadlines = &page::process().deadlines;
            let shown = || {
                let levels = deadlines.levels.load(Ordering::Relaxed);
                (levels, deadlines.bounds[5].load(Ordering::Relaxed))
            };
            assert_eq!(shown(), (1 << 5, due));
            let theirs = exit_code(|| i32::from(shown() == (1 << 5, due)));
            assert_eq!(theirs, 1);
        });
        i32::from(page::process().deadlines.levels.load(Ordering::Relaxed) != 0)
    });
    assert_eq!(code, 0);
}

/// Tests that nonsense deadlines from one thread do not stop another process.
///
/// One thread of a process writes deadlines that are always about to come. The other one comes to
/// rest again and again. A process that computes meanwhile has most of a hart for itself, rather
/// than its interrupts.
fn false_timers_of_another_thread_stop_nothing() {
    let forger = process::spawn(|| {
        process::grant(process::id(), !0 << 40).expect("its own");
        claim(1 << 60);
        let writes = || loop {
            for at in 0..64 {
                claim_timer(at, time::nanoseconds() + 1000);
            }
        };
        let _writer = thread::spawn(writes).expect("a thread");
        loop {
            let _ = calls::sleep(1);
        }
    })
    .expect("a process");
    spin_for_ticks(2);
    // This process is at the default level, so more urgent than any level that the forger may
    // claim. With several harts the forger goes on beside it.
    let charged = || record(process::id()).time;
    let (begin, before) = (time::nanoseconds(), charged());
    while time::nanoseconds() < begin + 200 * MILLISECOND {
        spin_loop();
    }
    let passed = (time::nanoseconds() - begin) / 1000;
    let own = charged() - before;
    kill_and_wait(forger);
    assert!(2 * own > passed, "{own} of {passed} µs");
}
