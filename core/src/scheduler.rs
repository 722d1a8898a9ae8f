//! The scheduler behind an [`Executor`](crate::Executor): ready queues, table of control blocks, inbox.
//!
//! Its owner is one thread or hart. The owner's part is made of `Cell`s; the inbox, the signals in each block and the
//! count of anchors are all that others touch. No method keeps a borrow across code of the user's, so a future, a
//! destructor or a waker may call back into the scheduler.

use core::cell::{Cell, UnsafeCell};
use core::ptr::{self, NonNull};
use core::task::{Context, Waker};

use crate::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
use crate::block::{BlockRef, Flags, NONE, State};
use crate::context::Entered;
use crate::executor::{Config, SpawnError, Step, SystemView};
use crate::id::CoroutineId;
use crate::link::Link;
use crate::notes::Notes;
use crate::policy::Chooser;
use crate::priority::{LEVELS, LevelCell, Levels, Priority};
use crate::published::Published;
use crate::storage::{Directory, Storage};
#[cfg(feature = "std")]
use crate::task::dispose;
use crate::task::{Panic, Stage, contain, isolate, resume};
use crate::timers::Timers;
use crate::waker;

/// See the module's documentation.
pub(crate) struct Scheduler {
    ready: Cell<Levels>,
    /// The first of `ready`, which changes less often than it is asked for.
    most_urgent: LevelCell,
    queues: [Queue; LEVELS],
    chooser: Chooser,
    current: Cell<Option<BlockRef>>,
    /// The level that is published as running.
    running: LevelCell,
    /// Coroutines that have not exited.
    live: Cell<usize>,
    /// First free slot; the others follow by `Block::next`.
    free: Cell<Link>,
    capacity: usize,
    /// Set when the executor is being dropped: nothing is spawned any more.
    closing: Cell<bool>,
    storage: UnsafeCell<Storage>,
    /// Where the storage's blocks are.
    directory: Cell<Directory>,
    /// Join handles that exist.
    handles: Cell<usize>,
    pub(crate) timers: Timers,
    #[cfg_attr(
        not(any(feature = "stats", feature = "hooks")),
        allow(dead_code, reason = "nothing is noted")
    )]
    pub(crate) notes: Notes,
    own_published: Published,
    /// The home's, or our own: set by [`place`](Self::place).
    published: Cell<*const Published>,
    notify: Option<Waker>,
    /// Last block pushed by anyone from outside, or [`NONE`]; the others follow by `Block::inbox_next`.
    inbox: AtomicU32,
    /// What keeps the table in memory: the executor, and each block with references that outlive it.
    anchors: AtomicUsize,
    /// Lets loom complain if the table is never freed, or twice.
    #[cfg(loom)]
    _freed_once: loom::alloc::Track<()>,
}

/// One level's ready queue. It has a tail if and only if the level's bit is set; without one the head means nothing, and
/// neither do the ends' outer links: so taking the head or adding a tail touches no third coroutine.
struct Queue {
    head: Cell<Link>,
    tail: Cell<Option<BlockRef>>,
}

impl Queue {
    const fn new() -> Self {
        Self {
            head: Cell::new(Link::NONE),
            tail: Cell::new(None),
        }
    }
}

impl Scheduler {
    pub(crate) fn new(config: Config, storage: Storage) -> Self {
        Self {
            ready: Cell::new(Levels::NONE),
            most_urgent: LevelCell::new(),
            queues: [const { Queue::new() }; LEVELS],
            chooser: Chooser::new(config.policy),
            current: Cell::new(None),
            running: LevelCell::new(),
            live: Cell::new(0),
            free: Cell::new(Link::NONE),
            capacity: config.capacity,
            closing: Cell::new(false),
            directory: Cell::new(storage.directory()),
            storage: UnsafeCell::new(storage),
            handles: Cell::new(0),
            timers: Timers::new(config.clock),
            notes: Notes::new(&config),
            own_published: Published::new(),
            published: Cell::new(config.published.map_or(ptr::null(), ptr::from_ref)),
            notify: config.notify,
            inbox: AtomicU32::new(NONE),
            anchors: AtomicUsize::new(1),
            #[cfg(loom)]
            _freed_once: loom::alloc::Track::new(()),
        }
    }

