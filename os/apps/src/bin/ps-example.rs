//! Coroutines in every state, and `ps` to show them: for the test of what `ps` says of a process.
//!
//! | level | |
//! |---|---|
//! | 3 | what it reads has arrived, and its executor has not collected it |
//! | 5 | runs: it starts `ps`, and waits for it in a plain call |
//! | 10, 20 | ready |
//! | 40 | preempted in a computation, on a stack of its own |
//! | 45 | blocked: it reads what never comes |
#![no_std]
#![no_main]

extern crate alloc;

use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::sync::atomic::Ordering;
use core::task::Poll;
use core::time::Duration;

use atomic_waker::AtomicWaker;
use corank_user::corank::sync::Event;
use corank_user::corank::time::sleep;
use corank_user::interrupt::preemptible;
use corank_user::io::{OwnedFd, Pipe};
use corank_user::runtime::{self, Global};
use corank_user::{Priority, eprintln, information, page, process, ring, spawn, time};

corank_user::main!(main);

/// Number of coroutines.
const ALL: usize = 6;

fn main() -> i32 {
    runtime::run(level(40), Global::Relaxed, show_all())
}

fn level(level: u8) -> Priority {
    Priority::new(level).expect("below 64")
}

fn start(at: u8, coroutine: impl Future<Output = ()> + 'static) {
    spawn(level(at), coroutine).expect("memory");
}

async fn show_all() -> i32 {
    let [arrives, never] = [(); 2].map(|()| Pipe::new().expect("a pipe"));
    start(3, read(arrives.reader));
    start(45, read(never.reader));
    let begin = Rc::new(Event::new());
    for ready in [10, 20] {
        let begin = begin.clone();
        start(ready, async move { begin.wait().await });
    }
    let interrupt = Arc::new(AtomicWaker::new());
    let interrupted = woken(interrupt.clone());
    let shown = spawn(level(5), async move {
        interrupted.await;
        begin.set();
        arrives.writer.write(&[1]).expect("room for a byte");
        // Another hart may still be working on the kernel's part of that.
        while level_of_this_process() != 3 {
            time::sleep(Duration::from_millis(1));
        }
        ps()
    })
    .expect("memory");
    // The executor notes the number of coroutines when all of them wait. Then the kernel has both
    // reads.
    while page::process().coroutines.load(Ordering::Relaxed) < ALL {
        sleep(Duration::from_millis(1)).await;
    }
    preemptible(|| interrupt.wake());
    let code = shown.await.expect("it ends by itself");
    drop(never.writer);
    code
}

/// Returns the level at which the kernel runs this process.
fn level_of_this_process() -> u64 {
    let processes = information::processes().expect("a list");
    let this = processes
        .iter()
        .find(|process| process.pid == process::id() as u64);
    this.expect("it lives").level
}

/// Waits until the waker has been woken, which is the coroutine's next poll.
fn woken(waker: Arc<AtomicWaker>) -> impl Future<Output = ()> {
    let mut is_woken = false;
    poll_fn(move |context| {
        waker.register(context.waker());
        match core::mem::replace(&mut is_woken, true) {
            false => Poll::Pending,
            true => Poll::Ready(()),
        }
    })
}

async fn read(file: OwnedFd) {
    let (count, _) = ring::read(&file, Vec::with_capacity(1)).await;
    count.expect("a pipe can be read");
}

/// Runs `ps` and returns its exit code.
fn ps() -> i32 {
    let child = process::spawn(|| {
        let why = process::exec("ps", &["ps"]);
        eprintln!("ps cannot be started: {why:?}");
        127
    });
    let ended = child.and_then(process::wait);
    ended.expect("a child and its end").code
}
