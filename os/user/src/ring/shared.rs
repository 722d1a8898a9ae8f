//! The rings themselves. What is known of each call lies in its node: see [`super::node`].
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicU32, Ordering};

use corank::Priority;
use corank_abi::call::{
    CLOSE, RING_CANCEL, RING_CANCELLED, RING_ENTER, RING_REPRIORITIZE, RING_SETUP,
};
use corank_abi::ring::{CLOSE_FILE, Completion, LINK, RingHeader, SILENT, SUBMISSIONS, Submission};

use super::backlog::{Backlog, Entry};
use super::call::{Ended, Request};
use super::node::{Node, Pool};
use crate::local;
use crate::raw::{Error, number_call};

/// Entries of each ring.
///
/// With more entries more coroutines share one kernel entry. With so many, entering is rare beside
/// what it serves, and the rings lie in one page. Each page that is touched between two kernel
/// entries costs a miss in the translation buffer.
pub const ENTRIES: u32 = 64;

const _: () = {
    let entry = size_of::<Submission>() + size_of::<Completion>();
    assert!(SUBMISSIONS + ENTRIES as usize * entry <= crate::page::PAGE_SIZE);
};

/// How many rings this process and those that it was forked from have set up.
static EPOCHS: AtomicU32 = AtomicU32::new(0);

/// Bytes that a repeated call works on each time: two descriptors.
pub(super) const STRIDE: usize = size_of::<[usize; 2]>();

/// Number of a call that does nothing: the kernel knows none with this number.
const NOTHING: u32 = 0;

/// Returns the key by which the kernel knows a call that the program has named.
///
/// Other keys are addresses, which are even.
const fn wire_key(key: u64) -> u64 {
    key << 1 | 1
}

const fn is_named(key: u64) -> bool {
    key & 1 != 0
}

/// A thread's rings.
///
/// They exist until it ends.
#[derive(Debug)]
pub(crate) struct Ring {
    header: &'static RingHeader,
    /// Tells these rings from those of the process that this one was forked from.
    epoch: u32,
    submissions: *mut Submission,
    completions: *const Completion,
    /// Our copies of the two counters that only we write.
    submission_tail: Cell<u32>,
    completion_head: Cell<u32>,
    /// Levels of the submissions that the kernel hasn't taken yet.
    queued_levels: Cell<u64>,
    /// Calls that the kernel will complete.
    under_way: Cell<usize>,
    /// What the rings have no room for.
    backlog: Backlog,
    nodes: Pool,
    /// The nodes of calls that the program has named, by the kernel's keys.
    named: RefCell<BTreeMap<u64, &'static Node>>,
}

