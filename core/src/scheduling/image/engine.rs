//! The image's side: the table, and its functions.

#[cfg(feature = "image-variants")]
mod variants;

use core::pin::Pin;
use core::ptr::NonNull;

use super::{Deadline, ERRORS, Engine, Fill, LAYOUT, Ran, Setup, Spawned, View};
use crate::priority::Priority;
use crate::priority::policy::Policy;
use crate::priority::published::Published;
use crate::scheduling::config::Interrupted;
use crate::scheduling::config::{Config, Step, SystemView};
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::block::BlockRef;
use crate::scheduling::table::id::CoroutineId;
use crate::scheduling::table::storage::heap_scheduler;
use crate::scheduling::table::task::VTable;
use crate::scheduling::time::timers::Timer;
use crate::scheduling::workers::worker_context::WorkerContext;

/// The table that the image exports.
pub const ENGINE: Engine = Engine {
    size: size_of::<Engine>(),
    layout: LAYOUT,
    create,
    close,
    spawn,
    run,
    find,
    wake,
    reprioritize,
    cancel,
    refresh_level,
    set_aside,
    take_back,
    forget_handle,
    free_memory,
    push_inbox,
    drain_inbox,
    anchor,
    unanchor,
    lock,
    unlock,
    pass_on,
    enter,
    leave,
    ready,
    published,
    trim,
    now,
    next_deadline,
    fire_timers,
    set_timer,
    cancel_timer,
    hand_over_timer,
    unlock_for_good,
};

impl SystemView for View {
    #[inline]
    fn most_urgent_elsewhere(&self) -> Option<Priority> {
        let ask = self.ask?;
        // SAFETY: the function came with its data, and both are good for the time of the call of
        // `run`.
        Priority::new(unsafe { ask(self.data) })
    }
}

// What all of these require: whatever they are given was made by this image, or is a client's own
// and laid out as `LAYOUT` says. The caller is the owner of the scheduler, except where the name of
// the method in `Scheduler` says otherwise.

unsafe extern "C" fn create(setup: &Setup) -> Option<NonNull<Scheduler>> {
    heap_scheduler(config(setup, setup.every), setup.memory)
}

fn config(setup: &Setup, every: u32) -> Config {
    Config {
        policy: Policy::bounded(every),
        demotion: setup.demotion,
        capacity: setup.capacity,
        serial: setup.serial,
        // SAFETY: null, or a client's that stays.
        published: unsafe { setup.published.as_ref() },
        notify: setup.notify.replace(None),
        clock: setup.has_clock.then_some(setup.clock),
        // SAFETY: as above.
        deadlines: unsafe { setup.deadlines.as_ref() },
        shared: setup.shared,
        relax: setup.relax,
    }
}

unsafe extern "C" fn close(scheduler: NonNull<Scheduler>) {
    Scheduler::close(scheduler);
}

unsafe extern "C" fn spawn(
    scheduler: &Scheduler,
    priority: Priority,
    vtable: &'static VTable,
    fill: Fill,
    make: *mut u8,
) -> Spawned {
    // SAFETY: the client's function, with its data.
    let spawned = scheduler.admit_with(priority, vtable, |memory| unsafe { fill(make, memory) });
    let number = |error| ERRORS.iter().position(|known| *known == error);
    match spawned {
        Ok(block) => Spawned {
            block: Some(block),
            error: 0,
        },
        Err(error) => Spawned {
            block: None,
            error: number(error).unwrap_or(0) as u64,
        },
    }
}

unsafe extern "C" fn run(
    scheduler: &Scheduler,
    worker: Option<&WorkerContext>,
    view: &View,
    limit: u64,
) -> Ran {
    match worker {
        Some(worker_context) => run_worker(scheduler, worker_context, view, limit),
        None => run_alone(scheduler, view, limit),
    }
}

// Apart, so that a client touches only the pages of the one that it needs.

#[inline(never)]
fn run_worker(
    scheduler: &Scheduler,
    worker_context: &WorkerContext,
    view: &View,
    limit: u64,
) -> Ran {
    ran(scheduler.run_worker(worker_context, view, limit))
}

#[inline(never)]
fn run_alone(scheduler: &Scheduler, view: &View, limit: u64) -> Ran {
    ran(scheduler.run_alone(view, limit))
}

#[inline]
fn ran((step, polls): (Step, u64)) -> Ran {
    let step = match step {
        Step::Ran => 0,
        Step::Idle => 1,
        Step::Elsewhere => 2,
    };
    Ran { step, polls }
}

