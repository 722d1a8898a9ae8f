//! Processes: memory, files, threads and the other things that programs share among their threads.
//!
//! ```text
//! start ──> runs ──end(code)──> ending ──last coroutine gone──> ended ──waited for──> forgotten
//! ```
//! `end` cancels the coroutines of the process's threads and calls. When the last thread's
//! coroutine is gone, on whichever hart, memory and files go back and the parent gets the exit
//! code.
mod follow;
mod interrupted;
mod level;
mod life;
mod loan;
mod memory;
mod records;
mod rights;
mod table;
mod timers;
mod upcalls;
mod worker;

pub(crate) use follow::follow_levels;
pub(crate) use level::Global;
pub(crate) use life::{MAIN, start_first};
pub(crate) use records::records;
pub(crate) use table::{count, find};
pub(crate) use upcalls::{DEFERRED, QUIET, RAISED, Taker, Upcalls};
pub(crate) use worker::Worker;

use crate::executor::executor;
use crate::fault::OwnFaults;
use crate::file::{File, Source};
use crate::group::Group;
use crate::lock::Mutex;
use crate::memory::OutOfMemory;
use crate::memory::account::{self, Account, Charge};
use crate::memory::address_space::AddressSpace;
use crate::memory::segments::Segments;
use crate::memory::slots::Slots;
use crate::memory::user::UserMemory;
use crate::net::Socket;
use crate::pace::checkpoint;
use crate::semaphore::Semaphore;
use crate::wait::{WaitMode, WaitQueue};
use crate::{clock, hart};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use corank::CoroutineId;
use corank_abi::exit_code;
use corank_abi::page::WORKERS;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use follow::Moving;
use loan::Loan;
use spin::Once;
use table::SpaceId;

/// The number of files that a process may have open.
const MAX_FILES: usize = 1 << 16;
/// The time that processes have to end when the system ends, in milliseconds.
const END_LIMIT: u64 = 1000;
/// The number of semaphores of each kind that a process may have.
const MAX_SEMAPHORES: usize = 1 << 16;

/// A process.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its number.
    pub pid: usize,
    /// The identifier that tells its address space from others in the harts' translation buffers.
    space_id: SpaceId,
    name: Mutex<String>,
    /// Where paths begin that don't begin with `/`: an absolute path.
    pub directory: Mutex<String>,
    /// Its memory, and its account.
    pub memory: UserMemory,
    /// Worker 0.
    first: Worker,
    /// The other workers, from the first time that a thread became one.
    others: [Once<Box<Worker>>; WORKERS - 1],
    /// The levels that the process may claim.
    granted: AtomicU64,
    /// Set if its harts are interrupted for what is more urgent; see [`Global`].
    is_strict: AtomicBool,
    waits_by_yielding: AtomicBool,
    /// Set if kernel threads serve its calls, not coroutines alone.
    pub by_thread: AtomicBool,
    /// The time for which harts have been in user mode for it, in ticks of the clock.
    time: AtomicU64,
    /// System calls that its threads have made.
    pub calls_made: AtomicUsize,
    /// What a test has asked for.
    pub faults: OwnFaults,
    /// The thread that has the level of another one; see [`loan`].
    loan: Loan,
    /// Set when [`State::ending`] is set.
    is_ending: AtomicBool,
    state: Mutex<State>,
    /// The group that it belongs to: what the console ends together.
    group: Mutex<Group>,
    /// See [`corank_abi::rights`].
    rights: AtomicUsize,
    /// Woken when a child has ended.
    pub children: WaitQueue,
    /// Woken when a thread has ended.
    pub threads: WaitQueue,
    /// Woken when the end of the heap has been moved.
    heap_moved: WaitQueue,
    _charge: Charge,
}

