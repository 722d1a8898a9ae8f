//! Tests of priorities across processes (AsyncOS, section 2.3.2).
//!
//! The most urgent coroutine of all processes runs first.
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use core::time::Duration;

use corank_user::io::OwnedFd;
use corank_user::process::{self, Pid};
use corank_user::runtime::{self, Global};
use corank_user::{Priority, page, ring, spawn, thread, time};

use crate::support::{at_level, one_hart, pipe, spin_for_ticks, tests};

tests![
    the_most_urgent_process_runs_first,
    an_arrival_makes_a_process_urgent,
    a_tick_takes_the_hart_from_the_less_urgent,
    a_strict_executor_yields_to_more_urgent_processes,
    the_system_bitmap_shows_what_no_hart_serves,
];

fn level(level: u8) -> Priority {
    Priority::new(level).expect("below 64")
}

/// Starts a process in which the main coroutine at `priority` waits for the gate.
///
/// Then that coroutine computes for some clock ticks, and signs the book.
fn competitor(priority: u8, ticks: u64, gate: &OwnedFd, book: &OwnedFd, ready: &OwnedFd) -> Pid {
    process::spawn(|| {
        let [gate, book] = [gate, book].map(|end| end.duplicate().expect("a descriptor"));
        let ready = ready.duplicate().expect("a descriptor");
        runtime::run(level(priority), Global::Relaxed, async move {
            ready.write(&[1]).expect("room");
            let (count, _) = ring::read(&gate, Vec::with_capacity(1)).await;
            assert_eq!(count, Ok(1));
            spin_for_ticks(ticks);
            book.write(&[priority]).expect("room");
        });
        0
    })
    .expect("a process")
}

/// Lets processes of these levels compete, and returns the order in which they signed.
fn race(levels: &[u8], ticks: u64) -> Vec<u8> {
    let _alone = one_hart();
    let (gate, gatekeeper) = pipe();
    let (page, book) = pipe();
    let (all_ready, ready) = pipe();
    let children: Vec<Pid> = levels
        .iter()
        .map(|priority| competitor(*priority, ticks, &gate, &book, &ready))
        .collect();
    let mut signals = alloc::vec![0; levels.len()];
    assert_eq!(all_ready.read(&mut signals), Ok(levels.len()));
    // Each of them has said that it is ready, and goes to wait at the gate before it yields.
    spin_for_ticks(3);
    assert_eq!(
        gatekeeper.write(&alloc::vec![0; levels.len()]),
        Ok(levels.len())
    );
    let mut order = alloc::vec![0; levels.len()];
    assert_eq!(page.read(&mut order), Ok(levels.len()));
    for child in children {
        assert_eq!(process::wait(child).expect("the child").code, 0);
    }
    order
}

fn the_most_urgent_process_runs_first() {
    assert_eq!(race(&[40, 10, 60, 33], 2), [10, 33, 40, 60]);
}

fn an_arrival_makes_a_process_urgent() {
    assert_eq!(race(&[63, 0], 0), [0, 63]);
    assert_eq!(race(&[0, 63], 0), [0, 63]);
}

/// Tests that a tick takes the hart from a less urgent process.
///
/// A process at level 50 never enters the kernel. One at level 2, which sleeps, has the hart as
/// soon as it wakes.
fn a_tick_takes_the_hart_from_the_less_urgent() {
    let _alone = one_hart();
    let (page, book) = pipe();
    let run = |priority, body: fn()| {
        process::spawn(|| {
            let book = book.duplicate().expect("a descriptor");
            runtime::run(level(priority), Global::Relaxed, async move {
                body();
                book.write(&[priority]).expect("room");
            });
            0
        })
        .expect("a process")
    };
    // More ticks than the other process takes altogether.
    let spinning = run(50, || spin_for_ticks(30));
    let urgent = run(2, || {
        time::sleep(Duration::from_millis(20));
        spin_for_ticks(5);
    });
    let mut order = [0; 2];
    assert_eq!(page.read(&mut order), Ok(2));
    assert_eq!(order, [2, 50]);
    for child in [spinning, urgent] {
        assert_eq!(process::wait(child).expect("the child").code, 0);
    }
}

/// Tests that a strict executor yields where a relaxed one goes on.
///
/// At the end of urgent work a strict executor sees what else has come meanwhile. It yields to that
/// before it polls less urgent coroutines. One executor shows both, as it is switched to and fro.
#[expect(clippy::async_yields_async, reason = "the waiter must be less urgent")]
fn a_strict_executor_yields_to_more_urgent_processes() {
    /// Number of rounds of each mode.
    ///
    /// In a relaxed round an interrupt, such as a tick, may let the other process go first. That
    /// does not happen in so many rounds in a row.
    const ROUNDS: usize = 200;
    let _alone = one_hart();
    let (gate, gatekeeper) = pipe();
    let (page, book) = pipe();
    let other = at_level(20, || {
        // The other process ends with this one, however this one ends.
        drop(OwnedFd::from_number(gatekeeper.number()));
        while gate.read(&mut [0]) == Ok(1) {
            book.write(&[20]).expect("room");
        }
    });
    runtime::run(Priority::LEAST_URGENT, Global::Relaxed, async move {
        let (gatekeeper, book) = (Rc::new(gatekeeper), Rc::new(book));
        let round = async |global| {
            runtime::set_global(global);
            let (gatekeeper, book) = (gatekeeper.clone(), book.clone());
            let urgent = spawn(level(10), async move {
                // The kernel checks the level. At level 10 this process goes on behind the call by
                // which the other one becomes ready.
                thread::yield_now();
                let less_urgent = spawn(level(40), async move {
                    book.write(&[40]).expect("room");
                });
                gatekeeper.write(&[0]).expect("room");
                less_urgent.expect("memory")
            });
            // Waiting raises nothing here, because this coroutine is the least urgent of all.
            let less_urgent = urgent.expect("memory").await.expect("it ends");
            less_urgent.await.expect("it ends");
            let mut order = [0; 2];
            assert_eq!(page.read(&mut order), Ok(2));
            order
        };
        for _ in 0..2 {
            let mut rounds = 1;
            while round(Global::Relaxed).await != [40, 20] {
                rounds += 1;
                assert!(rounds <= ROUNDS, "a relaxed executor never goes on");
            }
            for _ in 0..ROUNDS {
                assert_eq!(round(Global::Strict).await, [20, 40]);
            }
        }
    });
    assert_eq!(process::wait(other).expect("the child").code, 0);
}

/// Tests that the system's bitmap shows at once what is ready and not served by a hart.
///
/// No tick has to come.
fn the_system_bitmap_shows_what_no_hart_serves() {
    let _alone = one_hart();
    let (gate, gatekeeper) = pipe();
    let (page, book) = pipe();
    let (all_ready, ready) = pipe();
    let waiting = competitor(21, 0, &gate, &book, &ready);
    assert_eq!(all_ready.read(&mut [0]), Ok(1));
    // The competitor goes to wait at the gate, because it is more urgent than this process.
    spin_for_ticks(3);
    runtime::run(level(17), Global::Relaxed, async move {
        // By the next tick the kernel knows how urgent this process is now.
        spin_for_ticks(2);
        let shown = || page::system().ready.load(Ordering::Relaxed) & 1 << 21 != 0;
        assert!(!shown());
        gatekeeper.write(&[0]).expect("room");
        assert!(shown());
        let running = page::system().running.load(Ordering::Relaxed);
        assert!(running & 1 << 21 == 0);
    });
    assert_eq!(page.read(&mut [0]), Ok(1));
    assert_eq!(process::wait(waiting).expect("the child").code, 0);
}
