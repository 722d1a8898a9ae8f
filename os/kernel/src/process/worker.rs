//! Workers: the threads of a process that run executors (COPS, section 3.4).
//!
//! ```text
//!   process ─┬─ worker 0 ── page, rings, interrupts, timers, level ──▶ its thread, and those that are no workers
//!            ├─ worker 1 ── page, rings, interrupts, timers, level ──▶ its thread
//!            ╎
//! ```
//! A thread becomes a worker with the lowest number that is free, and is one until it ends. So a
//! program with one executor is worker 0, and its page the process's.
use super::{Process, State, Upcalls, timers::Watch};
use crate::lock::Mutex;
use crate::memory::account::{self, Charge};
use crate::memory::frame::Frame;
use crate::memory::{OutOfMemory, PAGE_SIZE, address_space::USER_DATA};
use crate::ring::Ring;
use alloc::boxed::Box;
use alloc::sync::Arc;
use corank_abi::page::{DEFAULT_LEVEL, ProcessPage, WORKERS, ring_base, worker_page};
use core::sync::atomic::{AtomicU8, Ordering};

/// A thread of a process that runs executors, with its page, its rings and its interrupts.
#[derive(Debug)]
pub(crate) struct Worker {
    /// Its number, below [`WORKERS`].
    pub number: usize,
    /// What it says of its coroutines; a [`ProcessPage`].
    page: Frame,
    /// The level at which its threads run now.
    pub(super) level: AtomicU8,
    /// The timers of its own coroutines.
    pub(super) watch: Mutex<Watch>,
    /// Its rings, once it has set them up.
    pub ring: Mutex<Option<Arc<Ring>>>,
    /// User-level interrupts.
    pub upcalls: Upcalls,
    _charge: Charge,
}

impl Worker {
    /// Makes a worker that says nothing yet.
    ///
    /// # Errors
    /// When there is no memory for its page.
    pub(super) fn new(number: usize, charge: Charge) -> Result<Worker, OutOfMemory> {
        Ok(Worker {
            number,
            page: Frame::zeroed()?,
            level: AtomicU8::new(DEFAULT_LEVEL),
            watch: Mutex::default(),
            ring: Mutex::new(None),
            upcalls: Upcalls::default(),
            _charge: charge,
        })
    }

    /// Returns what it says of its coroutines.
    pub(crate) fn page(&self) -> &ProcessPage {
        // SAFETY: the frame was full of zeros, which is a valid `ProcessPage`; all of it is atomic;
        // the process shares it.
        unsafe { &*(self.page.address() as *const ProcessPage) }
    }

    /// Returns where the page is, for the process's memory and for the kernel.
    pub(super) fn mapping(&self) -> (usize, usize) {
        (worker_page(self.number), self.page.address())
    }

    /// Returns the rings.
    #[inline(always)]
    pub(crate) fn ring(&self) -> Option<Arc<Ring>> {
        self.ring.lock().clone()
    }

    /// Empties the page, so that the next thread that becomes this worker finds a page that says
    /// nothing.
    pub(super) fn clear_page(&self) {
        let page = self.page();
        page.executors.store(0, Ordering::Relaxed);
        for words in [&page.coroutines, &page.stacks] {
            words.store(0, Ordering::Relaxed);
        }
        let timers = &page.deadlines.levels;
        for words in [&page.ready, &page.running, &page.arriving, timers] {
            words.store(0, Ordering::Relaxed);
        }
        page.flag.open();
    }

