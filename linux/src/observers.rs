//! Two observers of one executor.

use corank::{CoroutineId, Exit, Observer, Priority};

/// Calls one observer after the other.
pub(crate) struct Both(
    pub(crate) &'static dyn Observer,
    pub(crate) &'static dyn Observer,
);

// SAFETY: it calls two observers, which keep the promise themselves.
unsafe impl Observer for Both {
    fn spawned(&self, id: CoroutineId, priority: Priority) {
        self.0.spawned(id, priority);
        self.1.spawned(id, priority);
    }

    fn wake_applied(&self, id: CoroutineId) {
        self.0.wake_applied(id);
        self.1.wake_applied(id);
    }

    fn woken(&self, id: CoroutineId, priority: Priority) {
        self.0.woken(id, priority);
        self.1.woken(id, priority);
    }

    fn poll_started(&self, id: CoroutineId, priority: Priority) {
        self.0.poll_started(id, priority);
        self.1.poll_started(id, priority);
    }

    fn poll_ended(&self, id: CoroutineId) {
        self.0.poll_ended(id);
        self.1.poll_ended(id);
    }

    fn blocked(&self, id: CoroutineId) {
        self.0.blocked(id);
        self.1.blocked(id);
    }

    fn preempted(&self, id: CoroutineId) {
        self.0.preempted(id);
        self.1.preempted(id);
    }

    fn resumed(&self, id: CoroutineId, priority: Priority) {
        self.0.resumed(id, priority);
        self.1.resumed(id, priority);
    }

    fn reprioritized(&self, id: CoroutineId, from: Priority, to: Priority) {
        self.0.reprioritized(id, from, to);
        self.1.reprioritized(id, from, to);
    }

    fn base_changed(&self, id: CoroutineId, base: Priority) {
        self.0.base_changed(id, base);
        self.1.base_changed(id, base);
    }

    fn donation_began(&self, lender: CoroutineId, borrower: CoroutineId) {
        self.0.donation_began(lender, borrower);
        self.1.donation_began(lender, borrower);
    }

    fn donation_ended(&self, lender: CoroutineId, borrower: CoroutineId) {
        self.0.donation_ended(lender, borrower);
        self.1.donation_ended(lender, borrower);
    }

    fn exited(&self, id: CoroutineId, exit: Exit) {
        self.0.exited(id, exit);
        self.1.exited(id, exit);
    }
}
