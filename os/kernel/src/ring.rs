//! Asynchronous system calls: the kernel's side of [`corank_abi::ring`].
//!
//! A submission that can be served at once is served in place. Only one that has to wait becomes a kernel coroutine, at
//! the level of the coroutine that asked. The memory is shared with the program, which may write anything into it at any time:
//! the kernel keeps its own counters, copies an entry before it looks at it, and checks whatever it finds.
use crate::clock;
use crate::hart;
use crate::memory::user::BadAddress;
use crate::memory::{OutOfMemory, PAGE_SIZE, heap, page_up};
use crate::process::{Process, priority};
use crate::syscall;
use crate::thread;
use crate::wait::{WaitMode, WaitQueue, until};
use alloc::alloc::{alloc_zeroed, dealloc};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use corank::Remote;
use corank_abi::call::FAILED;
use corank_abi::ring::{Completion, LINK, RingHeader, SILENT, SUBMISSIONS, Submission};
use core::alloc::Layout;
use core::future::poll_fn;
use core::pin::pin;
use core::sync::atomic::Ordering;
use core::task::Poll;
use slab::Slab;
use spin::Mutex;

/// The most entries that a ring can have.
pub(crate) const MAX_ENTRIES: usize = MAX_ENTRIES_U32 as usize;
const MAX_ENTRIES_U32: u32 = 4096;

/// How many calls may be under way and completions be kept for one process. Further submissions stay in their ring.
const MAX_PENDING: usize = 1 << 16;

/// A process's rings.
#[derive(Debug)]
pub(crate) struct Ring {
    memory: Shared,
    entries: u32,
    state: Mutex<State>,
    /// Woken when as many completions are there as someone waits for.
    completed: WaitQueue,
}

#[derive(Debug, Default)]
struct State {
    submission_head: u32,
    completion_tail: u32,
    /// Completions for which the ring had no room, oldest first.
    kept: VecDeque<Completion>,
    /// The coroutines of calls under way; `None` while one is being made.
    calls: Slab<Option<Remote>>,
    /// The smallest number of completions that someone waits for.
    wanted: u32,
    /// The process has ended or runs another program.
    closed: bool,
}

/// Whole pages of the kernel's heap that are mapped in a process as well.
#[derive(Debug)]
struct Shared {
    start: *mut u8,
    layout: Layout,
}

// SAFETY: the memory belongs to the value; whoever writes to it holds the ring's lock or uses atomics.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    fn new(size: usize) -> Result<Shared, OutOfMemory> {
        let layout = Layout::from_size_align(page_up(size), PAGE_SIZE).map_err(|_| OutOfMemory)?;
        if !heap::has_room() {
            return Err(OutOfMemory);
        }
        // SAFETY: the size is not zero: a ring has a header.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            Err(OutOfMemory)
        } else {
            Ok(Shared { start, layout })
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; the process's mapping of it is gone.
        unsafe { dealloc(self.start, self.layout) };
    }
}

/// Submissions that are served one after the other.
#[derive(Debug)]
struct Chain {
    first: Submission,
    rest: VecDeque<Submission>,
}

impl Ring {
    /// Rings with this many entries each; a power of two up to [`MAX_ENTRIES`].
    ///
    /// # Errors
    /// When there is no memory for them.
    pub(crate) fn new(entries: usize) -> Result<Arc<Ring>, OutOfMemory> {
        let size = SUBMISSIONS + entries * (size_of::<Submission>() + size_of::<Completion>());
        let ring = Ring {
            memory: Shared::new(size)?,
            entries: entries as u32,
            state: Mutex::new(State {
                wanted: u32::MAX,
                ..State::default()
            }),
            completed: WaitQueue::new(),
        };
        ring.header()
            .entries
            .store(entries as u32, Ordering::Relaxed);
        ring.header().deadline.store(u64::MAX, Ordering::Relaxed);
        Ok(Arc::new(ring))
    }

    /// The physical addresses of its pages, in order.
    pub(crate) fn frames(&self) -> impl Iterator<Item = usize> {
        let start = self.memory.start as usize;
        (start..start + self.memory.layout.size()).step_by(PAGE_SIZE)
    }

