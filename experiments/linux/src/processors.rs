//! The processors of the measurement, and the time that other programs took of them.
//!
//! With a processor of its own the client does not delay the servers, nor the servers the client.

use std::fs;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Processors of the measurement: the client has one of its own; the servers have the others.
#[derive(Clone, Copy)]
pub(crate) struct Processors {
    all: CpuSet,
    client: CpuSet,
    servers: CpuSet,
}

impl Processors {
    /// Splits the processors that this process may use.
    ///
    /// On a machine with only one, client and servers share it.
    pub(crate) fn split() -> Self {
        let all = sched_getaffinity(None).expect("this thread's processors are known");
        let (mut client, mut servers) = (CpuSet::new(), all);
        let last = (0..CpuSet::MAX_CPU).rfind(|&cpu| all.is_set(cpu));
        if let Some(last) = last.filter(|_| all.count() > 1) {
            client.set(last);
            servers.unset(last);
        } else {
            client = all;
        }
        Self {
            all,
            client,
            servers,
        }
    }

    /// Moves this thread to the client's processor.
    pub(crate) fn be_client(&self) {
        become_one_of(&self.client);
    }

    /// Moves this thread, and those that it starts, to the servers' processors.
    pub(crate) fn be_server(&self) {
        become_one_of(&self.servers);
    }

    /// Lets this thread, and those that it starts, run on every processor.
    pub(crate) fn be_anywhere(&self) {
        become_one_of(&self.all);
    }
}

fn become_one_of(processors: &CpuSet) {
    sched_setaffinity(None, processors).expect("a part of the processors that there were");
}

/// Returns for how long the threads of this process, client and server, have been ready without a
/// processor since each began.
///
/// This is what a trial [loses](corank_report::trials::Trial::lost). It is zero if Linux does not
/// count it.
pub(crate) fn lost() -> Duration {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten();
    let lost = threads.filter_map(|thread| {
        // A thread may have ended meanwhile.
        let figures = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        figures.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    Duration::from_nanos(lost.sum())
}