unsafe extern "C" fn find(scheduler: &Scheduler, id: u64) -> Option<BlockRef> {
    scheduler.find(CoroutineId::from_bits(id))
}

unsafe extern "C" fn wake(block: BlockRef) {
    Scheduler::of(block).wake(block);
}

unsafe extern "C" fn reprioritize(block: BlockRef, priority: Priority) -> bool {
    Scheduler::of(block).reprioritize(block, priority)
}

unsafe extern "C" fn cancel(block: BlockRef) -> bool {
    Scheduler::of(block).cancel(block)
}

unsafe extern "C" fn refresh_level(block: BlockRef) {
    Scheduler::of(block).refresh_level(block);
}

unsafe extern "C" fn set_aside(block: BlockRef, blocked: bool) -> bool {
    let interrupted = if blocked {
        Interrupted::Blocked
    } else {
        Interrupted::Ready
    };
    Scheduler::of(block).set_aside(block, interrupted)
}

unsafe extern "C" fn take_back(block: BlockRef, paused: bool) {
    Scheduler::of(block).take_back(block, paused);
}

unsafe extern "C" fn forget_handle(block: BlockRef) -> bool {
    Scheduler::of(block).forget_handle(block)
}

unsafe extern "C" fn free_memory(block: BlockRef) {
    Scheduler::of(block).free_memory(block);
}

unsafe extern "C" fn push_inbox(block: BlockRef) {
    Scheduler::of(block).push_inbox(block);
}

unsafe extern "C" fn drain_inbox(scheduler: &Scheduler) {
    scheduler.drain_inbox();
}

unsafe extern "C" fn anchor(scheduler: &Scheduler) {
    scheduler.anchor();
}

unsafe extern "C" fn unanchor(scheduler: NonNull<Scheduler>) {
    Scheduler::unanchor(scheduler);
}

unsafe extern "C" fn lock(scheduler: &Scheduler, worker_context: &WorkerContext) {
    scheduler.lock(worker_context);
}

unsafe extern "C" fn unlock(scheduler: &Scheduler, worker_context: &WorkerContext) {
    scheduler.unlock(worker_context);
}

unsafe extern "C" fn unlock_for_good(
    scheduler: NonNull<Scheduler>,
    worker_context: &WorkerContext,
) {
    // SAFETY: the client's promise.
    unsafe { Scheduler::unlock_for_good(scheduler, worker_context) }
}

unsafe extern "C" fn pass_on(scheduler: &Scheduler, worker_context: &WorkerContext) {
    scheduler.pass_on(worker_context);
}

unsafe extern "C" fn enter(scheduler: &Scheduler, worker_context: &WorkerContext) {
    scheduler.enter(NonNull::from(worker_context));
}

unsafe extern "C" fn leave(scheduler: &Scheduler, worker_context: &WorkerContext) {
    scheduler.leave(worker_context);
}

unsafe extern "C" fn ready(scheduler: &Scheduler) -> u64 {
    scheduler.ready().bits()
}

unsafe extern "C" fn published(scheduler: &Scheduler) -> &Published {
    scheduler.published()
}

unsafe extern "C" fn trim(scheduler: &Scheduler) {
    scheduler.trim();
}

unsafe extern "C" fn now(scheduler: &Scheduler) -> u64 {
    scheduler.now()
}

unsafe extern "C" fn next_deadline(scheduler: &Scheduler) -> Deadline {
    let deadline = scheduler.next_deadline();
    Deadline {
        is_set: deadline.is_some(),
        at: deadline.unwrap_or(0),
    }
}

unsafe extern "C" fn fire_timers(scheduler: &Scheduler, now: u64) -> usize {
    scheduler.fire_timers(now)
}

unsafe extern "C" fn set_timer(scheduler: &Scheduler, timer: &Timer, deadline: u64) {
    // SAFETY: the client's timer is pinned, and it cancels the timer before it is dropped.
    unsafe { scheduler.set_timer(Pin::new_unchecked(timer), deadline) }
}

unsafe extern "C" fn cancel_timer(scheduler: &Scheduler, timer: &Timer) {
    scheduler.cancel_timer(timer);
}

unsafe extern "C" fn hand_over_timer(scheduler: &Scheduler, timer: &Timer) {
    scheduler.hand_over_timer(timer);
}