    /// Called once the scheduler is where it stays.
    pub(crate) fn place(&self) {
        if self.published.get().is_null() {
            self.published.set(&self.own_published);
        }
    }

    /// The scheduler of a block.
    #[inline]
    pub(crate) fn of<'a>(block: BlockRef) -> &'a Scheduler {
        // SAFETY: a scheduler lives as long as its blocks (the anchors see to that), and nobody has a `&mut` to it. The
        // lifetime is not longer than the use: the result is never stored.
        unsafe { block.scheduler().as_ref() }
    }

    /// For reading. No reference is kept while the storage grows.
    pub(crate) fn storage(&self) -> &Storage {
        // SAFETY: only the owner or, after it, whoever lets go of the last anchor calls this, and nothing grows meanwhile.
        unsafe { &*self.storage.get() }
    }

    pub(crate) fn published(&self) -> &Published {
        // SAFETY: `place` has made it point to the home's, which is `'static`, or to our own.
        unsafe { &*self.published.get() }
    }

    pub(crate) fn current(&self) -> Option<BlockRef> {
        self.current.get()
    }

    pub(crate) fn live(&self) -> usize {
        self.live.get()
    }

    pub(crate) fn ready(&self) -> Levels {
        self.ready.get()
    }
}

/// The ready queues: one intrusive FIFO per level, one bit per queue that is not empty (rules O1 to O4).
impl Scheduler {
    #[inline]
    fn block(&self, index: u32) -> BlockRef {
        // SAFETY: `index` came from one of the scheduler's own lists, and chunks live as long as the scheduler.
        unsafe { BlockRef::new(self.directory.get().block(index)) }
    }

    #[inline]
    fn follow(&self, link: Link) -> BlockRef {
        link.follow(|index| self.block(index))
    }

    #[inline]
    fn set_ready(&self, ready: Levels) {
        self.ready.set(ready);
        self.most_urgent.set(ready.most_urgent());
        self.published().set_ready(ready);
    }

    /// Publishes the level that runs, if it is another one than before.
    #[inline]
    fn show_running(&self, level: Option<Priority>) {
        if self.running.get() != level {
            self.running.set(level);
            self.published().set_running(level);
        }
    }

    /// *make ready*: to the tail of its level.
    #[inline]
    fn enqueue(&self, block: BlockRef) {
        let level = block.level();
        let queue = self.queue(level);
        block.state.set(State::Ready);
        if let Some(tail) = queue.tail.get() {
            block.previous.set(Link::to(tail));
            tail.next.set(Link::to(block));
        } else {
            queue.head.set(Link::to(block));
            self.set_ready(self.ready.get().with(level));
        }
        queue.tail.set(Some(block));
    }

    /// Takes the head of a level that is not empty.
    #[inline]
    fn dequeue_head(&self, level: Priority) -> BlockRef {
        let queue = self.queue(level);
        let block = self.follow(queue.head.get());
        if queue.tail.get() == Some(block) {
            queue.tail.set(None);
            self.set_ready(self.ready.get().without(level));
        } else {
            queue.head.set(block.next.get());
        }
        block
    }

    /// Takes a ready coroutine out of its queue, wherever in it it stands.
    fn dequeue(&self, block: BlockRef) {
        let level = block.level();
        let queue = self.queue(level);
        let is_head = queue.head.get() == Link::to(block);
        let is_tail = queue.tail.get() == Some(block);
        match (is_head, is_tail) {
            (true, true) => {
                queue.tail.set(None);
                self.set_ready(self.ready.get().without(level));
            }
            (true, false) => queue.head.set(block.next.get()),
            (false, true) => queue.tail.set(Some(self.follow(block.previous.get()))),
            (false, false) => {
                let (previous, next) = (block.previous.get(), block.next.get());
                self.follow(previous).next.set(next);
                self.follow(next).previous.set(previous);
            }
        }
    }

    #[inline]
    fn queue(&self, level: Priority) -> &Queue {
        &self.queues[usize::from(level.level()) % LEVELS]
    }