/// What a process's own lock guards.
#[derive(Debug)]
pub(crate) struct State {
    parent: Weak<Process>,
    /// The children that have not ended, by number.
    ///
    /// What an entry costs is part of what the child's process is charged.
    children: BTreeMap<usize, Arc<Process>>,
    /// The children that have ended and were not waited for.
    ended_children: BTreeMap<usize, Arc<Process>>,
    /// The threads that run, and those that have ended and were not waited for.
    threads: Slots<Slot>,
    /// Which threads are workers: numbers of threads, by those of workers.
    workers: [Option<usize>; WORKERS],
    /// The number of threads that have a coroutine.
    live: usize,
    /// Where the threads are not at their worker's level yet, if not all are.
    moving: Option<Moving>,
    files: Segments<Option<File>>,
    /// Every file descriptor below this is taken.
    first_free_file: usize,
    /// Which descriptors are taken, a bit each: a small block, beside what the files cost.
    taken_files: Vec<u64>,
    semaphores: Numbered,
    mutexes: Numbered,
    conditions: Numbered,
    /// The exit code, from `end` on.
    ending: Option<i32>,
    /// Set when memory and files have gone back.
    ended: bool,
}

/// A place in a process's table of threads.
#[derive(Debug)]
enum Slot {
    /// Its coroutine is about to be made.
    Starting,
    Live(CoroutineId),
    Exited(i32),
}

/// Semaphores of one kind, by number.
#[derive(Debug, Default)]
struct Numbered {
    /// The number of the first.
    ///
    /// Those below it are of an ancestor. In its copied memory they may still stand for something
    /// that is locked, so no semaphore of this process has one of them.
    first: usize,
    semaphores: Segments<Arc<Semaphore>>,
}

/// One of a process's tables of semaphores.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Counting semaphores.
    Semaphore,
    /// Mutexes: one permit.
    Mutex,
    /// Condition variables: permits come only to waiters.
    Condition,
}

/// What waiting for a child or a thread found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// There is nothing to wait for.
    None,
    /// It still runs.
    Running,
    /// It has ended and is forgotten now: its number and exit code.
    Ended(usize, i32),
}

/// A search for a process that has not ended and is in a group.
#[derive(Debug)]
pub(crate) struct MemberSearch {
    group: Group,
    next: Option<usize>,
}

impl MemberSearch {
    /// Begins a search for a member of this group.
    pub(crate) fn new(group: Group) -> MemberSearch {
        MemberSearch {
            group,
            next: Some(0),
        }
    }

    /// Visits some processes.
    ///
    /// Returns whether there is a member, once that is known.
    pub(crate) fn step(&mut self) -> Option<bool> {
        let Some(first) = self.next else {
            return Some(false);
        };
        let mut found = table::Few::new();
        let is_member = |process: &Arc<Process>| process.group() == self.group;
        self.next = table::some_from(first, is_member, &mut found);
        match (found.is_empty(), self.next) {
            (false, _) => Some(true),
            (true, None) => Some(false),
            (true, Some(_)) => None,
        }
    }
}

/// The end of all processes of some groups, in bounded pieces.
///
/// Processes are visited in the order of their numbers, and children have larger ones than their
/// parents. So a child is visited, or its parent was ending by then and forks no more. None is left
/// out, however long the caller yields between two pieces.
#[derive(Debug)]
pub(crate) struct GroupEnd {
    code: i32,
    next: Option<usize>,
    /// The number of a process that is left out.
    spared: Option<usize>,
    /// Set if a process was meant.
    pub(crate) found: bool,
}

impl GroupEnd {
    /// Begins the end of groups, whose processes end with this exit code.
    pub(crate) fn new(code: i32) -> GroupEnd {
        GroupEnd {
            code,
            next: Some(0),
            spared: None,
            found: false,
        }
    }

    /// Ends some of the processes whose groups are meant.
    ///
    /// Returns false once all of them have been visited.
    pub(crate) fn step(&mut self, are_meant: impl Fn(Group) -> bool) -> bool {
        let Some(first) = self.next else {
            return false;
        };
        let mut some = table::Few::new();
        // Under the table's lock the processes are only marked as ending. What follows comes back
        // to the table.
        let ends = |process: &Arc<Process>| {
            if !are_meant(process.group()) {
                return false;
            }
            self.found = true;
            self.spared != Some(process.pid) && process.begin_end(self.code)
        };
        self.next = table::some_from(first, ends, &mut some);
        for process in &some {
            process.announce_end();
        }
        self.next.is_some()
    }
}

