//! The loop of a worker for work that is not urgent, on a thread of a class of its own.
//!
//! It takes only the levels of [`Builder::bulk`](crate::Builder::bulk), and checks for no events:
//! Linux may leave its thread aside for long. The workers for urgent work do that for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use corank::{Levels, Priority, Step};

use crate::class::Class;
use crate::external_scheduler::ExternalScheduler;
use crate::idle::Parker;
use crate::shared::{Shared, WorkerEntry, WorkerRole};
use crate::time;
use crate::worker::{Batch, CountingView, WorkerWaker};

/// Makes this thread a worker for the levels `from` and less urgent, until the runtime stops.
pub(crate) fn serve(
    shared: &Arc<Shared>,
    view: &impl ExternalScheduler,
    (from, class): (Priority, Class),
    number: usize,
) {
    class.enter();
    let parker = &Arc::new(Parker::current());
    let waker = Arc::new(WorkerWaker::new(shared, parker));
    let worker = shared.executor.exact().worker(Waker::from(waker));
    worker.set_levels(Levels::from_level(from));
    let entry = WorkerEntry {
        parker: parker.clone(),
        worker: worker.id(),
        elsewhere: None,
        number,
        role: WorkerRole::Bulk,
        sleeper: None,
    };
    shared.add_entry(entry, Levels::from_level(from));
    let counting = CountingView { view, parker };
    let mut batch = Batch::new();
    while !shared.stopping.load(Ordering::Acquire) {
        let start = time::clock();
        parker.begin_batch(start);
        let (step, polls) = worker.run_some(&counting, batch.limit());
        shared.note_progress();
        let now = time::clock();
        parker.count_batch(now);
        match step {
            Step::Ran => batch.adapt(polls, now - start),
            Step::Elsewhere => shared.aside(|| view.step_aside()),
            Step::Idle => {
                view.idle();
                if let Some(deadline) = shared.executor.next_deadline() {
                    // The worker that watches serves this one's timers.
                    shared.reactor.limit_watch(deadline);
                }
                shared.idle(|| parker.park_alone());
                if let Some(pause) = shared.pause.get() {
                    pause.note_awake();
                }
            }
        }
    }
}