    /// The effective level changes, at once and in whatever state (rules R1 to R3).
    pub(crate) fn move_to_level(&self, block: BlockRef, level: Priority) {
        let from = block.level();
        match block.state.get() {
            State::Ready => {
                self.dequeue(block);
                block.set_level(level);
                self.enqueue(block);
            }
            State::Running => {
                block.set_level(level);
                if self.current.get() == Some(block) {
                    self.show_running(Some(level));
                }
            }
            State::Blocked | State::Exited => block.set_level(level),
        }
        self.note_reprioritized(block, from);
    }
}

/// The operations of the contract, for the owner.
impl Scheduler {
    /// The live coroutine with this identifier; `None` for a stale one (rule C2).
    pub(crate) fn find(&self, id: CoroutineId) -> Option<BlockRef> {
        // SAFETY: only the owner uses the storage.
        if id.index >= unsafe { (*self.storage.get()).slots() } {
            return None;
        }
        let block = self.block(id.index);
        (block.vtable.get().is_some() && block.generation.get() == id.generation).then_some(block)
    }

    /// *create*: a new coroutine, ready at the tail of its level.
    pub(crate) fn spawn<F: Future + 'static>(
        &self,
        priority: Priority,
        future: F,
    ) -> Result<BlockRef, SpawnError> {
        if self.closing.get() {
            return Err(SpawnError::Closed);
        }
        if self.live.get() >= self.capacity {
            return Err(SpawnError::TableFull);
        }
        let block = self.take_slot()?;
        // SAFETY: only the owner uses the storage.
        let memory = match unsafe { &*self.storage.get() }
            .allocate(Stage::<F>::VTABLE.layout, block.index())
        {
            Ok(memory) => memory,
            Err(error) => {
                self.give_slot(block);
                return Err(error);
            }
        };
        // SAFETY: the memory fits the layout of the stage, and nobody else knows of it.
        unsafe { memory.cast::<Stage<F>>().write(Stage::new(future)) };
        block.occupy(priority, memory, Stage::<F>::VTABLE);
        self.handles.set(self.handles.get() + 1);
        self.live.set(self.live.get() + 1);
        self.enqueue(block);
        self.note_spawned(block);
        Ok(block)
    }

    /// *wake* (rules W1 to W3).
    #[inline]
    pub(crate) fn wake(&self, block: BlockRef) {
        match block.state.get() {
            State::Blocked => {
                self.enqueue(block);
                self.note_woken(block);
            }
            State::Running => block.insert(Flags::WOKEN),
            State::Ready | State::Exited => {}
        }
    }

    pub(crate) fn reprioritize(&self, block: BlockRef, priority: Priority) -> bool {
        if block.state.get() == State::Exited {
            return false;
        }
        block.set_base(priority);
        self.refresh_level(block);
        true
    }

    /// *cancel* (rules X1 to X4).
    pub(crate) fn cancel(&self, block: BlockRef) -> bool {
        match block.state.get() {
            State::Running => {
                let first = !block.has(Flags::CANCELLED);
                block.insert(Flags::CANCELLED);
                return first;
            }
            State::Exited => return false,
            State::Ready => self.dequeue(block),
            State::Blocked => {}
        }
        self.drop_future(block);
        true
    }

    /// Picks and polls until `polls` reaches `limit`, no coroutine is ready, or something elsewhere is more urgent.
    pub(crate) fn run(&self, view: &impl SystemView, limit: u64) -> (Step, u64) {
        let _entered = Entered::new(self);
        let outer = self.current.get();
        let mut polls = 0;
        let last = loop {
            // Counted down in 32 bits, which is one register everywhere.
            let round = u32::try_from(limit - polls).unwrap_or(u32::MAX);
            let left = Cell::new(round);
            let last = loop {
                // One net for all polls rather than one for each: a panic is rare, a poll is not.
                match isolate(|| self.run_until_panic(view, &left)) {
                    Ok(last) => break last,
                    Err(panic) => self.poll_panicked(outer, panic),
                }
            };
            polls += u64::from(round - left.get());
            if last != Step::Ran || polls == limit {
                break last;
            }
        };
        self.show_running(None);
        (last, polls)
    }

    #[inline]
    fn run_until_panic(&self, view: &impl SystemView, left: &Cell<u32>) -> Step {
        while left.get() > 0 {
            // Rather than the inbox: whatever is pushed is announced next, and what was announced after the drain that took
            // it in must not stay announced while others run.
            if self.published().has_arrivals() {
                self.drain_inbox();
            }
            let Some(most_urgent) = self.most_urgent.get() else {
                return Step::Idle;
            };
            if view
                .most_urgent_elsewhere()
                .is_some_and(|elsewhere| elsewhere.is_more_urgent_than(most_urgent))
            {
                return Step::Elsewhere;
            }
            let level = self.chooser.choose(&self.ready, most_urgent);
            let block = self.dequeue_head(level);
            left.set(left.get() - 1);
            self.poll(block, level);
        }
        Step::Ran
    }

    /// *run* until the poll returns, then *yield*, *block* or *exit*.
    #[inline]
    fn poll(&self, block: BlockRef, level: Priority) {
        block.state.set(State::Running);
        self.show_running(Some(level));
        let outer = self.current.replace(Some(block));
        self.note_poll_started(block);
        let waker = waker::borrowed(block);
        // SAFETY: a coroutine that has not exited has a vtable, and its memory holds the future, which stays where it is.
        let polled = unsafe {
            let vtable = block.vtable.get().unwrap_unchecked();
            (vtable.poll)(&block, &mut Context::from_waker(&waker))
        };
        self.current.set(outer);
        self.note_poll_ended(block);
        if polled.is_ready() {
            self.exit(block, Flags::OUTPUT);
        } else if block.has(Flags::WOKEN.or(Flags::CANCELLED)) {
            if block.has(Flags::CANCELLED) {
                self.drop_future(block);
            } else {
                block.remove(Flags::WOKEN);
                self.enqueue(block);
                self.note_woken(block);
            }
        } else {
            block.state.set(State::Blocked);
        }
    }

    /// A panic came out of a poll, or out of what is not a coroutine's: the view, or the waker of someone who joined.
    #[cold]
    fn poll_panicked(&self, outer: Option<BlockRef>, panic: Panic) {
        match self.current.replace(outer) {
            Some(block) if Some(block) != outer => {
                self.note_poll_ended(block);
                if !block.has(Flags::FUTURE_GONE)
                    && let Some(vtable) = block.vtable.get()
                {
                    block.insert(Flags::FUTURE_GONE);
                    // SAFETY: the flag said that the future is there.
                    contain(|| unsafe { (vtable.drop_future)(block.memory.get()) });
                }
                self.exit_panicked(block, panic);
            }
            _ => resume(panic),
        }
    }

    /// Drops the future of a coroutine that is in no queue, and lets it exit.
    fn drop_future(&self, block: BlockRef) {
        // While the destructor runs, the coroutine counts as running and cancelled: a wake or a second cancel from there
        // changes nothing, and a handle that the future owned finds nothing to clean up yet.
        block.state.set(State::Running);
        block.insert(Flags::CANCELLED.or(Flags::FUTURE_GONE));
        if let Some(vtable) = block.vtable.get() {
            // SAFETY: the coroutine has not exited, so the future is there, and the flag keeps others from dropping it.
            match isolate(|| unsafe { (vtable.drop_future)(block.memory.get()) }) {
                Ok(()) => {
                    self.free_memory(block);
                    self.exit(block, Flags::default());
                }
                Err(panic) => self.exit_panicked(block, panic),
            }
        }
    }

    /// *exit*: the joiner is woken; without a handle the slot is free at once. `result` says what there is to take.
    fn exit(&self, block: BlockRef, result: Flags) {
        block.state.set(State::Exited);
        block.insert(result);
        self.live.set(self.live.get() - 1);
        self.note_exited(block, result);
        // Asked before anyone is woken: a waker that drops the handle discards the result by that.
        let handle = block.has(Flags::HANDLE);
        if block.waiters.get().is_some() {
            self.end_waiters(block);
        }
        if !handle {
            self.discard(block);
        }
    }

    fn exit_panicked(&self, block: BlockRef, panic: Panic) {
        self.free_memory(block);
        #[cfg(feature = "std")]
        block.memory.set(
            // The payload is a fat pointer; the block has room for a thin one.
            std::boxed::Box::into_raw(std::boxed::Box::new(panic)).cast(),
        );
        #[cfg(not(feature = "std"))]
        match panic {}
        #[cfg(feature = "std")]
        self.exit(block, Flags::PANIC);
    }
}

