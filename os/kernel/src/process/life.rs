//! How processes and threads begin and end.
use super::level::Global;
use super::loan::Loan;
use super::memory::release;
use super::table::SpaceId;
use super::{Kind, Numbered, Process, Slot, State, Worker, follow, interrupted, table};
use crate::elf_loader::{self, LoadError};
use crate::executor::{executor, priority, system_page};
use crate::fault::{self, OwnFaults};
use crate::file::File;
use crate::group::Group;
use crate::lock::Mutex;
use crate::memory::account::{self, Account, Charge};
use crate::memory::address_space::{AddressSpace, USER_DATA};
use crate::memory::page_table::Flags;
use crate::memory::segments::Segments;
use crate::memory::slots::Slots;
use crate::memory::user::UserMemory;
use crate::memory::{OutOfMemory, PAGE_SIZE};
use crate::pace::{self, Pace, checkpoint};
use crate::trap::Context;
use crate::wait::{WaitMode, WaitQueue, until};
use crate::{clock, power, println, programs, vdso};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use corank::{CoroutineId, Priority};
use corank_abi::file::PATH_SIZE;
use corank_abi::page::{SYSTEM_PAGE, WORKERS};
use corank_abi::{auxiliary, exit_code, rights};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::task::Poll;
use spin::Once;

/// The number of files that a child gets at once.
const FILES_AT_ONCE: usize = 4 * pace::OBJECTS;

/// The number of places of threads that are visited at once.
const PLACES_AT_ONCE: usize = 1024;

/// The number of threads that a process may have: those that run, and those that have ended and
/// were not waited for.
const MAX_THREADS: usize = 1 << 15;

/// What a process costs beside its tables: itself, its name and directory, each as long as a path
/// can be, and its places in the tables of others.
const PROCESS: usize =
    account::of::<Process>() + account::of::<Account>() + 2 * (PATH_SIZE + 1) + 512;

/// The number of a process's main thread.
pub(crate) const MAIN: usize = 0;

/// The longest that the slow end of a process holds up a hart, in milliseconds.
const LONGEST_DELAY: u64 = 2000;

/// The process whose end is the machine's end.
static FIRST: Once<Arc<Process>> = Once::new();

/// Ends the system, with the first process's exit code.
static AT_END: Once<fn(i32)> = Once::new();

/// Starts the first process with the program that the boot arguments name.
///
/// `start_thread` starts its main thread. Calls `at_end` with its exit code when it has ended.
/// Switches the machine off if it cannot be started.
pub(crate) fn start_first(
    arguments: &[String],
    start_thread: impl FnOnce(&Arc<Process>, Context) -> Result<(), OutOfMemory>,
    at_end: fn(i32),
) {
    AT_END.call_once(|| at_end);
    follow::start();
    interrupted::start();
    let Some(name) = arguments.first() else {
        println!(
            "corank: no program is named in the boot arguments; there are: {}",
            names()
        );
        power::off(127)
    };
    let Some(file) = programs::find(name) else {
        println!("corank: there is no program {name}; there are: {}", names());
        power::off(127)
    };
    let arguments: Vec<&[u8]> = arguments.iter().map(String::as_bytes).collect();
    match start(name, file, &arguments, start_thread) {
        Ok(process) => FIRST.call_once(|| process),
        Err(error) => {
            println!("corank: cannot start {name}: {error}");
            power::off(126)
        }
    };
}

fn names() -> String {
    programs::names().fold(String::new(), |all, name| all + " " + name)
}

fn start(
    name: &str,
    file: &[u8],
    arguments: &[&[u8]],
    start_thread: impl FnOnce(&Arc<Process>, Context) -> Result<(), OutOfMemory>,
) -> Result<Arc<Process>, LoadError> {
    let process = Process::new(String::from(name), Weak::new(), account::root().child())?;
    process.rights.store(rights::ALL, Ordering::Relaxed);
    for file in [File::ConsoleInput, File::ConsoleOutput, File::ConsoleOutput] {
        process.open(file).ok_or(OutOfMemory)?;
    }
    let (space, context) = pace::at_boot(process.load(file, arguments))?;
    process.memory.replace(Some(space));
    table::insert_unless(&process, || false);
    start_thread(&process, context)?;
    Ok(process)
}

