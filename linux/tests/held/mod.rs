//! Polls that keep workers inside until a test ends them.

use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use corank_linux::{JoinHandle, Priority, Runtime};

/// Bounds the polls of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

/// Occupies workers with polls of level 40.
pub(crate) struct Held {
    /// Ends a poll each.
    pub(crate) ends: Vec<mpsc::Sender<()>>,
    handles: Vec<JoinHandle<()>>,
}

impl Held {
    /// Occupies so many workers, and returns once all are inside.
    pub(crate) fn new(runtime: &Runtime, workers: usize) -> Self {
        let level = Priority::new(40).unwrap();
        let inside = Arc::new(Barrier::new(workers + 1));
        let (mut ends, mut handles) = (Vec::new(), Vec::new());
        for _ in 0..workers {
            let (end, ended) = mpsc::channel();
            let inside = inside.clone();
            let holds = async move {
                inside.wait();
                ended.recv_timeout(LONG).expect("the test ends it");
            };
            handles.push(runtime.handle().spawn(level, holds).unwrap());
            ends.push(end);
        }
        inside.wait();
        Self { ends, handles }
    }

    /// Ends the polls, and waits for their coroutines.
    pub(crate) fn end(self, runtime: &Runtime) {
        for end in &self.ends {
            end.send(()).expect("a poll has waited for this");
        }
        // This donates nothing to them.
        runtime.block_on_at(Priority::LEAST_URGENT, async {
            for handle in self.handles {
                handle.await.unwrap();
            }
        });
    }
}