/// The table's slots.
impl Scheduler {
    fn take_slot(&self) -> Result<BlockRef, SpawnError> {
        if self.free.get() == Link::NONE {
            // SAFETY: only the owner uses the storage, and growing it calls nothing of ours.
            let grown = unsafe { (*self.storage.get()).grow(NonNull::from(self)) };
            // Even if it failed: the directory may have moved before memory ran out.
            self.directory.set(self.storage().directory());
            let (first, slots) = grown?;
            // Lowest index first, so that neighbours in the queue tend to be neighbours in memory.
            for index in (first..first + slots).rev() {
                self.push_free(self.block(index));
            }
        }
        let block = self.follow(self.free.get());
        self.free.set(block.next.get());
        Ok(block)
    }

    fn push_free(&self, block: BlockRef) {
        block.next.set(self.free.get());
        self.free.set(Link::to(block));
    }

    /// The coroutine is over and so is its handle: the identifier becomes stale, and the slot is used again as soon as
    /// no waker refers to it.
    fn give_slot(&self, block: BlockRef) {
        block.vtable.set(None);
        let generation = block.generation.get();
        if generation == u32::MAX {
            // Four thousand million coroutines have lived here. Another one would bear the name of the first.
            return;
        }
        block.generation.set(generation + 1);
        if block.signals.retire() {
            self.push_free(block);
        }
    }

