//! All processes that have not ended, by number.
use super::Process;
use crate::lock::Mutex;
use crate::pace;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

struct Table {
    processes: BTreeMap<usize, Arc<Process>>,
    last_pid: usize,
    /// Identifiers of address spaces that came back, and the first that was never used. 0 is the
    /// kernel's.
    returned_spaces: Vec<u16>,
    fresh_space: u16,
}

static TABLE: Mutex<Table> = Mutex::new(Table {
    processes: BTreeMap::new(),
    last_pid: 0,
    returned_spaces: Vec::new(),
    fresh_space: 1,
});

/// Returns the process with this number, unless it has ended.
pub(crate) fn find(pid: usize) -> Option<Arc<Process>> {
    TABLE.lock().processes.get(&pid).cloned()
}

/// Returns how many processes have not ended.
pub(crate) fn count() -> usize {
    TABLE.lock().processes.len()
}

/// Calls `visit` with so many processes with numbers from `first` on.
///
/// Returns the number of the next one, if there is one.
pub(super) fn visit_from(
    first: usize,
    count: usize,
    mut visit: impl FnMut(&Process),
) -> Option<usize> {
    let table = TABLE.lock();
    let mut processes = table.processes.range(first..);
    processes
        .by_ref()
        .take(count)
        .for_each(|(_, process)| visit(process));
    processes.next().map(|(number, _)| *number)
}

/// The number of processes that one piece of work visits.
const VISITED_AT_ONCE: usize = 4 * pace::OBJECTS;

/// Some processes that have not ended.
pub(super) type Few = heapless::Vec<Arc<Process>, { pace::OBJECTS }>;

/// Visits processes with numbers from `first` on, in the order of their numbers, and adds to
/// `found`, which is empty, those that `is_wanted` names.
///
/// Visits [`VISITED_AT_ONCE`], or fewer if there is no room for more. Returns the number at which
/// the next visit begins, or `None` behind the last process.
///
/// A process that is added between two visits has a larger number than its parent, so it is visited
/// if its parent is.
pub(super) fn some_from(
    first: usize,
    mut is_wanted: impl FnMut(&Arc<Process>) -> bool,
    found: &mut Few,
) -> Option<usize> {
    let table = TABLE.lock();
    for (visited, (number, process)) in table.processes.range(first..).enumerate() {
        if visited == VISITED_AT_ONCE || found.is_full() {
            return Some(*number);
        }
        if is_wanted(process) {
            let _ = found.push(process.clone());
        }
    }
    None
}

/// Adds a process, unless `refused` returns true.
///
/// Returns whether it was added. Nothing [visits](some_from) processes in between.
pub(super) fn insert_unless(process: &Arc<Process>, refused: impl FnOnce() -> bool) -> bool {
    let mut table = TABLE.lock();
    if refused() {
        return false;
    }
    table.processes.insert(process.pid, process.clone());
    true
}

/// Takes a process out of the table, and calls `and` in the same step.
pub(super) fn remove<T>(process: &Process, and: impl FnOnce() -> T) -> T {
    let (process, done) = {
        let mut table = TABLE.lock();
        (table.processes.remove(&process.pid), and())
    };
    // The last reference may go here: not under the lock.
    drop(process);
    done
}

/// Returns a number that no process had before.
pub(super) fn new_pid() -> usize {
    let mut table = TABLE.lock();
    table.last_pid += 1;
    table.last_pid
}

/// An identifier that tells an address space from others in the harts' translation buffers.
///
/// No other address space has it while this exists.
#[derive(Debug)]
pub(super) struct SpaceId(u16);

impl SpaceId {
    /// Takes an unused identifier.
    ///
    /// `None` when all are in use, or there is no memory to remember one that comes back.
    pub(super) fn new() -> Option<SpaceId> {
        let mut table = TABLE.lock();
        if let Some(number) = table.returned_spaces.pop() {
            return Some(SpaceId(number));
        }
        let fresh = table.fresh_space;
        let next = fresh.checked_add(1)?;
        // There is room for each that was ever given out, so that `drop` needs no memory.
        table.returned_spaces.try_reserve(fresh.into()).ok()?;
        table.fresh_space = next;
        Some(SpaceId(fresh))
    }

    /// Returns the number that the hardware knows it by.
    pub(super) fn number(&self) -> u16 {
        self.0
    }
}

impl Drop for SpaceId {
    fn drop(&mut self) {
        TABLE.lock().returned_spaces.push(self.0);
    }
}
