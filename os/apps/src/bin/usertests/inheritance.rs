//! Tests that the kernel serves a call at the live level of the coroutine that waits for it (rule
//! I9).
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use corank_abi::page::RING_BASE;
use corank_abi::ring::RingHeader;
use corank_user::corank::{
    self,
    sync::{Event, Mutex},
};
use corank_user::io::OwnedFd;
use corank_user::runtime::{self, Global};
use corank_user::{JoinHandle, Priority, calls, process, spawn, thread, yield_now};

use crate::support::{busy_elsewhere, pipe, tests};

tests![
    a_call_follows_the_joiner_of_its_caller,
    a_call_follows_through_a_chain,
    a_call_follows_a_waiter_for_its_callers_lock,
    a_call_follows_reprioritisation,
    a_less_urgent_level_counts_from_the_next_entry,
    a_call_the_kernel_has_not_seen_follows_its_caller,
    levels_follow_however_often_they_change,
];

fn level(level: u8) -> Priority {
    Priority::new(level).expect("below 64")
}

/// Returns how many completions the kernel has put into the ring.
fn completed() -> u32 {
    // SAFETY: the library has set the rings up, and they stay.
    let header = unsafe { &*core::ptr::with_exposed_provenance::<RingHeader>(RING_BASE) };
    header.completion_tail.load(Ordering::Acquire)
}

/// Level of the coroutine that runs each test.
///
/// It is more urgent than the callers, so the kernel serves their calls only when they are more
/// urgent than it. The other harts have something still more urgent.
const MAIN: u8 = 20;

fn run(test: impl Future<Output = ()> + 'static) {
    let _busy = busy_elsewhere(MAIN / 2);
    runtime::run(level(MAIN), Global::Relaxed, test);
}

/// Spawns a caller of level 40, and returns when the kernel has taken its read.
async fn caller() -> (JoinHandle<()>, OwnedFd) {
    let (reader, writer) = pipe();
    let read = async move {
        let (count, _) = calls::read_async(reader.number(), Vec::with_capacity(1)).await;
        assert_eq!(count, Ok(1));
    };
    let caller = spawn(level(40), read).expect("memory");
    taken(40).await;
    (caller, writer)
}

/// Waits until every coroutine of this level or a more urgent one has made its call.
///
/// The kernel has taken these calls then.
async fn taken(level: u8) {
    // This uses an event, because a coroutine that awaits a handle would donate its own level.
    let done = Rc::new(Event::new());
    let set = Rc::clone(&done);
    let last = spawn(self::level(level), async move {
        calls::sleep_async(0).await.expect("memory");
        set.set();
    });
    drop(last.expect("memory"));
    done.wait().await;
}

/// Writes the byte, and counts the calls that the kernel completes before it lets this process go
/// on.
fn completed_by(writer: &OwnedFd) -> u32 {
    let before = completed();
    writer.write(b"x").expect("room");
    // The kernel first serves everything that is more urgent than this process.
    thread::yield_now();
    process::quiesce();
    completed() - before
}

fn a_call_follows_the_joiner_of_its_caller() {
    run(async {
        let (alone, writer) = caller().await;
        assert_eq!(
            completed_by(&writer),
            0,
            "level 40 has to wait for level 20"
        );
        alone.await.expect("it ends");
        let (awaited, writer) = caller().await;
        let urgent = spawn(level(1), async move { awaited.await.expect("it ends") });
        yield_now().await;
        assert_eq!(completed_by(&writer), 1, "at level 1 it has not");
        urgent.expect("memory").await.expect("it ends");
    });
}

fn a_call_follows_through_a_chain() {
    run(async {
        let (mut last, writer) = caller().await;
        for between in [35, 30, 25] {
            let next = last;
            last =
                spawn(level(between), async move { next.await.expect("it ends") }).expect("memory");
        }
        taken(40).await;
        let urgent = spawn(level(1), async move { last.await.expect("it ends") }).expect("memory");
        yield_now().await;
        assert_eq!(completed_by(&writer), 1);
        urgent.await.expect("it ends");
    });
}

fn a_call_follows_a_waiter_for_its_callers_lock() {
    run(async {
        let mutex = Rc::new(Mutex::new(()));
        let (reader, writer) = pipe();
        let held = Rc::clone(&mutex);
        let holder = spawn(level(40), async move {
            let _guard = held.lock().await;
            let (count, _) = calls::read_async(reader.number(), Vec::with_capacity(1)).await;
            assert_eq!(count, Ok(1));
        })
        .expect("memory");
        taken(40).await;
        let urgent = spawn(level(1), async move { drop(mutex.lock().await) }).expect("memory");
        yield_now().await;
        assert_eq!(completed_by(&writer), 1);
        urgent.await.expect("it ends");
        holder.await.expect("it ends");
    });
}

fn a_call_follows_reprioritisation() {
    run(async {
        let (caller, writer) = caller().await;
        assert!(caller.reprioritize(level(1)));
        assert_eq!(completed_by(&writer), 1);
        caller.await.expect("it ends");
    });
}

/// Tests that the kernel learns of a less urgent level when it is entered for the ring.
fn a_less_urgent_level_counts_from_the_next_entry() {
    run(async {
        for entered in [false, true] {
            let (caller, writer) = caller().await;
            assert!(caller.reprioritize(level(1)));
            assert!(caller.reprioritize(level(50)));
            if entered {
                calls::sleep_async(0).await.expect("memory");
            }
            assert_eq!(completed_by(&writer), u32::from(!entered));
            caller.await.expect("it ends");
        }
    });
}

fn a_call_the_kernel_has_not_seen_follows_its_caller() {
    run(async {
        let (reader, writer) = pipe();
        let urgent_now = async move {
            let mut reading =
                core::pin::pin!(calls::read_async(reader.number(), Vec::with_capacity(1)));
            core::future::poll_fn(|context| {
                assert!(reading.as_mut().poll(context).is_pending());
                core::task::Poll::Ready(())
            })
            .await;
            let this = corank::current().expect("a coroutine");
            assert!(corank::reprioritize(this, level(1)));
            assert_eq!(reading.await.0, Ok(1));
        };
        let caller = spawn(level(10), urgent_now).expect("memory");
        yield_now().await;
        calls::sleep_async(0).await.expect("memory");
        assert_eq!(completed_by(&writer), 1);
        caller.await.expect("it ends");
    });
}

fn levels_follow_however_often_they_change() {
    run(async {
        let (caller, writer) = caller().await;
        for round in 0..300_u32 {
            assert!(caller.reprioritize(level((round * 37 % 64) as u8)));
        }
        assert!(caller.reprioritize(level(1)));
        assert_eq!(completed_by(&writer), 1);
        caller.await.expect("it ends");
    });
}
