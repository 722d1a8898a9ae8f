//! The watchdog of the workers: reports a poll that does not end, and wakes a successor for the events that its worker would have looked for.
//!
//! A thread of its own, because the workers may all be inside polls. It ticks while any worker is busy, a few microseconds each, and sleeps
//! while none is. A runtime with one worker and nobody to tell has none.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use corank::{CoroutineId, Priority};

use crate::idle::{Parker, Pause};
use crate::runtime::{Shared, WorkerEntry};
use crate::{time, worker};

/// While any worker is busy, what its polls keep it from is looked for so often: an idle worker goes to watch for events within twice
/// this time, should the busy one that was to look for them be held up.
pub const WATCHDOG_TICK: Duration = Duration::from_millis(2);
/// After so many ticks in which every worker was idle, nothing ticks until one is busy again: who is idle for a moment costs no call.
const IDLE_TICKS: u32 = 25;

/// A worker that is held up inside one poll; see [`Builder::on_blocked`](crate::Builder::on_blocked).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Blocked {
    /// The name of the worker's thread.
    pub worker: String,
    /// The coroutine that it polls.
    pub coroutine: CoroutineId,
    /// That one's level.
    pub priority: Priority,
    /// The type of its future: for an `async fn` or block, the path of the function that it stands in.
    pub future: &'static str,
    /// How long the poll has lasted at least, whatever the thread did meanwhile: it may have slept, or had no processor.
    pub time: Duration,
    /// The most urgent level that is ready and that no worker serves, if that is more urgent.
    pub waiting: Option<Priority>,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} has been inside one poll of `{}` (level {}) for {:?}",
            self.worker,
            self.future,
            self.priority.level(),
            self.time
        )?;
        if let Some(waiting) = self.waiting {
            write!(f, " while level {} is ready", waiting.level())?;
        }
        f.write_str(": what blocks or computes for long there belongs into spawn_blocking")
    }
}

/// What is called for a blocked worker, and after what time.
#[derive(Clone)]
pub(crate) struct BlockedReport {
    pub(crate) after: Duration,
    pub(crate) tell: Arc<dyn Fn(&Blocked) + Send + Sync>,
}

impl fmt::Debug for BlockedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockedReport")
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}

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
    let first = blocked_report.map_or(u64::MAX, |blocked_report| {
        worker::nanoseconds(blocked_report.after)
    });
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
    let future = crate::trace::name_within(polling.future);
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