    fn header(&self) -> &RingHeader {
        // SAFETY: the memory begins with a header, which is atomic but for padding that nobody reads.
        unsafe { &*self.memory.start.cast() }
    }

    fn submission(&self, number: u32) -> Submission {
        let index = (number % self.entries) as usize;
        // SAFETY: the index is below `entries`, for which there is room; every bit pattern is a submission. The program may be
        // writing to it: then the copy is any bit pattern.
        unsafe {
            self.memory
                .start
                .add(SUBMISSIONS)
                .cast::<Submission>()
                .add(index)
                .read_volatile()
        }
    }

    fn write_completion(&self, number: u32, completion: Completion) {
        let index = (number % self.entries) as usize;
        let offset = SUBMISSIONS + self.entries as usize * size_of::<Submission>();
        // SAFETY: as in `submission`, with room for `entries` completions behind the submissions.
        unsafe {
            self.memory
                .start
                .add(offset)
                .cast::<Completion>()
                .add(index)
                .write_volatile(completion)
        };
    }

    /// Serves the submissions that are there now, then waits for completions. Returns how many are there.
    ///
    /// # Errors
    /// When a submission passes a bad pointer.
    pub(crate) async fn enter(
        self: Arc<Ring>,
        process: &Arc<Process>,
        wait_for: usize,
    ) -> Result<isize, BadAddress> {
        let end = self.header().submission_tail.load(Ordering::Acquire);
        if end.wrapping_sub(self.state.lock().submission_head) > self.entries {
            return Ok(FAILED);
        }
        while let Some(submission) = self.next(end) {
            self.serve(process, submission, end)?;
        }
        process.follow_level();
        // What was just served may have woken other calls of this process. Let them go first: so their completions come with
        // the same kernel entry.
        if !self.state.lock().calls.is_empty() {
            corank::yield_now().await;
        }
        let wanted = u32::try_from(wait_for)
            .unwrap_or(u32::MAX)
            .min(self.entries);
        let ready = self.state.lock().ready(&self);
        if ready >= wanted {
            return Ok(ready as isize);
        }
        let deadline = self.header().deadline.load(Ordering::Relaxed);
        let mut completions = pin!(until(&self.completed, WaitMode::Block, |turn| {
            let mut state = self.state.lock();
            let ready = state.ready(&self);
            if ready >= wanted {
                return Poll::Ready(ready);
            }
            state.wanted = state.wanted.min(wanted);
            turn.wait();
            Poll::Pending
        }));
        if deadline == u64::MAX {
            return Ok(completions.await as isize);
        }
        let mut sleep = pin!(clock::sleep_until(deadline));
        let ready = poll_fn(|context| match completions.as_mut().poll(context) {
            Poll::Pending => sleep
                .as_mut()
                .poll(context)
                .map(|()| self.state.lock().ready(&self)),
            ready => ready,
        });
        Ok(ready.await as isize)
    }

    /// Takes the next submission, up to the one with number `end`.
    fn next(&self, end: u32) -> Option<Submission> {
        let mut state = self.state.lock();
        let number = state.submission_head;
        // Another thread may have taken submissions meanwhile, up to a later end.
        let has_room = state.calls.len() + state.kept.len() < MAX_PENDING;
        if has_room && matches!(end.wrapping_sub(number), 1..=MAX_ENTRIES_U32) {
            state.submission_head = number.wrapping_add(1);
            self.header()
                .submission_head
                .store(state.submission_head, Ordering::Release);
            return Some(self.submission(number));
        }
        None
    }

    /// Serves a submission now if that can be done without waiting, which keeps linked ones in order as well. Else leaves it to a
    /// coroutine, with all that is linked to it.
    fn serve(
        self: &Arc<Ring>,
        process: &Arc<Process>,
        first: Submission,
        end: u32,
    ) -> Result<(), BadAddress> {
        if let Some(result) = syscall::at_once(process, first.call as usize, arguments(&first)) {
            self.complete(process, &first, result?);
            return Ok(());
        }
        let mut rest = VecDeque::new();
        let mut last = first;
        while last.flags & LINK != 0
            && let Some(next) = self.next(end)
        {
            rest.push_back(next);
            last = next;
        }
        self.spawn(process, Chain { first, rest });
        Ok(())
    }