impl Ring {
    /// Returns the calling thread's rings.
    ///
    /// An executor sets them up when it starts.
    ///
    /// # Panics
    /// If too many other threads of the process have some, or the kernel has no memory for them.
    #[inline]
    pub(crate) fn here() -> &'static Self {
        if let Some(ring) = local::block().ring.get() {
            return ring;
        }
        Self::try_here().expect(
            "asynchronous calls, and executors that wait, need rings: eight threads of a process at most have some at a time, and the kernel needs memory for them",
        )
    }

    /// Returns the rings as [`here`](Self::here) does, if they can be had.
    ///
    /// Sets them up the first time, with one kernel entry.
    pub(crate) fn try_here() -> Option<&'static Self> {
        let slot = &local::block().ring;
        if slot.get().is_none() {
            slot.set(Self::set_up().ok());
        }
        slot.get()
    }

    fn set_up() -> Result<&'static Self, Error> {
        local::block().become_worker();
        let address = number_call(RING_SETUP, [ENTRIES as usize, 0, 0])?;
        let header: *const RingHeader = core::ptr::with_exposed_provenance(address);
        let submissions: *mut Submission =
            core::ptr::with_exposed_provenance_mut(address + SUBMISSIONS);
        let completions = address + SUBMISSIONS + ENTRIES as usize * size_of::<Submission>();
        // SAFETY: the kernel has mapped the rings there, for as long as the thread lives; all
        // fields are atomic or never change.
        let header = unsafe { &*header };
        let ring = Box::into_raw(Box::new(Self {
            header,
            epoch: EPOCHS.fetch_add(1, Ordering::Relaxed),
            submissions,
            completions: core::ptr::with_exposed_provenance(completions),
            submission_tail: Cell::new(header.submission_tail.load(Ordering::Relaxed)),
            completion_head: Cell::new(header.completion_head.load(Ordering::Relaxed)),
            queued_levels: Cell::new(0),
            under_way: Cell::new(0),
            backlog: Backlog::default(),
            nodes: Pool::new(),
            named: RefCell::new(BTreeMap::new()),
        }));
        // `leave` makes a box of its address again.
        let _ = ring.expose_provenance();
        // SAFETY: it stays until then, the last that the thread does.
        Ok(unsafe { &*ring })
    }

    /// Releases the rings of the calling thread, which ends.
    ///
    /// No executor runs there any more.
    pub(crate) fn leave() {
        if let Some(ring) = local::block().ring.take() {
            let ring = core::ptr::with_exposed_provenance_mut(core::ptr::from_ref(ring).addr());
            // SAFETY: `set_up` has made it, and nothing else has it: not another thread, and no
            // executor here.
            drop(unsafe { Box::<Self>::from_raw(ring) });
        }
    }

    /// Tests whether the kernel has work left, or a completion of it is still to come.
    pub(crate) fn busy(&self) -> bool {
        self.queued_levels.get() != 0 || self.under_way.get() != 0
    }

    /// Returns how many calls are not over.
    pub(super) fn not_over(&self) -> usize {
        self.nodes.taken()
    }

    /// Returns the levels of the coroutines with submissions that the kernel hasn't seen yet, one
    /// bit each.
    #[inline]
    pub(crate) fn queued_levels(&self) -> u64 {
        self.queued_levels.get()
    }

    /// Tests whether something waits for a kernel entry.
    ///
    /// That includes what the kernel has not taken at the last entry. No levels are queued for it,
    /// so that a coroutine that is as urgent need not stop for it.
    #[inline]
    pub(crate) fn wants_entry(&self) -> bool {
        self.in_ring() != 0 || !self.backlog.is_empty()
    }

    /// Returns the number of the last submission, which moves when something is submitted.
    #[inline]
    pub(crate) fn submitted(&self) -> u32 {
        self.submission_tail.get()
    }

    /// Tests whether `count` submissions fit, after a kernel entry if they don't before.
    ///
    /// They don't if the kernel takes no more: it has as many calls of this process as it may.
    #[inline]
    fn make_room(&self, count: u32) -> bool {
        self.has_room(count) || {
            self.enter(0, 0);
            self.has_room(count)
        }
    }

    #[inline]
    fn has_room(&self, count: u32) -> bool {
        self.in_ring() + count <= ENTRIES
    }

    /// Returns how many submissions the kernel has not taken from the ring.
    #[inline]
    fn in_ring(&self) -> u32 {
        self.header.submissions().used(self.submission_tail.get())
    }

    /// Submits the entry, or keeps it until there is room.
    ///
    /// It is kept behind what is kept already, so that changes of a call's level keep their order.
    #[inline]
    fn push_or_keep(&self, entry: Entry) {
        if self.backlog.is_empty() && self.make_room(entry.times) {
            self.push_all(entry);
        } else {
            self.backlog.keep(entry);
        }
    }

    /// Writes what belongs to one call.
    ///
    /// There must be room.
    #[inline]
    fn push_all(&self, entry: Entry) {
        let Entry {
            mut request,
            times,
            flags,
            key,
            level,
            node,
        } = entry;
        for _ in 1..times {
            self.push(request, 0, LINK | SILENT, level);
            request.arguments[0] += STRIDE;
        }
        let number = self.push(request, key, flags, level);
        if let Some(node) = node {
            node.number.set(number);
        }
    }

    /// Writes one entry for the kernel.
    ///
    /// There must be room.
    fn push(&self, request: Request, key: u64, flags: u8, level: Priority) -> u32 {
        let tail = self.submission_tail.get();
        let submission = Submission {
            key,
            call: request.call,
            level: level.level(),
            flags,
            reserved: 0,
            arguments: request.arguments.map(|argument| argument as u64),
        };
        // SAFETY: the place is inside the ring, and the kernel doesn't read it before the tail has
        // moved past it.
        unsafe {
            self.submissions
                .add((tail % ENTRIES) as usize)
                .write(submission)
        };
        self.submission_tail
            .set(self.header.submissions().publish(tail));
        self.queued_levels
            .set(self.queued_levels.get() | 1 << level.level());
        tail
    }

    /// Returns a node for a call that is to be submitted, under its own address as key or one of
    /// the program's; `None` if another call has that key.
    #[inline]
    pub(super) fn node(&self, name: Option<u64>) -> Option<&'static Node> {
        match name {
            None => Some(self.nodes.take(self.epoch)),
            Some(name) => self.named_node(wire_key(name)),
        }
    }

    fn named_node(&self, key: u64) -> Option<&'static Node> {
        let mut named = self.named.borrow_mut();
        if named.contains_key(&key) {
            return None;
        }
        let node = self.nodes.take(self.epoch);
        node.key.set(key);
        named.insert(key, node);
        Some(node)
    }

    /// Returns the rings that a node belongs to, if they are still those of this process.
    #[inline]
    pub(super) fn of(node: &Node) -> Option<&'static Self> {
        let ring = local::block().ring.get()?;
        (node.epoch() == ring.epoch).then_some(ring)
    }

    /// Releases the node of a call that is over and not used any more.
    #[inline]
    pub(super) fn forget(&self, node: &'static Node) {
        let key = node.key.get();
        if is_named(key) {
            self.named.borrow_mut().remove(&key);
        }
        self.nodes.give(node);
    }

    /// Submits the call of a node: `times` times, each with memory of its own.
    ///
    /// It may take its file along.
    pub(super) fn submit(&self, node: &'static Node, request: Request, times: u32, closes: bool) {
        let level = node.live_level();
        node.level.set(level);
        self.under_way.set(self.under_way.get() + 1);
        self.push_or_keep(Entry {
            request,
            times,
            flags: if closes { CLOSE_FILE } else { 0 },
            key: node.key.get(),
            level,
            node: Some(node),
        });
    }

    /// Submits a call with a result that is not wanted.
    pub(super) fn submit_silent(&self, request: Request) {
        let level = crate::page::here().running.load(Ordering::Relaxed);
        let level = Priority::new(level.trailing_zeros() as u8).unwrap_or_default();
        self.push_or_keep(Entry::silent(request, level));
    }

    /// Returns the entry of a node in the submission ring, if the kernel hasn't taken it.
    ///
    /// The kernel takes entries only when we enter it, so until then they are ours to change.
    fn entry(&self, number: u32) -> Option<*mut Submission> {
        let taken = self.header.submission_head.load(Ordering::Acquire);
        let queued = (number.wrapping_sub(taken) as i32) >= 0;
        // SAFETY: the place is inside the ring.
        queued.then(|| unsafe { self.submissions.add((number % ENTRIES) as usize) })
    }

    /// Withdraws a call: from the submission ring if it is still there, else from the kernel.
    ///
    /// When this returns, the kernel doesn't touch the call's memory any more.
    pub(super) fn withdraw(&self, node: &Node, times: u32) -> Ended {
        if let Some(entry) = self.backlog.take(node) {
            self.under_way.set(self.under_way.get() - 1);
            if entry.flags & CLOSE_FILE != 0 {
                self.submit_silent(request_to_close(entry.request.arguments[0]));
            }
            return Ended::Unseen;
        }
        let number = node.number.get();
        if self.entry(number).is_some() {
            self.under_way.set(self.under_way.get() - 1);
            // A file that it would have taken along is closed nevertheless.
            for earlier in 0..times {
                if let Some(entry) = self.entry(number.wrapping_sub(earlier)) {
                    // SAFETY: between head and tail, and the kernel isn't looking (see `entry`).
                    unsafe {
                        let closes = (*entry).flags & CLOSE_FILE != 0;
                        (*entry).call = if closes { CLOSE as u32 } else { NOTHING };
                        (*entry).flags |= SILENT;
                    }
                }
            }
            return Ended::Unseen;
        }
        let cancelled = number_call(RING_CANCEL, [node.key.get() as usize, 0, 0]);
        if cancelled == Ok(RING_CANCELLED as usize) {
            self.under_way.set(self.under_way.get() - 1);
            return Ended::Cancelled;
        }
        // Its completion is in the ring, or kept by the kernel until there is room.
        loop {
            self.take_completions();
            if let Some(result) = node.result() {
                return Ended::Completed(result);
            }
            self.enter(0, u64::MAX);
        }
    }

    /// Tells the kernel that the waiter of a call has another level.
    ///
    /// A more urgent level goes to the kernel at once, with a kernel entry. A less urgent one goes
    /// with the next entry, because until then no coroutine waits longer by it than it would have
    /// anyway.
    pub(super) fn follow(&self, node: &Node, level: Priority) {
        let before = node.level.replace(level);
        if node.result().is_some() || before == level || self.backlog.follow(node, level) {
            return;
        }
        if let Some(entry) = self.entry(node.number.get()) {
            // SAFETY: as in `withdraw`.
            unsafe { (*entry).level = level.level() };
            self.queued_levels
                .set(self.queued_levels.get() | 1 << level.level());
            return;
        }
        let request = Request {
            call: RING_REPRIORITIZE as u32,
            arguments: [node.key.get() as usize, level.level().into(), 0],
        };
        // Through the ring in both cases, so that changes keep their order.
        self.push_or_keep(Entry::silent(request, level));
        if level.is_more_urgent_than(before) {
            self.enter(0, u64::MAX);
        }
    }

    /// Enters the kernel: it serves every submission and returns when `wait_for` completions are
    /// ready or `deadline` (in ticks) has passed.
    pub(crate) fn enter(&self, wait_for: usize, deadline: u64) {
        if !self.backlog.is_empty() {
            self.hand_over_backlog();
        }
        self.enter_once(wait_for, deadline);
    }

    /// Hands over what is kept as far as the kernel takes it.
    ///
    /// It is called before each entry, because that may wait.
    #[cold]
    fn hand_over_backlog(&self) {
        loop {
            self.enter_once(0, 0);
            let mut has_moved = false;
            while let Some(entry) = self.backlog.next(|entry| self.has_room(entry.times)) {
                self.push_all(entry);
                has_moved = true;
            }
            if !has_moved {
                return;
            }
        }
    }

    fn enter_once(&self, wait_for: usize, deadline: u64) {
        self.header.deadline.store(deadline, Ordering::Release);
        self.queued_levels.set(0);
        number_call(RING_ENTER, [wait_for, 0, 0]).expect("the rings are set up");
    }

    /// Tests whether the kernel has completed anything that hasn't been collected.
    #[inline]
    pub(crate) fn has_completions(&self) -> bool {
        self.header.has_completions(self.completion_head.get())
    }

    /// Collects what the kernel has completed, and wakes the coroutines that wait for it.
    ///
    /// The executor clears the process page's `arriving` levels when it runs next.
    #[inline(always)]
    pub(crate) fn take_completions(&self) {
        let ring = self.header.completions();
        loop {
            while ring.available(self.completion_head.get()) != 0 {
                let head = self.completion_head.get();
                // SAFETY: inside the ring, and the kernel has written it before it moved the tail.
                let completion = unsafe { self.completions.add((head % ENTRIES) as usize).read() };
                self.completion_head.set(ring.take(head));
                self.complete(completion);
            }
            if self.header.kept.load(Ordering::Acquire) == 0 {
                return;
            }
            self.fetch_kept();
        }
    }

    /// Has the kernel fill the completion ring with what it has kept while that was full.
    #[cold]
    fn fetch_kept(&self) {
        self.enter(0, u64::MAX);
    }

    #[inline]
    fn complete(&self, completion: Completion) {
        let Completion { key, result } = completion;
        let node = if is_named(key) {
            let Some(node) = self.named.borrow().get(&key).copied() else {
                return;
            };
            node
        } else {
            // SAFETY: what the kernel completes was submitted under the address of a node.
            unsafe { Node::at(key as usize) }
        };
        self.under_way.set(self.under_way.get() - 1);
        node.complete(result as isize);
    }
}

/// Closes a descriptor.
pub(super) fn request_to_close(file: usize) -> Request {
    Request {
        call: CLOSE as u32,
        arguments: [file, 0, 0],
    }
}
