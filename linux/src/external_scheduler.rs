//! The scheduler outside of this process, as a worker sees it.

use corank::{Relaxed, SystemView};

/// Tells a worker whether other processes need its processor, and learns when it can spare that.
pub(crate) trait ExternalScheduler: SystemView {
    /// Sleeps until the worker has a processor again; called if something more urgent waits
    /// elsewhere ([`Step::Elsewhere`](corank::Step::Elsewhere)).
    ///
    /// Returns soon enough that events of this process are not noticed late.
    fn step_aside(&self);

    /// Offers the worker's processor to other processes, because the worker is about to sleep.
    fn idle(&self);
}

/// Ignores all other processes.
impl ExternalScheduler for Relaxed {
    fn step_aside(&self) {}

    fn idle(&self) {}
}

#[cfg(feature = "domain")]
impl ExternalScheduler for corank_domain::Worker {
    fn step_aside(&self) {
        /// Limits the sleep of a worker that has stepped aside; then it checks for events.
        const LIMIT: std::time::Duration = std::time::Duration::from_millis(1);
        // Whatever ended the sleep: the worker checks for events, and reads the domain again.
        let _ = corank_domain::Worker::step_aside(self, LIMIT);
    }

    fn idle(&self) {
        corank_domain::Worker::idle(self);
    }
}