impl Process {
    /// Makes a process without memory, files or threads.
    fn new(
        name: String,
        parent: Weak<Process>,
        account: Arc<Account>,
    ) -> Result<Arc<Process>, OutOfMemory> {
        let charge = account::charge(&account, PROCESS)?;
        let first = Worker::new(0, Charge::none())?;
        let state = State {
            parent,
            children: BTreeMap::new(),
            ended_children: BTreeMap::new(),
            threads: Slots::new(),
            workers: [None; WORKERS],
            live: 0,
            moving: None,
            files: Segments::new(),
            first_free_file: 0,
            taken_files: Vec::new(),
            semaphores: Numbered::default(),
            mutexes: Numbered::default(),
            conditions: Numbered::default(),
            ending: None,
            ended: false,
        };
        let pid = table::new_pid();
        Ok(Arc::new(Process {
            pid,
            space_id: SpaceId::new().ok_or(OutOfMemory)?,
            name: Mutex::new(name),
            directory: Mutex::new(String::from("/")),
            memory: UserMemory::new(account),
            first,
            others: [const { Once::new() }; WORKERS - 1],
            granted: AtomicU64::new(u64::MAX),
            is_strict: AtomicBool::new(false),
            waits_by_yielding: AtomicBool::new(false),
            by_thread: AtomicBool::new(false),
            time: AtomicU64::new(0),
            calls_made: AtomicUsize::new(0),
            faults: OwnFaults::new(),
            loan: Loan::none(),
            is_ending: AtomicBool::new(false),
            state: Mutex::new(state),
            group: Mutex::new(Group::of_first(pid)),
            rights: AtomicUsize::new(0),
            children: WaitQueue::new(),
            threads: WaitQueue::new(),
            heap_moved: WaitQueue::new(),
            _charge: charge,
        }))
    }

    /// Returns memory with a program and its arguments, and where its main thread begins.
    ///
    /// # Errors
    /// See [`LoadError`].
    async fn load(
        &self,
        file: &[u8],
        arguments: &[&[u8]],
    ) -> Result<(AddressSpace, Context), LoadError> {
        let mut space = AddressSpace::new(self.space_id.number())?;
        let loaded = match elf_loader::load(file, &mut space).await {
            Ok(entry) => self.prepare(&mut space, entry, arguments).await,
            Err(error) => Err(error),
        };
        match loaded {
            Ok(context) => Ok((space, context)),
            Err(error) => {
                release(space).await;
                Err(error)
            }
        }
    }

    /// Adds what a program finds beside its own segments.
    ///
    /// Returns where its main thread begins.
    async fn prepare(
        &self,
        space: &mut AddressSpace,
        entry: usize,
        arguments: &[&[u8]],
    ) -> Result<Context, LoadError> {
        vdso::map_private(space)?;
        self.map_pages(space)?;
        let mut stack = space.map_stack(0)?;
        // From the top down: the strings, then what points to them (see `corank_abi::auxiliary`).
        let mut words = Vec::with_capacity(arguments.len() + 9);
        words.push(arguments.len());
        for argument in arguments {
            checkpoint().await;
            stack -= argument.len() + 1;
            space.write(stack, argument).map_err(|_| OutOfMemory)?;
            space
                .write(stack + argument.len(), &[0])
                .map_err(|_| OutOfMemory)?;
            words.push(stack);
        }
        const END_OF_ARGUMENTS: usize = 0;
        const NO_ENVIRONMENT: usize = 0;
        words.extend([END_OF_ARGUMENTS, NO_ENVIRONMENT]);
        words.extend([auxiliary::PAGE_SIZE, PAGE_SIZE]);
        words.extend([auxiliary::SYSINFO_EHDR, corank_abi::vdso::BASE]);
        words.extend([auxiliary::END, 0]);
        stack = (stack - words.len() * 8) & !15;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        space.write(stack, &bytes).map_err(|_| OutOfMemory)?;
        let mut context = Context::new(entry, stack);
        context.x[10] = arguments.len();
        context.x[11] = stack + 8;
        Ok(context)
    }

