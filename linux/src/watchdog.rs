//! The watchdog of the workers: reports a poll that does not end, and wakes a successor for the events that its worker would have looked for.
//!
//! A thread of its own, because the workers may all be inside polls. It ticks while any worker is busy, a few microseconds each, and sleeps
//! while none is. A runtime with one worker and nobody to tell has none.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::blocked::{Blocked, BlockedReport};
use crate::idle::{Parker, Pause};
use crate::shared::{Shared, WorkerEntry};
use crate::time::{self, nanoseconds};

/// While any worker is busy, what its polls keep it from is looked for so often: an idle worker goes to watch for events within twice
/// this time, should the busy one that was to look for them be held up.
pub const WATCHDOG_TICK: Duration = Duration::from_millis(2);
/// After so many ticks in which every worker was idle, nothing ticks until one is busy again: who is idle for a moment costs no call.
const IDLE_TICKS: u32 = 25;

/// What was seen of one worker at the last tick.
#[derive(Clone, Copy)]
struct Seen {
    polls: u64,
    /// When that number was seen first.
    since: u64,
    /// How long that poll must have lasted to be told of next.
    tell_after: u64,
}

/// Watches the workers until the runtime stops.
pub(crate) fn run(shared: &Shared, blocked_report: Option<&BlockedReport>) {
    let pause = shared.pause.get_or_init(Pause::here);
    let first = blocked_report.map_or(u64::MAX, |blocked_report| nanoseconds(blocked_report.after));
    // Each worker's, by its index in the list, which only grows.
    let mut seen: Vec<Seen> = Vec::new();
    let mut entries: Vec<WorkerEntry> = Vec::new();
    let mut idle = 0;
    while !shared.stopping.load(Ordering::Acquire) {
        if idle < IDLE_TICKS {
            thread::park_timeout(WATCHDOG_TICK);
        } else {
            idle = 0;
            pause.sleep(|| {
                !shared.stopping.load(Ordering::Acquire) && all_parked(&shared.entries())
            });
        }
        let now = time::clock();
        entries.clone_from(&shared.entries());
        idle = if all_parked(&entries) { idle + 1 } else { 0 };
        for (number, entry) in entries.iter().enumerate() {
            let polls = entry.parker.polls();
            let begin = Seen {
                polls,
                since: now,
                tell_after: first,
            };
            match seen.get_mut(number) {
                None => seen.push(begin),
                Some(seen) if seen.polls != polls || entry.parker.is_parked() => *seen = begin,
                Some(seen) => {
                    shared
                        .watch
                        .end_short_polling(&entry.parker, || shared.wake_successor());
                    let lasted = now - seen.since;
                    if lasted >= seen.tell_after
                        && let Some(blocked_report) = blocked_report
                        && let Some(blocked) = name(shared, entry, polls, lasted)
                    {
                        // Once more when it has lasted twice as long.
                        seen.tell_after = lasted.saturating_mul(2);
                        // Whose code it is, is not known: the hook for panics has told of one.
                        let _ = catch_unwind(AssertUnwindSafe(|| (blocked_report.tell)(&blocked)));
                    }
                }
            }
        }
    }
}

fn all_parked(entries: &[WorkerEntry]) -> bool {
    entries.iter().all(|entry| entry.parker.is_parked())
}

/// What holds the worker up; `None` if its poll has ended.
fn name(shared: &Shared, entry: &WorkerEntry, polls: u64, lasted: u64) -> Option<Blocked> {
    let parker: &Parker = &entry.parker;
    let polling = shared.executor.polling(entry.worker)?;
    let published = shared.executor.published();
    let waiting = published.ready().union(published.arriving()).most_urgent();
    #[cfg(not(feature = "tracing"))]
    let future = polling.future;
    #[cfg(feature = "tracing")]
    let future = crate::span::name_within(polling.future);
    // Asked after the coroutine: a poll that has begun since would have been counted.
    (parker.polls() == polls).then(|| Blocked {
        worker: parker.name().to_string(),
        coroutine: polling.id,
        priority: polling.priority,
        future,
        time: Duration::from_nanos(lasted),
        waiting: waiting.filter(|waiting| waiting.is_more_urgent_than(polling.priority)),
    })
}