    /// The handle of `block` is gone, with the output or without it.
    pub(crate) fn release_handle(block: BlockRef) {
        let scheduler = block.scheduler();
        let this = Self::of(block);
        block.remove(Flags::HANDLE);
        if block.state.get() == State::Exited {
            this.discard(block);
        }
        this.handles.set(this.handles.get() - 1);
        if this.closing.get() && this.handles.get() == 0 {
            Self::unanchor(scheduler);
        }
    }

    /// Nobody asks for the result of an exited coroutine any more.
    fn discard(&self, block: BlockRef) {
        if block.has(Flags::OUTPUT)
            && let Some(vtable) = block.vtable.get()
        {
            // SAFETY: the flag says that the output is there, and it is dropped once.
            contain(|| unsafe { (vtable.drop_output)(block.memory.get()) });
            self.free_memory(block);
        }
        #[cfg(feature = "std")]
        if block.has(Flags::PANIC) {
            dispose(self.take_panic(block));
        }
        self.give_slot(block);
    }

    /// What the coroutine's panic carried, once.
    #[cfg(feature = "std")]
    pub(crate) fn take_panic(&self, block: BlockRef) -> Panic {
        block.remove(Flags::PANIC);
        let memory = block.memory.replace(core::ptr::null_mut());
        // SAFETY: `exit_panicked` made the box, and the flag said that it is still there.
        *unsafe { std::boxed::Box::from_raw(memory.cast::<Panic>()) }
    }

    /// The output of a finished coroutine, once.
    ///
    /// # Safety
    /// `T` is the output's type, and the flag `OUTPUT` is set.
    pub(crate) unsafe fn take_output<T>(&self, block: BlockRef) -> T {
        block.remove(Flags::OUTPUT);
        // SAFETY: the caller's promise; the memory counts as empty from here on.
        let output = unsafe { block.memory.get().cast::<T>().read() };
        self.free_memory(block);
        output
    }

    fn free_memory(&self, block: BlockRef) {
        if let Some(vtable) = block.vtable.get() {
            let memory = block.memory.replace(core::ptr::null_mut());
            // SAFETY: only the owner uses the storage, which allocated this memory with this layout, and whoever calls has
            // moved or dropped what was in it.
            unsafe { (*self.storage.get()).free(memory, vtable.layout) };
        }
    }
}