    /// Runs another program in this process.
    ///
    /// Only its main thread may, when it is the only one.
    ///
    /// # Errors
    /// See [`LoadError`]; the process then goes on as it was.
    pub(crate) async fn exec(
        &self,
        name: &str,
        file: &[u8],
        arguments: &[&[u8]],
    ) -> Result<Context, LoadError> {
        let (space, context) = self.load(file, arguments).await?;
        for worker in self.workers() {
            let ring = worker.ring();
            if let Some(ring) = ring {
                ring.cancel_all(&self.memory).await;
                *worker.ring.lock() = None;
                // The calls under way mean the old program's memory, and another hart may be
                // serving one right now.
                while Arc::strong_count(&ring) > 1 {
                    corank::yield_now().await;
                }
            }
        }
        self.end_all_workers();
        let old = self.memory.replace(Some(space));
        if let Some(old) = old {
            release(old).await;
        }
        *self.name.lock() = String::from(name);
        self.set_global(Global::Relaxed);
        self.forget_semaphores().await;
        Ok(context)
    }

    /// Maps the pages that the process shares with the kernel.
    fn map_pages(&self, space: &mut AddressSpace) -> Result<(), OutOfMemory> {
        let (page, frame) = self.first.mapping();
        space.map_borrowed(page, frame, USER_DATA)?;
        space.map_borrowed(
            SYSTEM_PAGE,
            core::ptr::from_ref(system_page()).addr(),
            Flags::READ | Flags::USER,
        )?;
        vdso::map_shared(space)
    }

    /// Tests whether only the main thread is left.
    pub(crate) fn has_one_thread(&self) -> bool {
        let state = self.state.lock();
        let main = state.threads.get(0);
        state.live == 1 && matches!(main, Some(Slot::Live(_) | Slot::Starting))
    }

    /// Makes a child with a copy of the memory, the same files, and the thread that `start` starts.
    ///
    /// # Errors
    /// When there is no memory for it, and those of `start`.
    pub(crate) async fn fork(
        self: &Arc<Process>,
        start: impl FnOnce(&Arc<Process>) -> Result<(), OutOfMemory>,
    ) -> Result<Arc<Process>, OutOfMemory> {
        let child = Process::new(
            self.name(),
            Arc::downgrade(self),
            self.memory.account.child(),
        )?;
        let begun = match self.copy_to(&child).await {
            // The stack was copied with the memory.
            Ok(()) => start(&child),
            Err(error) => Err(error),
        };
        if let Err(error) = begun {
            child.begin_end(exit_code::KILLED);
            child.wind_up().await;
            return Err(error);
        }
        self.add_child(child.clone(), |_| ());
        Ok(child)
    }

    /// Gives a new process what a child has of its parent.
    async fn copy_to(self: &Arc<Process>, child: &Arc<Process>) -> Result<(), OutOfMemory> {
        let space = self.copy_memory(child.space_id.number()).await?;
        child.memory.replace(Some(space));
        child.with_memory(|space| child.map_pages(space), Err(OutOfMemory))?;
        // Wakers in the copied memory name workers that have ended, so their pages are there, too.
        for other in self.workers().skip(1) {
            child.equip(other.number)?;
        }
        // Only the main thread forks, alone: the child's is the same worker.
        let number = self.state.lock().as_worker(0);
        if let Some(number) = number {
            child.state.lock().workers[number] = Some(0);
        }
        let number = number.unwrap_or(0);
        child.worker(number).copy_from(self.worker(number));
        child.set_wait_mode(self.wait_mode());
        child.set_global(self.global());
        child.granted.store(self.granted(), Ordering::Relaxed);
        let by_thread = self.by_thread.load(Ordering::Relaxed);
        child.by_thread.store(by_thread, Ordering::Relaxed);
        *child.group.lock() = self.group();
        let rights = self.rights.load(Ordering::Relaxed);
        child.rights.store(rights, Ordering::Relaxed);
        *child.directory.lock() = self.directory.lock().clone();
        {
            let (ours, mut theirs) = (self.state.lock(), child.state.lock());
            theirs.semaphores = ours.semaphores.of_child();
            theirs.mutexes = ours.mutexes.of_child();
            theirs.conditions = ours.conditions.of_child();
        }
        self.copy_files_to(child).await?;
        // A call that ends all processes of a group meets the child, or else there is none.
        if table::insert_unless(child, || self.is_ending()) {
            Ok(())
        } else {
            Err(OutOfMemory)
        }
    }

    async fn copy_files_to(&self, child: &Process) -> Result<(), OutOfMemory> {
        let count = self.state.lock().files.len();
        for from in (0..count).step_by(FILES_AT_ONCE) {
            {
                let (ours, mut theirs) = (self.state.lock(), child.state.lock());
                for descriptor in from..ours.files.len().min(from + FILES_AT_ONCE) {
                    // First of all: a file must not be dropped under the lock.
                    theirs.files.reserve(&child.memory.account)?;
                    let file = ours.files.get(descriptor).cloned().flatten();
                    let is_open = file.is_some();
                    let _ = theirs.files.push(&child.memory.account, file);
                    if is_open {
                        theirs.note_taken(descriptor);
                    }
                }
            }
            checkpoint().await;
        }
        Ok(())
    }

