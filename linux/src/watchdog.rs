//! The watchdog of the workers: it reports a poll that does not end, wakes a successor that checks
//! for events in the blocked worker's place, and sees to it that a spare worker is on duty.
//!
//! It has a thread of its own, because all workers may be inside polls. It ticks while a worker is
//! busy, which takes a few microseconds each time, and sleeps while none is. A runtime with one
//! worker and no hook for blocked workers has no watchdog, unless it hosts tokio.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::blocked::{Blocked, BlockedReport};
use crate::idle::{Parker, Pause};
use crate::shared::{Shared, WorkerEntry, WorkerRole};
use crate::time::{self, nanoseconds};

/// Sets how often the watchdog runs while a worker is busy.
///
/// If a poll keeps the worker that was to check for events, an idle worker begins to watch within
/// twice this time.
pub const WATCHDOG_TICK: Duration = Duration::from_millis(2);
/// Counts the ticks without a busy worker after which the watchdog sleeps: so a worker that is idle
/// for a moment costs no system call.
const IDLE_TICKS: u32 = 25;

/// Starts the thread of the spare worker with this number.
pub(crate) type StartSpare<'a> = dyn Fn(usize) -> io::Result<JoinHandle<()>> + 'a;

/// Remembers one worker's state at the last tick.
#[derive(Clone, Copy)]
struct Seen {
    polls: u64,
    /// When `polls` had this value first, in nanoseconds of the clock.
    since: u64,
    /// How long the poll must have lasted for the next report, in nanoseconds.
    report_after: u64,
}

/// Runs the watchdog until the runtime stops.
///
/// `start_spare` starts the thread of one more spare worker. `report` is called at the end of each
/// tick, with the time of the clock.
pub(crate) fn run(
    shared: &Shared,
    blocked_report: Option<&BlockedReport>,
    start_spare: Option<&StartSpare<'_>>,
    report: impl Fn(u64),
) {
    let pause = shared.pause.get_or_init(Pause::current);
    let first = blocked_report.map_or(u64::MAX, |blocked_report| nanoseconds(blocked_report.after));
    // One for each worker, by its index in the list, which only grows.
    let mut seen: Vec<Seen> = Vec::new();
    let mut entries: Vec<WorkerEntry> = Vec::new();
    let mut idle = 0;
    while !shared.stopping.load(Ordering::Acquire) {
        if idle < IDLE_TICKS {
            thread::park_timeout(WATCHDOG_TICK);
        } else {
            idle = 0;
            pause.sleep(|| {
                !shared.stopping.load(Ordering::Acquire) && all_inactive(&shared.entries())
            });
        }
        let now = time::clock();
        entries.clone_from(&shared.entries());
        idle = if all_inactive(&entries) { idle + 1 } else { 0 };
        let (mut worker_lasts, mut spare_lasts) = (false, false);
        #[cfg(feature = "tokio")]
        if let Some(tokio) = shared.tokio.get() {
            (tokio.rescue)();
        }
        for (number, entry) in entries.iter().enumerate() {
            let polls = entry.parker.polls();
            let begin = Seen {
                polls,
                since: now,
                report_after: first,
            };
            match seen.get_mut(number) {
                None => seen.push(begin),
                Some(seen) if seen.polls != polls || entry.is_inactive() => {
                    *seen = begin;
                    entry.parker.note_held(polls, 0);
                }
                Some(seen) => {
                    entry.parker.note_held(polls, seen.since);
                    match entry.role {
                        WorkerRole::Worker => worker_lasts = true,
                        WorkerRole::Spare => spare_lasts = true,
                        WorkerRole::Bulk => {}
                    }
                    if entry.role == WorkerRole::Worker {
                        shared.executor.note_long_poll(entry.number);
                    }
                    shared
                        .watch
                        .end_short_polling(&entry.parker, || shared.wake_successor());
                    let lasted = now - seen.since;
                    if lasted >= seen.report_after
                        && let Some(blocked_report) = blocked_report
                        && let Some(blocked) = describe(shared, entry, polls, lasted)
                    {
                        // Reports again when the poll has lasted twice as long.
                        seen.report_after = lasted.saturating_mul(2);
                        // The hook is foreign code. If it panics, the panic hook has reported that
                        // already.
                        let _ =
                            catch_unwind(AssertUnwindSafe(|| (blocked_report.report)(&blocked)));
                    }
                }
            }
        }
        if let Some(start_spare) = start_spare
            && shared.spares.needs_thread(worker_lasts, spare_lasts)
            && !start(shared, start_spare)
        {
            // The next tick tries again.
            shared.spares.thread_failed();
        }
        report(now);
    }
}

/// Starts one more spare worker, unless the runtime stops; returns false if that fails.
fn start(shared: &Shared, start_spare: &StartSpare<'_>) -> bool {
    let mut threads = (shared.spare_threads.lock()).unwrap_or_else(PoisonError::into_inner);
    let Some(threads) = &mut *threads else {
        return false;
    };
    match start_spare(threads.len()) {
        Ok(thread) => threads.push(thread),
        Err(_) => return false,
    }
    true
}

fn all_inactive(entries: &[WorkerEntry]) -> bool {
    entries.iter().all(WorkerEntry::is_inactive)
}

/// Describes the poll that keeps the worker; returns `None` if that has ended.
fn describe(shared: &Shared, entry: &WorkerEntry, polls: u64, lasted: u64) -> Option<Blocked> {
    let parker: &Parker = &entry.parker;
    let polling = shared.executor.polling(entry.worker, entry.elsewhere)?;
    let waiting = shared.executor.waiting().most_urgent();
    #[cfg(not(feature = "tracing"))]
    let future = polling.future;
    #[cfg(feature = "tracing")]
    let future = crate::span::name_within(polling.future);
    let future = shared.root_name(polling.id).unwrap_or(future);
    // Read after the coroutine: a poll that has begun since would have been counted.
    (parker.polls() == polls).then(|| Blocked {
        worker: parker.name().to_string(),
        coroutine: polling.id,
        priority: polling.priority,
        future,
        time: Duration::from_nanos(lasted),
        waiting: waiting.filter(|waiting| waiting.is_more_urgent_than(polling.priority)),
    })
}
