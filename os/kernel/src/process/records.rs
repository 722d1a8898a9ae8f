//! What `ps` shows of processes.
use super::{Process, State, Worker, table};
use crate::clock;
use crate::pace::checkpoint;
use alloc::sync::Arc;
use alloc::vec::Vec;
use corank_abi::information::{ENDED, ENDING, NAME_SIZE, ProcessRecord, RUNNING};
use corank_abi::page::ProcessPage;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A record of each process, in the order of their numbers; behind them those that have ended and not been waited for.
pub(crate) async fn records() -> Vec<ProcessRecord> {
    let mut processes = Vec::with_capacity(table::count());
    table::for_each(|process| processes.push(process.clone()));
    let mut ended = Vec::new();
    let mut records = Vec::with_capacity(processes.len());
    for process in &processes {
        records.push(process.record(&mut ended));
        checkpoint().await;
    }
    // Between the two looks a process may have ended.
    ended.sort_by_key(|process| process.pid);
    for process in ended {
        let known = processes.binary_search_by_key(&process.pid, |process| process.pid);
        if known.is_err() {
            records.push(process.record(&mut Vec::new()));
        }
        checkpoint().await;
    }
    records
}

impl Process {
    /// A hart has been in user mode for it for so many ticks of the clock, whatever the process claims (rule U3).
    #[inline]
    pub(crate) fn charge(&self, ticks: u64) {
        self.time.fetch_add(ticks, Ordering::Relaxed);
    }

    /// What is known of it now. Adds its children that have ended to `children`.
    fn record(&self, children: &mut Vec<Arc<Process>>) -> ProcessRecord {
        let all = |word: fn(&ProcessPage) -> &AtomicU64| {
            let words = self
                .workers()
                .map(|worker| word(worker.page()).load(Ordering::Relaxed));
            words.fold(0, |all, word| all | word)
        };
        let sum = |word: fn(&ProcessPage) -> &AtomicUsize| {
            let words = self
                .workers()
                .map(|worker| word(worker.page()).load(Ordering::Relaxed) as u64);
            words.sum()
        };
        let mut record = ProcessRecord {
            pid: self.pid as u64,
            group: self.group().number as u64,
            level: self.level().into(),
            granted: self.granted(),
            ready: all(|page| &page.ready),
            running: all(|page| &page.running),
            arriving: all(|page| &page.arriving),
            executors: sum(|page| &page.executors),
            time: clock::in_microseconds(self.time.load(Ordering::Relaxed)),
            coroutines: sum(|page| &page.coroutines),
            stacks: sum(|page| &page.stacks),
            pages: self.with_memory(|space| space.pages() as u64, 0),
            calls: (self.workers().filter_map(Worker::ring))
                .map(|ring| ring.under_way() as u64)
                .sum(),
            ..ProcessRecord::default()
        };
        for (place, byte) in record.name[..NAME_SIZE]
            .iter_mut()
            .zip(self.name.lock().bytes())
        {
            *place = byte;
        }
        let parent = {
            let state = self.state.lock();
            fill(&mut record, &state);
            children.extend(state.children.iter().cloned());
            state.parent.upgrade()
        };
        children.retain(|child| child.state.lock().ended);
        record.parent = parent.map_or(0, |parent| parent.pid as u64);
        record
    }
}

/// What the process's own lock guards.
fn fill(record: &mut ProcessRecord, state: &State) {
    record.threads = state.live as u64;
    record.files = state.files.iter().flatten().count() as u64;
    record.state = match state.ending {
        None => RUNNING,
        Some(_) if !state.ended => ENDING,
        Some(_) => ENDED,
    };
    record.exit_code = state.ending.unwrap_or(0).into();
}