    /// Takes a number for a thread that is about to be made.
    ///
    /// Returns it, and the number of the worker whose level the thread has. From here on the thread
    /// takes care of its place, whether it runs or is dropped.
    ///
    /// # Errors
    /// When there is no memory for it, there are too many, or the process ends.
    pub(crate) fn reserve_thread(&self) -> Result<(usize, usize), OutOfMemory> {
        let mut state = self.state.lock();
        if state.ending.is_some() || state.threads.len() >= MAX_THREADS {
            return Err(OutOfMemory);
        }
        let tid = state.threads.insert(&self.memory.account, Slot::Starting)?;
        state.live += 1;
        Ok((tid, state.worker_of(tid)))
    }

    /// Makes the coroutine of the thread `tid`, which `spawn` does at the priority of this worker.
    ///
    /// # Errors
    /// Those of `spawn`, and when the process ends.
    pub(crate) fn make_thread(
        &self,
        tid: usize,
        worker: usize,
        spawn: impl FnOnce(Priority) -> Result<CoroutineId, OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        let mut state = self.state.lock();
        if state.ending.is_some() {
            // The code that ended the process did not have this thread's coroutine yet.
            return Err(OutOfMemory);
        }
        // Under the lock: what wakes the thread, moves it to another level or ends it finds its
        // coroutine, even if it has run on another hart already.
        let coroutine = spawn(priority(self.worker(worker).level()))?;
        state.threads[tid] = Slot::Live(coroutine);
        Ok(())
    }

    /// Ends the process, unless it is ending already.
    ///
    /// Its main thread's coroutine does the work, at the process's level: see
    /// [`wind_up`](Self::wind_up). The coroutine that calls this, if it is one of the process, ends
    /// when it next would wait or returns.
    pub(crate) fn end(&self, code: i32) {
        if self.begin_end(code) {
            self.announce_end();
        }
    }

    /// Ends the process as [`end`](Self::end) does, because a test has asked for it.
    ///
    /// A slow hart waits between the two halves, until the process's threads have noticed by
    /// themselves, on other harts, and are gone.
    #[cold]
    pub(super) fn end_by_fault(&self) {
        if self.begin_end(exit_code::KILLED) {
            let limit = clock::milliseconds() + LONGEST_DELAY;
            let is_over = || self.state.lock().ended || clock::milliseconds() >= limit;
            self.faults.delay_end(is_over);
            self.announce_end();
        }
    }

    /// Marks the process as ending.
    ///
    /// Returns false if it is ending already. From then on it starts no thread, child or call. This
    /// is the first half of [`end`](Self::end). It does nothing else, and so may be called under
    /// the lock of the table.
    pub(super) fn begin_end(&self, code: i32) -> bool {
        let mut state = self.state.lock();
        if state.ending.is_some() {
            return false;
        }
        state.ending = Some(code);
        self.is_ending.store(true, Ordering::Relaxed);
        true
    }

    /// Makes the process's coroutines notice its end: the second half of [`end`](Self::end).
    pub(super) fn announce_end(&self) {
        self.interrupt_harts();
        self.wake_thread(MAIN);
    }

    /// Tests whether [`Process::end`] has been called.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Records that a thread's coroutine is gone.
    pub(crate) fn thread_gone(&self, tid: usize, code: i32) {
        self.end_worker(tid);
        if !self.is_ending() {
            // Before another thread may have its number, and without the process's own lock: other
            // harts may have to forget the stack.
            self.with_memory(|space| space.unmap_stack(tid), ());
        }
        let mut state = self.state.lock();
        self.loan.forget(tid);
        if matches!(state.threads[tid], Slot::Starting) {
            // A thread that could not start is forgotten.
            state.threads.remove(tid);
        } else {
            state.threads[tid] = Slot::Exited(code);
        }
        state.live -= 1;
        self.threads.wake_all();
    }