/// Ends all processes of the groups that are meant.
///
/// Returns false if there is none. The caller comes last, if it is one of them, because it may go
/// as soon as it ends.
pub(crate) async fn end_groups(
    caller: &Process,
    are_meant: impl Fn(Group) -> bool,
    code: i32,
) -> bool {
    let mut end = GroupEnd::new(code);
    end.spared = Some(caller.pid);
    while end.step(&are_meant) {
        checkpoint().await;
    }
    if are_meant(caller.group()) {
        caller.end(code);
    }
    end.found
}

/// Ends all processes, for the end of the system.
///
/// Returns when they are gone, or after [`END_LIMIT`].
pub(crate) async fn end_all() {
    let mut end = GroupEnd::new(exit_code::KILLED);
    while end.step(|_| true) {
        checkpoint().await;
    }
    let until = clock::milliseconds() + END_LIMIT;
    while count() > 0 && clock::milliseconds() < until {
        clock::sleep_until(clock::after(1)).await;
    }
}

impl Process {
    /// Reserves so many bytes of the kernel's heap for something that the process asks for.
    ///
    /// # Errors
    /// When there is no memory for it, or the process has reached a limit.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Charge, OutOfMemory> {
        self.memory.reserve(bytes)
    }

    /// Calls `use_it` with the process's memory, or returns `gone` if the process has ended.
    pub(crate) fn with_memory<T>(&self, use_it: impl FnOnce(&mut AddressSpace) -> T, gone: T) -> T {
        self.memory.with_space(use_it, gone)
    }

    /// Wakes the thread's coroutine, whatever it waits for.
    pub(crate) fn wake_thread(&self, tid: usize) {
        if let Some(Slot::Live(coroutine)) = self.state.lock().threads.get(tid) {
            executor().wake(*coroutine);
        }
    }

    /// Ends user mode on all other harts that run the process now.
    ///
    /// Harts that are about to enter it check once more what there is to do. They do so under the
    /// memory's lock, as this does.
    pub(crate) fn interrupt_harts(&self) {
        self.with_memory(|space| hart::interrupt_elsewhere(space.satp()), ());
    }

    /// Returns how its threads wait.
    pub(crate) fn wait_mode(&self) -> WaitMode {
        if self.waits_by_yielding.load(Ordering::Relaxed) {
            WaitMode::Yield
        } else {
            WaitMode::Block
        }
    }

    /// Sets how its threads wait from now on.
    ///
    /// Returns how they waited before.
    pub(crate) fn set_wait_mode(&self, mode: WaitMode) -> WaitMode {
        let before = self
            .waits_by_yielding
            .swap(mode == WaitMode::Yield, Ordering::Relaxed);
        if before {
            WaitMode::Yield
        } else {
            WaitMode::Block
        }
    }

    /// Marks that one step of the kernel's work for the process is about to be made.
    ///
    /// A test may want the process to end at such a step.
    #[inline]
    pub(crate) fn step(&self) {
        if self.faults.end_is_due() {
            self.end_by_fault();
        }
    }

    /// Returns the name of the program that it runs.
    pub(crate) fn name(&self) -> String {
        self.name.lock().clone()
    }

    /// Returns the file behind a descriptor.
    pub(crate) fn file(&self, descriptor: usize) -> Option<File> {
        self.state.lock().files.get(descriptor)?.clone()
    }

    /// Calls `use_it` with the file behind a descriptor, without taking a share of it.
    ///
    /// No file is closed or opened meanwhile. If `closes` returns true for the result, the
    /// descriptor is closed in the same step, and the file is returned, to be dropped by the
    /// caller.
    pub(crate) fn use_file<T>(
        &self,
        descriptor: usize,
        use_it: impl FnOnce(&File) -> T,
        closes: impl FnOnce(&T) -> bool,
    ) -> Option<(T, Option<File>)> {
        let mut state = self.state.lock();
        let result = use_it(state.files.get(descriptor)?.as_ref()?);
        let closed = if closes(&result) {
            state.close(descriptor)
        } else {
            None
        };
        Some((result, closed))
    }

    /// Returns what holds a pending read of `length` bytes from a descriptor.
    ///
    /// `None` if nothing can hold it. With `closes` the descriptor is closed.
    pub(crate) fn source(&self, descriptor: usize, length: usize, closes: bool) -> Option<Source> {
        let mut state = self.state.lock();
        let source = match state.files.get(descriptor)? {
            Some(File::PipeRead(end)) => Source::Pipe(end.clone()),
            Some(File::Socket(Socket::Connection(connection))) => {
                Source::Connection(connection.clone())
            }
            _ => return None,
        };
        if !source.can_wait(length) {
            return None;
        }
        let closed = closes.then(|| state.close(descriptor));
        drop(state);
        // `source` still has it open.
        drop(closed);
        Some(source)
    }

    /// Opens `file` at the lowest free descriptor.
    ///
    /// `None` when there are too many, or no memory for one more.
    pub(crate) fn open(&self, file: File) -> Option<usize> {
        let opened = self.state.lock().open(&self.memory.account, file);
        // A file that was refused is dropped here: without the lock.
        opened.ok()
    }

    /// Opens two files, or none.
    pub(crate) fn open_two(&self, files: [File; 2]) -> Option<[usize; 2]> {
        let mut state = self.state.lock();
        let [first, second] = files;
        let first = match state.open(&self.memory.account, first) {
            Ok(first) => first,
            Err(first) => {
                drop(state);
                drop((first, second));
                return None;
            }
        };
        match state.open(&self.memory.account, second) {
            Ok(second) => Some([first, second]),
            Err(second) => {
                let first = state.close(first);
                drop(state);
                drop((first, second));
                None
            }
        }
    }

    /// Closes a descriptor and returns its file, which goes when nothing uses it any more.
    pub(crate) fn close(&self, descriptor: usize) -> Option<File> {
        self.state.lock().close(descriptor)
    }

    /// Adds a semaphore of this kind and returns its number.
    ///
    /// Returns `None` when there is no memory for it.
    pub(crate) fn add_semaphore(&self, kind: Kind, permits: usize) -> Option<usize> {
        let charge = self.reserve(account::of::<Semaphore>()).ok()?;
        let semaphore = Arc::new(Semaphore::new(permits, charge));
        let mut state = self.state.lock();
        let table = state.table(kind);
        let added = table.add(&self.memory.account, semaphore);
        drop(state);
        added.ok()
    }

    /// Returns the semaphore of this kind and number.
    pub(crate) fn semaphore(&self, kind: Kind, number: usize) -> Option<Arc<Semaphore>> {
        self.state.lock().table(kind).get(number)
    }

    /// Returns the child with this number, whether it has ended or not.
    pub(crate) fn child(&self, pid: usize) -> Option<Arc<Process>> {
        let state = self.state.lock();
        let child = state.children.get(&pid);
        child.or_else(|| state.ended_children.get(&pid)).cloned()
    }

    /// Searches for a child that has ended: the one with this number, or any.
    ///
    /// If one still runs, `running` is called before another can end.
    pub(crate) fn wait_child(&self, pid: Option<usize>, running: impl FnOnce(&State)) -> Waited {
        let mut state = self.state.lock();
        let ended = match pid {
            Some(pid) => state.ended_children.remove(&pid),
            None => state.ended_children.pop_first().map(|(_, child)| child),
        };
        if let Some(child) = ended {
            drop(state);
            let code = child.state.lock().ending.unwrap_or_default();
            return Waited::Ended(child.pid, code);
        }
        let runs = match pid {
            Some(pid) => state.children.contains_key(&pid),
            None => !state.children.is_empty(),
        };
        if !runs {
            return Waited::None;
        }
        running(&state);
        Waited::Running
    }

    /// Adds a child, which may have ended already.
    ///
    /// This is done under the lock of both. So the child's end comes before and is seen here, or
    /// comes after and finds the new parent.
    fn add_child(&self, child: Arc<Process>, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        let has_ended = {
            let mut theirs = child.state.lock();
            change(&mut theirs);
            theirs.ended
        };
        let children = if has_ended {
            &mut state.ended_children
        } else {
            &mut state.children
        };
        children.insert(child.pid, child);
        self.children.wake_all();
    }

    /// Records that a child has ended, and can be waited for.
    fn child_has_ended(&self, child: usize) {
        // Under the lock, so that this process does not check before and wait after.
        let mut state = self.state.lock();
        if let Some(ended) = state.children.remove(&child) {
            state.ended_children.insert(child, ended);
        }
        self.children.wake_all();
    }

    /// Checks whether a thread has ended.
    ///
    /// If it still runs, `running` is called before it can end.
    pub(crate) fn wait_thread(&self, tid: usize, running: impl FnOnce(&State)) -> Waited {
        let mut state = self.state.lock();
        match state.threads.get(tid) {
            None => Waited::None,
            Some(Slot::Starting | Slot::Live(_)) => {
                running(&state);
                Waited::Running
            }
            Some(Slot::Exited(code)) => {
                let code = *code;
                state.threads.remove(tid);
                Waited::Ended(tid, code)
            }
        }
    }
}

