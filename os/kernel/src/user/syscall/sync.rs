//! Semaphores, mutexes and condition variables.
use crate::process::{Kind, Process};
use crate::semaphore::Semaphore;
use crate::wait::WaitMode;
use corank_abi::call::{
    CONDVAR_CREATE, CONDVAR_SIGNAL, FAILED, MUTEX_CREATE, MUTEX_LOCK, MUTEX_UNLOCK,
    SEMAPHORE_CREATE,
};

/// Makes what the call asks for.
///
/// A mutex waits as its process does, whichever kind is asked for.
#[inline(never)]
pub(super) fn create(process: &Process, call: usize, permits: usize) -> isize {
    let number = match call {
        MUTEX_CREATE => process.add_semaphore(Kind::Mutex, 1),
        CONDVAR_CREATE => process.add_semaphore(Kind::Condition, 0),
        SEMAPHORE_CREATE => process.add_semaphore(Kind::Semaphore, permits),
        _ => None,
    };
    number.map_or(FAILED, |number| number as isize)
}

#[inline(never)]
pub(super) fn up(process: &Process, call: usize, number: usize) -> isize {
    let kind = match call {
        MUTEX_UNLOCK => Kind::Mutex,
        CONDVAR_SIGNAL => Kind::Condition,
        _ => Kind::Semaphore,
    };
    let Some(semaphore) = process.semaphore(kind, number) else {
        return FAILED;
    };
    match kind {
        Kind::Mutex if !semaphore.up_to_one() => return FAILED,
        Kind::Mutex => {}
        Kind::Condition => semaphore.up_if_awaited(),
        Kind::Semaphore => semaphore.up(),
    }
    0
}

fn downs(call: usize) -> Kind {
    if call == MUTEX_LOCK {
        Kind::Mutex
    } else {
        Kind::Semaphore
    }
}

pub(super) fn down_at_once(process: &Process, call: usize, number: usize) -> Option<isize> {
    match process.semaphore(downs(call), number) {
        Some(semaphore) => semaphore.try_down().then_some(0),
        None => Some(FAILED),
    }
}

pub(super) async fn down(process: &Process, mode: WaitMode, call: usize, number: usize) -> isize {
    let Some(semaphore) = process.semaphore(downs(call), number) else {
        return FAILED;
    };
    semaphore.down(mode).await;
    0
}

pub(super) async fn wait_condition(
    process: &Process,
    mode: WaitMode,
    condition: usize,
    mutex: usize,
) -> isize {
    let condition = process.semaphore(Kind::Condition, condition);
    let (Some(condition), Some(mutex)) = (condition, process.semaphore(Kind::Mutex, mutex)) else {
        return FAILED;
    };
    // It queues first and unlocks then, so a signal in between is not lost.
    let unlocked = condition
        .new_waiter()
        .wait_after(|| mutex.up_to_one())
        .await;
    if !unlocked {
        return FAILED;
    }
    // Cancelled from here on, the call has had a signal and makes no use of it.
    let signal = Signal(&condition);
    mutex.down(mode).await;
    core::mem::forget(signal);
    0
}

/// A condition variable's signal that has not been used yet.
///
/// When dropped, it goes to another waiter, if there is one.
struct Signal<'a>(&'a Semaphore);

impl Drop for Signal<'_> {
    fn drop(&mut self) {
        self.0.up_if_awaited();
    }
}