    /// Takes back everything that the process has, then informs the parent.
    ///
    /// Works at the process's level and in bounded pieces. The process is ending, and its main
    /// thread is gone. This is what that thread's coroutine does last.
    pub(crate) async fn wind_up(&self) {
        // Whatever has ended the process was a piece of work of its own.
        checkpoint().await;
        self.cancel_everything().await;
        until(&self.threads, WaitMode::Block, |turn| {
            let state = self.state.lock();
            if state.live == 0 {
                return Poll::Ready(());
            }
            turn.wait(&state);
            Poll::Pending
        })
        .await;
        fault::forget(self.pid);
        self.forget_semaphores().await;
        self.close_files().await;
        let rings = self.workers().map(|worker| worker.ring.lock().take());
        let rings: heapless::Vec<_, WORKERS> = rings.flatten().collect();
        let memory = self.memory.replace(None);
        if let Some(memory) = memory {
            release(memory).await;
        }
        // After the memory, in which they were mapped.
        drop(rings);
        let first = FIRST.get();
        if first.is_some_and(|first| first.pid == self.pid) {
            table::remove(self, || ());
            let code = self.state.lock().ending.unwrap_or(0);
            if let Some(at_end) = AT_END.get() {
                at_end(code);
            }
        } else if let Some(first) = first {
            self.leave_children_to(first).await;
        }
        // In one step: a caller that lists the processes finds this one in the table or, in this
        // order, with its parent.
        let parent = table::remove(self, || {
            let parent = {
                // In one step, too. If an adoption of this process comes before it, the new parent
                // is seen here. If it comes after it, the adoption checks whether the process has
                // ended.
                let mut state = self.state.lock();
                state.ended = true;
                state.parent.upgrade()
            };
            if let Some(parent) = &parent {
                parent.child_has_ended(self.pid);
            }
            parent
        });
        drop(parent);
    }

    /// Cancels calls and threads, but for the main thread.
    async fn cancel_everything(&self) {
        self.interrupt_harts();
        for ring in self.workers().filter_map(Worker::ring) {
            ring.cancel_all(&self.memory).await;
        }
        let mut next = MAIN + 1;
        loop {
            let mut coroutines = heapless::Vec::<_, { pace::OBJECTS }>::new();
            {
                // Most places may be free.
                let threads = &self.state.lock().threads;
                let until = threads.capacity().min(next + PLACES_AT_ONCE);
                if next >= until {
                    break;
                }
                while next < until && !coroutines.is_full() {
                    if let Some(Slot::Live(coroutine)) = threads.get(next) {
                        let _ = coroutines.push(*coroutine);
                    }
                    next += 1;
                }
            }
            // Dropped coroutines come back with `thread_gone`: no lock is held here. One that
            // another hart polls ends with its poll.
            for coroutine in coroutines {
                executor().cancel(coroutine);
            }
            checkpoint().await;
        }
    }

    async fn forget_semaphores(&self) {
        for kind in [Kind::Semaphore, Kind::Mutex, Kind::Condition] {
            let semaphores = core::mem::take(self.state.lock().table(kind));
            let mut pace = Pace::default();
            for semaphore in semaphores.into_iter() {
                drop(semaphore);
                pace.step().await;
            }
        }
    }

    /// Closes all files.
    ///
    /// What the disk's service has to do for it is done when this returns.
    async fn close_files(&self) {
        let mut files = core::mem::take(&mut self.state.lock().files);
        let mut pace = Pace::default();
        while let Some(file) = files.pop() {
            if let Some(File::Disk(file)) = file {
                if let Some(file) = Arc::into_inner(file) {
                    // No caller is left that could handle an error.
                    let _ = file.close().await;
                }
            } else {
                drop(file);
            }
            pace.step().await;
        }
    }

    /// Makes the first process the parent of the children, those included that have ended.
    async fn leave_children_to(&self, first: &Arc<Process>) {
        let mut pace = Pace::default();
        loop {
            let child = {
                let state = self.state.lock();
                let running = state.children.values().next();
                running
                    .or_else(|| state.ended_children.values().next())
                    .cloned()
            };
            let Some(child) = child else { break };
            let pid = child.pid;
            // First to its new parent: it is nowhere else while no process can wait for it.
            first.add_child(child, |theirs| theirs.parent = Arc::downgrade(first));
            let left = {
                let mut state = self.state.lock();
                (
                    state.children.remove(&pid),
                    state.ended_children.remove(&pid),
                )
            };
            // The last reference may go here: not under the lock.
            drop(left);
            pace.step().await;
        }
    }
}
