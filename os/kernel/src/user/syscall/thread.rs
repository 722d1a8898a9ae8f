//! Threads, and how they wait.
use crate::process::{Process, Waited};
use crate::ring::MAX_ENTRIES;
use crate::user::thread::{self, Thread};
use crate::wait::{WaitMode, until};
use alloc::sync::Arc;
use corank_abi::call::{BY_COROUTINE, BY_THREAD, FAILED, WAIT_BLOCK, WAIT_YIELD};
use core::sync::atomic::Ordering;
use core::task::Poll;

#[inline(never)]
pub(super) fn create(process: &Arc<Process>, entry: usize, argument: usize) -> isize {
    thread::start_at(process, entry, argument).map_or(FAILED, |tid| tid as isize)
}

fn report(waited: Waited) -> Option<isize> {
    match waited {
        Waited::None => Some(FAILED),
        Waited::Running => None,
        Waited::Ended(_, code) => Some(code as isize),
    }
}

pub(super) fn wait_at_once(process: &Process, tid: usize) -> Option<isize> {
    report(process.wait_thread(tid, |_| ()))
}

pub(super) async fn wait(process: &Process, mode: WaitMode, tid: usize) -> isize {
    until(&process.threads, mode, |turn| {
        report(process.wait_thread(tid, |state| turn.wait(state)))
            .map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

#[inline(never)]
pub(super) fn wait_mode(process: &Process, mode: usize) -> isize {
    let mode = match mode {
        WAIT_BLOCK => WaitMode::Block,
        WAIT_YIELD => WaitMode::Yield,
        _ => return FAILED,
    };
    match process.set_wait_mode(mode) {
        WaitMode::Block => WAIT_BLOCK as isize,
        WaitMode::Yield => WAIT_YIELD as isize,
    }
}

#[inline(never)]
pub(super) fn service_model(process: &Process, model: usize) -> isize {
    if model != BY_COROUTINE && model != BY_THREAD {
        return FAILED;
    }
    let before = process
        .by_thread
        .swap(model == BY_THREAD, Ordering::Relaxed);
    if before {
        BY_THREAD as isize
    } else {
        BY_COROUTINE as isize
    }
}

#[inline(never)]
pub(super) fn ring_setup(thread: &Thread, entries: usize) -> isize {
    if !entries.is_power_of_two() || entries > MAX_ENTRIES {
        return FAILED;
    }
    thread
        .become_worker()
        .and_then(|worker| thread.process.set_up_ring(worker.number, entries))
        .map_or(FAILED, |address| address as isize)
}
