//! What a worker knows of the rest of the machine.

use corank::{Relaxed, SystemView};

/// Who else needs the worker's processor, and where it says what it does with it.
pub(crate) trait ExternalScheduler: SystemView {
    /// Something more urgent waits elsewhere ([`Step::Elsewhere`](corank::Step::Elsewhere)): sleeps until it has a processor, but not so long that events of this process
    /// are noticed late.
    fn step_aside(&self);

    /// The worker is about to sleep: others may have its processor.
    fn idle(&self);
}

/// Nobody else counts.
impl ExternalScheduler for Relaxed {
    fn step_aside(&self) {}

    fn idle(&self) {}
}

#[cfg(feature = "domain")]
impl ExternalScheduler for corank_domain::Worker {
    fn step_aside(&self) {
        /// While a worker is aside, it looks for events so often.
        const LIMIT: std::time::Duration = std::time::Duration::from_millis(1);
        // Whatever ended it: the worker looks for events, and asks again.
        let _ = corank_domain::Worker::step_aside(self, LIMIT);
    }

    fn idle(&self) {
        corank_domain::Worker::idle(self);
    }
}