    fn spawn(self: &Arc<Ring>, process: &Arc<Process>, chain: Chain) {
        let first = chain.first;
        let level = priority(process.allowed(first.level));
        let number = {
            let mut state = self.state.lock();
            if state.closed {
                return;
            }
            state.calls.insert(None)
        };
        let under_way = UnderWay {
            ring: self.clone(),
            number,
        };
        let spawned = if heap::has_room() {
            hart::executor()
                .spawn(level, run(process.clone(), under_way, chain))
                .ok()
        } else {
            None
        };
        match spawned {
            Some(handle) => {
                if let Some(place) = self.state.lock().calls.get_mut(number) {
                    *place = Some(handle.remote());
                }
            }
            None => self.complete(process, &first, FAILED),
        }
    }

    /// Puts a result into the completion ring and wakes whoever waited for it.
    fn complete(&self, process: &Process, submission: &Submission, result: isize) {
        if submission.flags & SILENT != 0 {
            return;
        }
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        state.add(
            self,
            Completion {
                key: submission.key,
                result: result as i64,
            },
        );
        let ready = state.ready(self);
        let enough = ready >= state.wanted;
        if enough {
            state.wanted = u32::MAX;
        }
        drop(state);
        process.arrived(submission.level.min(63));
        if enough {
            self.completed.wake_all();
        }
    }

    /// How many calls have been accepted and not completed.
    pub(crate) fn under_way(&self) -> usize {
        self.state.lock().calls.len()
    }

    /// Cancels the calls under way: the process ends or runs another program. Nothing is written to the rings any more.
    pub(crate) fn cancel_all(&self) {
        let calls = {
            let mut state = self.state.lock();
            state.closed = true;
            core::mem::take(&mut state.calls)
        };
        for call in calls.iter().filter_map(|(_, call)| call.as_ref()) {
            call.cancel();
        }
    }
}

impl State {
    /// Moves completions that were kept back into the ring as far as there is room. Returns how many there are, kept ones
    /// included.
    fn ready(&mut self, ring: &Ring) -> u32 {
        while !self.kept.is_empty() && self.in_ring(ring) < ring.entries {
            if let Some(completion) = self.kept.pop_front() {
                self.publish(ring, completion);
            }
        }
        self.in_ring(ring) + self.kept.len() as u32
    }

    fn add(&mut self, ring: &Ring, completion: Completion) {
        if self.kept.is_empty() && self.in_ring(ring) < ring.entries {
            self.publish(ring, completion);
        } else {
            self.kept.push_back(completion);
        }
    }

    /// How many completions the program has not taken. A head that cannot be counts as a full ring.
    fn in_ring(&self, ring: &Ring) -> u32 {
        let head = ring.header().completion_head.load(Ordering::Acquire);
        self.completion_tail.wrapping_sub(head).min(ring.entries)
    }

    fn publish(&mut self, ring: &Ring, completion: Completion) {
        ring.write_completion(self.completion_tail, completion);
        self.completion_tail = self.completion_tail.wrapping_add(1);
        ring.header()
            .completion_tail
            .store(self.completion_tail, Ordering::Release);
    }
}

fn arguments(submission: &Submission) -> [usize; 3] {
    submission.arguments.map(|argument| argument as usize)
}

/// A call's place among those under way.
struct UnderWay {
    ring: Arc<Ring>,
    number: usize,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        // Not there any more when all were cancelled.
        self.ring.state.lock().calls.try_remove(self.number);
    }
}

/// The coroutine of calls that have to wait.
async fn run(process: Arc<Process>, under_way: UnderWay, mut chain: Chain) {
    loop {
        let submission = chain.first;
        let result = syscall::wait(
            &process,
            WaitMode::Block,
            submission.call as usize,
            arguments(&submission),
        )
        .await;
        match result {
            Ok(result) => under_way.ring.complete(&process, &submission, result),
            Err(bad) => return thread::fail_call(&process, submission.call, bad),
        }
        match chain.rest.pop_front() {
            Some(next) => chain.first = next,
            None => return,
        }
    }
}