/// What others do to a scheduler: push blocks, and keep it in memory.
impl Scheduler {
    /// Pushes a block whose `QUEUED` signal the caller has set, and tells the home if it may be asleep.
    pub(crate) fn push_inbox(&self, block: BlockRef) {
        let index = block.index();
        let mut last = self.inbox.load(Ordering::Relaxed);
        loop {
            block.inbox_next.store(last, Ordering::Relaxed);
            // Release: the owner sees the link above. What was done before the wake is ordered by the signals.
            match self.inbox.compare_exchange_weak(
                last,
                index,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => last = now,
            }
        }
        // After the push: an announcement that the owner clears is followed by a drain that takes the block in.
        self.published().announce(block.level());
        if block.signals.is_closed() {
            // Nobody will take it in. Whichever of this and `close` comes second takes the announcement back.
            self.published().clear_arriving();
        }
        if let Some(notify) = &self.notify {
            notify.wake_by_ref();
        }
    }

    /// Takes in everything that was pushed, oldest first.
    #[cold]
    pub(crate) fn drain_inbox(&self) {
        self.published().clear_arriving();
        let mut last = self.inbox.swap(NONE, Ordering::Acquire);
        let mut oldest = NONE;
        while last != NONE {
            let block = self.block(last);
            let before = block.inbox_next.load(Ordering::Relaxed);
            block.inbox_next.store(oldest, Ordering::Relaxed);
            oldest = last;
            last = before;
        }
        while oldest != NONE {
            let block = self.block(oldest);
            // Read before the signals are taken: from then on others may push the block again.
            oldest = block.inbox_next.load(Ordering::Relaxed);
            self.apply_signals(block);
        }
    }

    fn apply_signals(&self, block: BlockRef) {
        let taken = block.signals.take();
        if block.vtable.get().is_some() {
            if let Some(priority) = taken.priority {
                self.reprioritize(block, priority);
            }
            if taken.cancel {
                self.cancel(block);
            } else if taken.wake {
                self.wake(block);
            }
        } else if taken.reclaim {
            self.push_free(block);
        }
    }

    pub(crate) fn anchor(&self) {
        self.anchors.fetch_add(1, Ordering::Relaxed);
    }

    /// Lets go of one anchor; the last one frees the table.
    pub(crate) fn unanchor(scheduler: NonNull<Scheduler>) {
        // SAFETY: the caller's anchor has kept the scheduler until now.
        let last = unsafe { scheduler.as_ref() }
            .anchors
            .fetch_sub(1, Ordering::Release)
            == 1;
        if last {
            fence(Ordering::Acquire);
            // SAFETY: nobody else refers to the scheduler or its blocks any more.
            unsafe { Storage::destroy(scheduler) };
        }
    }

    /// The executor is dropped: every future is dropped, and the table goes when nothing refers to it any more.
    pub(crate) fn close(scheduler: NonNull<Scheduler>) {
        // SAFETY: the executor's anchor keeps the scheduler until `unanchor` below.
        let this = unsafe { scheduler.as_ref() };
        this.closing.set(true);
        // Before any destructor runs: one that drops the last handle lets go of this anchor.
        if this.handles.get() > 0 {
            this.anchor();
        }
        {
            let _entered = Entered::new(scheduler.as_ptr());
            this.drain_inbox();
            // SAFETY: only the owner uses the storage; it does not grow any more.
            let slots = unsafe { (*this.storage.get()).slots() };
            for index in 0..slots {
                let block = this.block(index);
                if block.vtable.get().is_some() {
                    this.cancel(block);
                }
            }
            this.timers.abandon();
            for index in 0..slots {
                let block = this.block(index);
                this.end_waiters(block);
                this.anchor();
                if !block.signals.close() {
                    // Not the last one: the executor's own comes last.
                    this.anchors.fetch_sub(1, Ordering::Relaxed);
                }
            }
            this.published().set_ready(Levels::NONE);
            this.show_running(None);
            this.published().clear_arriving();
        }
        Self::unanchor(scheduler);
    }
}
