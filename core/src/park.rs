//! A thread that sleeps while its executor is idle.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};

struct Unparker(Thread);

impl Wake for Unparker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Wakes the calling thread from [`thread::park`]. A wake that comes before the thread parks is kept.
pub(crate) fn unparker() -> Waker {
    Arc::new(Unparker(thread::current())).into()
}