    /// Copies what `other` says, the worker of the thread that this one was forked from.
    pub(super) fn copy_from(&self, other: &Worker) {
        let (ours, theirs) = (self.page(), other.page());
        let executors = theirs.executors.load(Ordering::Relaxed);
        ours.executors.store(executors, Ordering::Relaxed);
        for (ours, theirs) in [
            (&ours.ready, &theirs.ready),
            (&ours.running, &theirs.running),
        ] {
            ours.store(theirs.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        ours.deadlines.copy_from(&theirs.deadlines);
        self.upcalls.copy_from(&other.upcalls);
        self.level.store(other.level(), Ordering::Relaxed);
    }
}

impl Process {
    /// Returns the worker with this number, if a thread ever became that.
    pub(crate) fn find_worker(&self, number: usize) -> Option<&Worker> {
        match number.checked_sub(1) {
            None => Some(&self.first),
            Some(other) => Some(&**self.others.get(other)?.get()?),
        }
    }

    /// Returns the worker with this number, as [`make_worker`](Self::make_worker) has returned it.
    #[inline(always)]
    pub(crate) fn worker(&self, number: usize) -> &Worker {
        // Most programs have no other.
        if number == 0 {
            &self.first
        } else {
            self.find_worker(number).expect("a thread became it")
        }
    }

    /// Returns all workers that there ever were.
    pub(crate) fn workers(&self) -> impl Iterator<Item = &Worker> {
        let others = self.others.iter().filter_map(|other| other.get());
        core::iter::once(&self.first).chain(others.map(|other| &**other))
    }

    /// Returns the level of its most urgent worker.
    pub(crate) fn level(&self) -> u8 {
        let taken = self.state.lock().workers;
        // Worker 0's level is also that of threads that are no workers.
        let counts = |worker: &&Worker| worker.number == 0 || taken[worker.number].is_some();
        let levels = self.workers().filter(counts).map(Worker::level);
        levels.min().expect("there is worker 0")
    }

    /// Makes the thread a worker, if it is none, and returns which.
    ///
    /// `None` if there are too many, or no memory.
    pub(crate) fn make_worker(&self, tid: usize) -> Option<usize> {
        let number = {
            let mut state = self.state.lock();
            if let Some(number) = state.as_worker(tid) {
                return Some(number);
            }
            let number = state.workers.iter().position(Option::is_none)?;
            state.workers[number] = Some(tid);
            number
        };
        // The number is taken: no other thread is here with it.
        if number > 0 && self.equip(number).is_err() {
            self.state.lock().workers[number] = None;
            return None;
        }
        self.worker(number).move_threads(self);
        Some(number)
    }

    /// Ensures that the worker has a page, and that the process sees it.
    pub(super) fn equip(&self, number: usize) -> Result<(), OutOfMemory> {
        let make = || {
            let charge = self.reserve(account::of::<Worker>())?;
            Worker::new(number, charge).map(Box::new)
        };
        let worker = self.others[number - 1].try_call_once(make)?;
        let (page, frame) = worker.mapping();
        self.with_memory(
            |space| {
                if space.is_mapped(page) {
                    return Ok(());
                }
                space.map_borrowed(page, frame, USER_DATA)
            },
            Err(OutOfMemory),
        )
    }

    /// Cancels the calls in the rings of a thread that ends, if it is a worker, and takes the rings
    /// away.
    pub(crate) async fn end_rings(&self, tid: usize) {
        let Some(number) = self.state.lock().as_worker(tid) else {
            return;
        };
        let worker = self.worker(number);
        if let Some(ring) = worker.ring() {
            ring.cancel_all(&self.memory).await;
            let pages = ring.frames().count();
            let start = ring_base(number);
            self.with_memory(|space| space.unmap(start..start + pages * PAGE_SIZE), ());
            *worker.ring.lock() = None;
        }
    }

    /// Frees the worker that an ended thread was, so that another thread may become it.
    pub(super) fn end_worker(&self, tid: usize) {
        let Some(number) = self.state.lock().as_worker(tid) else {
            return;
        };
        let worker = self.worker(number);
        worker.upcalls.forget(tid);
        if self.is_ending() {
            // The rings go when the memory is gone in which they are mapped.
            return;
        }
        worker.clear_page();
        self.state.lock().workers[number] = None;
    }

    /// Ends all workers, because another program runs: its main thread is no worker yet.
    pub(super) fn end_all_workers(&self) {
        for worker in self.workers() {
            worker.clear_page();
            worker.upcalls.forget(0);
        }
        self.state.lock().workers = [None; WORKERS];
        self.first.move_threads(self);
    }

    /// Maps a worker's new rings, and keeps them. Returns where they are.
    ///
    /// `None` if it has some or there is no memory.
    pub(crate) fn set_up_ring(&self, worker: usize, entries: usize) -> Option<usize> {
        let mut place = self.worker(worker).ring.lock();
        if place.is_some() {
            return None;
        }
        let ring = Ring::new(worker, entries, &self.memory.account).ok()?;
        let base = ring_base(worker);
        let mapped = self.with_memory(
            |space| {
                for (number, frame) in ring.frames().enumerate() {
                    let page = base + number * PAGE_SIZE;
                    if space.map_borrowed(page, frame, USER_DATA).is_err() {
                        space.unmap(base..page);
                        return false;
                    }
                }
                true
            },
            false,
        );
        if !mapped {
            return None;
        }
        *place = Some(ring);
        Some(base)
    }
}

impl State {
    /// Returns the number of the worker that a thread is, if it is one.
    pub(super) fn as_worker(&self, tid: usize) -> Option<usize> {
        self.workers.iter().position(|worker| *worker == Some(tid))
    }

    /// Returns the worker at whose level a thread runs.
    pub(super) fn worker_of(&self, tid: usize) -> usize {
        self.as_worker(tid).unwrap_or(0)
    }
}
