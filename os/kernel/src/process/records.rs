//! What `ps` shows of processes.
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

/// A record of each process, in the order of their numbers; behind them those that have ended and not been waited for.
///
/// # Errors
/// When there is no memory for the list, which `account` pays for while it is made.
pub(crate) async fn records(account: &Arc<Account>) -> Result<List<ProcessRecord>, OutOfMemory> {
    let mut processes = List::new();
    processes.reserve(account, table::count() + 16)?;
    let room = processes.capacity();
    table::for_each(|process| {
        if processes.len() < room {
            let _ = processes.push(account, process.clone());
        }
    });
    let mut ended = List::new();
    let mut records = List::new();
    for process in processes.iter() {
        let record = process.record(|child| ended.push(account, child.clone()));
        records.push(account, record?).map_err(|_| OutOfMemory)?;
        checkpoint().await;
    }
    // Between the two looks a process may have ended.
    ended.sort_by_key(|process: &Arc<Process>| process.pid);
    for process in ended.iter() {
        let known = processes.binary_search_by_key(&process.pid, |process| process.pid);
        if known.is_err() {
            let record = process.record(|_| Ok(()))?;
            records.push(account, record).map_err(|_| OutOfMemory)?;
        }
        checkpoint().await;
    }
    Ok(records)
}

impl Process {
    /// A hart has been in user mode for it for so many ticks of the clock, whatever the process claims (rule U3).
    #[inline]
    pub(crate) fn charge(&self, ticks: u64) {
        self.time.fetch_add(ticks, Ordering::Relaxed);
    }

    /// What is known of it now. Calls `add` with its children that have ended.
    fn record(
        &self,
        mut add: impl FnMut(&Arc<Process>) -> Result<(), Arc<Process>>,
    ) -> Result<ProcessRecord, OutOfMemory> {
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
            let has_ended = |child: &&Arc<Process>| child.state.lock().ended;
            for child in state.children.values().filter(has_ended) {
                if let Err(child) = add(child) {
                    drop(state);
                    drop(child);
                    return Err(OutOfMemory);
                }
            }
            state.parent.upgrade()
        };
        record.parent = parent.map_or(0, |parent| parent.pid as u64);
        Ok(record)
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
