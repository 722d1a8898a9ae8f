//! What `ps` shows of processes.
use super::table::Few;
use super::{Process, State, Worker, table};
use crate::clock;
use crate::memory::OutOfMemory;
use crate::memory::account::Account;
use crate::memory::list::List;
use crate::pace::checkpoint;
use alloc::sync::Arc;
use corank_abi::information::{ENDED, ENDING, NAME_SIZE, ProcessRecord, RUNNING};
use corank_abi::page::ProcessPage;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Returns a record of each process, in the order of their numbers.
///
/// Behind them come those that have ended and not been waited for.
///
/// # Errors
/// When there is no memory for the list, which `account` pays for while it is made.
pub(crate) async fn records(account: &Arc<Account>) -> Result<List<ProcessRecord>, OutOfMemory> {
    let mut processes = List::new();
    processes.reserve(account, table::count() + 16)?;
    let mut next = Some(0);
    while let Some(first) = next {
        let mut some = Few::new();
        next = table::some_from(first, |_| true, &mut some);
        for process in some {
            processes.push(account, process).map_err(|_| OutOfMemory)?;
        }
        checkpoint().await;
    }
    let mut records = List::new();
    for process in processes.iter() {
        let record = process.record();
        records.push(account, record).map_err(|_| OutOfMemory)?;
        checkpoint().await;
    }
    // The first process comes last: children are left to it. One that is left between two checks is
    // found twice rather than not at all.
    for parent in processes.iter().rev() {
        let of_others = processes.len()..records.len();
        let mut next = Some(0);
        while let Some(first) = next {
            let mut some = Few::new();
            next = parent.ended_children_from(first, &mut some);
            for process in some {
                // Between the two checks it may have ended.
                let known = processes.binary_search_by_key(&process.pid, |process| process.pid);
                let is_new = |record: &ProcessRecord| record.pid != process.pid as u64;
                if known.is_err() && records[of_others.clone()].iter().all(is_new) {
                    let record = process.record();
                    records.push(account, record).map_err(|_| OutOfMemory)?;
                }
            }
            checkpoint().await;
        }
    }
    Ok(records)
}

impl Process {
    /// Counts so many ticks of the clock, for which a hart has been in user mode for the process.
    ///
    /// They count whatever the process claims (rule U3).
    #[inline]
    pub(crate) fn charge(&self, ticks: u64) {
        self.time.fetch_add(ticks, Ordering::Relaxed);
    }

    /// Adds some of its children that have ended and were not waited for to `found`, which is
    /// empty.
    ///
    /// Those are children with numbers from `first` on. Returns the number at which the next search
    /// begins, or `None` behind the last child.
    fn ended_children_from(&self, first: usize, found: &mut Few) -> Option<usize> {
        let state = self.state.lock();
        for (number, child) in state.ended_children.range(first..) {
            if found.push(child.clone()).is_err() {
                return Some(*number);
            }
        }
        None
    }

    /// Returns what is known of it now.
    fn record(&self) -> ProcessRecord {
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
            state.parent.upgrade()
        };
        record.parent = parent.map_or(0, |parent| parent.pid as u64);
        record
    }
}

/// Fills in what the process's own lock guards.
fn fill(record: &mut ProcessRecord, state: &State) {
    record.threads = state.live as u64;
    let taken = state.taken_files.iter().map(|word| word.count_ones());
    record.files = taken.sum::<u32>().into();
    record.state = match state.ending {
        None => RUNNING,
        Some(_) if !state.ended => ENDING,
        Some(_) => ENDED,
    };
    record.exit_code = state.ending.unwrap_or(0).into();
}