impl State {
    /// Opens a file at the lowest free descriptor.
    ///
    /// The file comes back if it is refused: it must not be dropped under the lock.
    fn open(&mut self, account: &Arc<Account>, file: File) -> Result<usize, File> {
        let descriptor = self.lowest_free();
        if descriptor >= MAX_FILES || self.ending.is_some() {
            return Err(file);
        }
        if descriptor >= self.files.len() {
            let pushed = self.files.push(account, Some(file));
            pushed.map_err(|file| file.expect("just passed"))?;
        } else if let Some(place) = self.files.get_mut(descriptor) {
            *place = Some(file);
        }
        self.note_taken(descriptor);
        self.first_free_file = descriptor + 1;
        Ok(descriptor)
    }

    /// Returns the lowest descriptor that is free.
    ///
    /// Checks 64 of them at once, after the one that is mostly free.
    fn lowest_free(&self) -> usize {
        if !self.is_taken(self.first_free_file) {
            return self.first_free_file;
        }
        let from = self.first_free_file / 64;
        let words = self.taken_files.iter().enumerate().skip(from);
        words
            .map(|(word, taken)| (64 * word, taken.trailing_ones() as usize))
            .find(|(_, taken)| *taken < 64)
            .map_or(64 * self.taken_files.len(), |(first, taken)| first + taken)
    }

