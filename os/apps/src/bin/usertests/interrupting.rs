//! Coroutines that interrupt a computation, and what they share with it.
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use corank_user::io::OwnedFd;
use corank_user::{Priority, page, process, ring, spawn};

use crate::support::pipe;

pub(crate) fn level(level: u8) -> Priority {
    Priority::new(level).expect("below 64")
}

/// A log of what happened, in order, for coroutines and not for computations.
#[derive(Clone, Default)]
pub(crate) struct Log(Rc<RefCell<Vec<u32>>>);

impl Log {
    pub(crate) fn push(&self, entry: u32) {
        self.0.borrow_mut().push(entry);
    }

    pub(crate) fn take(&self) -> Vec<u32> {
        self.0.take()
    }
}

/// A flag that a computation waits for by polling it.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<AtomicBool>);

impl Seen {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Computes until the flag is set.
    ///
    /// A limit ensures that a failing test ends.
    pub(crate) fn spin(&self) {
        let ticks = || page::system().ticks.load(Ordering::Relaxed);
        let start = ticks();
        while !self.get() {
            assert!(
                ticks() - start < 1000,
                "the computation was not interrupted"
            );
            core::hint::spin_loop();
        }
    }
}

/// Spawns a coroutine that waits for a byte and then sets the returned `Seen`.
///
/// Writing the byte interrupts.
pub(crate) fn on_a_byte(priority: u8, then: impl FnOnce() + 'static) -> (OwnedFd, Seen) {
    let (reader, writer) = pipe();
    let seen = Seen::default();
    let set = seen.clone();
    spawn(level(priority), async move {
        let (count, _) = ring::read(&reader, Vec::with_capacity(1)).await;
        assert_eq!(count, Ok(1));
        then();
        set.set();
    })
    .expect("memory");
    (writer, seen)
}

/// Waits until every coroutine has run as far as it can.
pub(crate) async fn until_the_least_urgent_runs() {
    let (reader, writer) = pipe();
    spawn(Priority::LEAST_URGENT, async move {
        assert_eq!(ring::write(&writer, alloc::vec![0]).await.0, Ok(1));
    })
    .expect("memory");
    assert_eq!(ring::read(&reader, Vec::with_capacity(1)).await.0, Ok(1));
}

/// Writes a byte, and returns when the kernel has served the coroutine that waits for it.
///
/// The kernel has done so on whichever hart, unless that coroutine is less urgent.
pub(crate) fn write_and_wait(writer: &OwnedFd) {
    assert_eq!(writer.write(&[1]), Ok(1));
    process::quiesce();
}

/// Tests whether the computation is ready, which it is unless it waits in a call.
///
/// This is for coroutines that interrupt it.
pub(crate) fn computation_is_ready() -> bool {
    page::process().ready.load(Ordering::Relaxed) >> Priority::DEFAULT.level() & 1 == 1
}

/// Answers [`ask_while_it_waits`], and returns whether that has asked too early.
///
/// It has if the computation does not wait in a call yet.
pub(crate) async fn is_too_early(tells: &OwnedFd) -> bool {
    let is_ready = computation_is_ready();
    let (count, _) = ring::write(tells, alloc::vec![u8::from(is_ready)]).await;
    assert_eq!(count, Ok(1));
    is_ready
}

/// Asks a coroutine while its computation waits in a call.
///
/// If it asks [too early](is_too_early), the answer says so, and it asks again. This is for another
/// process.
pub(crate) fn ask_while_it_waits(question: u8, asked: &OwnedFd, told: &OwnedFd) {
    for pause in 1..100 {
        corank_user::time::sleep(Duration::from_millis(pause));
        assert_eq!(asked.write(&[question]), Ok(1));
        let mut again = [1];
        assert_eq!(told.read(&mut again), Ok(1));
        if again == [0] {
            return;
        }
    }
    panic!("the computation never waited");
}