    fn is_taken(&self, descriptor: usize) -> bool {
        let word = self.taken_files.get(descriptor / 64);
        word.is_some_and(|word| word >> (descriptor % 64) & 1 != 0)
    }

    /// Marks the descriptor as taken.
    fn note_taken(&mut self, descriptor: usize) {
        let (word, bit) = (descriptor / 64, 1 << (descriptor % 64));
        match self.taken_files.get_mut(word) {
            Some(taken) => *taken |= bit,
            None => self.add_word(word, bit),
        }
    }

    #[cold]
    fn add_word(&mut self, word: usize, taken: u64) {
        self.taken_files.resize(word, 0);
        self.taken_files.push(taken);
    }

    fn close(&mut self, descriptor: usize) -> Option<File> {
        let file = self.files.get_mut(descriptor)?.take()?;
        self.taken_files[descriptor / 64] &= !(1 << (descriptor % 64));
        self.first_free_file = self.first_free_file.min(descriptor);
        Some(file)
    }

    fn table(&mut self, kind: Kind) -> &mut Numbered {
        match kind {
            Kind::Semaphore => &mut self.semaphores,
            Kind::Mutex => &mut self.mutexes,
            Kind::Condition => &mut self.conditions,
        }
    }
}

impl Numbered {
    /// Returns an empty table for a child, without the numbers of this one.
    fn of_child(&self) -> Numbered {
        Numbered {
            first: self.first + self.semaphores.len(),
            semaphores: Segments::new(),
        }
    }

    /// Adds one and returns its number, at the expense of this account.
    ///
    /// It comes back when there are too many, or no memory for it.
    fn add(
        &mut self,
        account: &Arc<Account>,
        semaphore: Arc<Semaphore>,
    ) -> Result<usize, Arc<Semaphore>> {
        let number = self.first + self.semaphores.len();
        if self.semaphores.len() >= MAX_SEMAPHORES {
            return Err(semaphore);
        }
        self.semaphores.push(account, semaphore)?;
        Ok(number)
    }

    fn into_iter(mut self) -> impl Iterator<Item = Arc<Semaphore>> {
        core::iter::from_fn(move || self.semaphores.pop())
    }

    fn get(&self, number: usize) -> Option<Arc<Semaphore>> {
        let place = number.checked_sub(self.first)?;
        self.semaphores.get(place).cloned()
    }
}
