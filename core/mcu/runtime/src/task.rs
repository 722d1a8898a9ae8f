//! A task: its header, and the static memory that holds it with its future.
//!
//! ```text
//!        claim           spawn           finish, cancel         the handle is gone
//! Free ───────► Claimed ───────► Queued ────────────────► Exited ─────────────────► Free
//!                                 ▲  │ ▲                                              ▲
//!                            wake │  │ block                  without a handle ───────┘
//!                                 Blocked
//! ```
//!
//! The running task stays linked at the head of its level (rule O4), so *running* is *queued* and
//! `current` of its executor.

use core::cell::{Cell, UnsafeCell};
use core::mem::{ManuallyDrop, MaybeUninit};
use core::pin::Pin;
use core::ptr::{self, NonNull};
use core::task::{Context, Poll};

use corank::{Priority, SpawnError};

use crate::scheduler::Scheduler;
use crate::token::Token;
use crate::waiter::Waiter;
use crate::{critical, waker};

/// The header of a task: six words.
///
/// All zeros is a free one, so that tasks take no flash. Everything is touched with interrupts
/// masked, except by [`TaskStorage`]'s owner before it is spawned.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) next: Cell<*const Header>,
    pub(crate) previous: Cell<*const Header>,
    pub(crate) executor: Cell<*const Scheduler>,
    pub(crate) operations: Cell<Option<&'static Operations>>,
    /// The waits that the task takes part in, on either side.
    pub(crate) waiters: Cell<*const Waiter>,
    pub(crate) phase: Cell<Phase>,
    pub(crate) base: Cell<u8>,
    pub(crate) level: Cell<u8>,
    pub(crate) generation: Cell<u8>,
}

#[cfg(target_pointer_width = "32")]
const _: () = assert!(size_of::<Header>() == 24);

/// What a task is doing, in the low three bits, and what is true of it beside that.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Phase(u8);

impl Phase {
    pub(crate) const FREE: Self = Self(0);
    pub(crate) const CLAIMED: Self = Self(1);
    pub(crate) const QUEUED: Self = Self(2);
    pub(crate) const BLOCKED: Self = Self(3);
    pub(crate) const EXITED: Self = Self(4);
    const MASK: u8 = 7;

    /// A handle exists.
    pub(crate) const HELD: u8 = 0x10;
    /// The output is in the task's memory.
    pub(crate) const OUTPUT: u8 = 0x20;
    /// It has exited and nothing of it is left but an output and a handle.
    pub(crate) const RETIRED: u8 = 0x80;
    /// It was cancelled from where its executor does not run.
    pub(crate) const STOPPED: u8 = 0x40;

    pub(crate) fn is(self, phase: Self) -> bool {
        self.0 & Self::MASK == phase.0
    }

    pub(crate) fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    #[must_use]
    pub(crate) fn with(self, flag: u8) -> Self {
        Self(self.0 | flag)
    }

    #[must_use]
    pub(crate) fn without(self, flag: u8) -> Self {
        Self(self.0 & !flag)
    }
}

/// What the executor does with a future whose type it does not know.
pub(crate) struct Operations {
    /// Polls once. A future that finishes is dropped, its output is in its place if a handle
    /// exists, and the task has exited.
    pub(crate) poll: unsafe fn(*const Header),
    /// Drops the output, or the future.
    pub(crate) drop: unsafe fn(*const Header, output: bool),
    /// Returns where the output is.
    pub(crate) output: unsafe fn(*const Header) -> *mut (),
}

impl Header {
    const fn free() -> Self {
        Self {
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
            executor: Cell::new(ptr::null()),
            operations: Cell::new(None),
            waiters: Cell::new(ptr::null()),
            phase: Cell::new(Phase::FREE),
            base: Cell::new(0),
            level: Cell::new(0),
            generation: Cell::new(0),
        }
    }

    /// Changes what the task is doing, and keeps what is true beside that.
    pub(crate) fn go(&self, phase: Phase) {
        let flags = self.phase.get().0 & !Phase::MASK;
        self.phase.set(Phase(phase.0 | flags));
    }

    pub(crate) fn is(&self, phase: Phase) -> bool {
        self.phase.get().is(phase)
    }

    /// Leaves a task that has exited to its handle, or frees it. Requires masked interrupts.
    ///
    /// Returns true if an output is left without a handle: the caller drops it.
    pub(crate) fn retire(&self) -> bool {
        let phase = self.phase.get();
        let held = phase.has(Phase::HELD);
        let left = !held && phase.has(Phase::OUTPUT);
        if held {
            self.phase.set(phase.with(Phase::RETIRED));
        } else if !left {
            self.phase.set(Phase::FREE);
        }
        left
    }

    /// Returns the executor of a task that was spawned.
    #[inline]
    pub(crate) fn scheduler(&self) -> &Scheduler {
        // SAFETY: a spawned task has one, and executors are static.
        unsafe { &*self.executor.get() }
    }

    pub(crate) fn operations(&self) -> &'static Operations {
        // SAFETY: they are set before the task is spawned, and stay.
        unsafe { self.operations.get().unwrap_unchecked() }
    }

    pub(crate) fn priority(&self) -> Priority {
        Priority::new(self.level.get()).unwrap_or(Priority::LEAST_URGENT)
    }
}

/// The identifier of a task: its memory and a generation (rule C2).
///
/// A stale one is refused. The generation has 8 bits, so that an identifier repeats after 256 tasks
/// in the same memory (rule C4).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CoroutineId {
    task: NonNull<Header>,
    generation: u8,
}

impl core::fmt::Debug for CoroutineId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "CoroutineId({:p}, {})", self.task, self.generation)
    }
}

// SAFETY: the memory is static, and touched with interrupts masked.
unsafe impl Send for CoroutineId {}
// SAFETY: as above.
unsafe impl Sync for CoroutineId {}

impl CoroutineId {
    /// Returns the identifier of a living task. Requires masked interrupts.
    pub(crate) fn of(task: &Header) -> Self {
        Self {
            task: NonNull::from(task),
            generation: task.generation.get(),
        }
    }

    /// Returns the task, unless it has exited. Requires masked interrupts.
    pub(crate) fn find<'a>(self) -> Option<&'a Header> {
        // SAFETY: tasks are static.
        let task = unsafe { self.task.as_ref() };
        let lives = task.is(Phase::QUEUED) || task.is(Phase::BLOCKED);
        (lives && task.generation.get() == self.generation).then_some(task)
    }
}

/// The future of a task or, after it has finished, its output.
#[repr(C)]
union Value<F: Future> {
    future: ManuallyDrop<F>,
    output: ManuallyDrop<F::Output>,
}

/// Static memory for one task with a future of this type.
///
/// The attribute [`task`](crate::task) makes it, and so rarely needs to be named. By hand it is
/// useful for memory that comes from elsewhere, such as a leaked box.
#[repr(C)]
pub struct TaskStorage<F: Future + 'static> {
    header: Header,
    value: UnsafeCell<MaybeUninit<Value<F>>>,
}

// SAFETY: see `Header`. The future is touched by its executor alone, which asks for a `Send` future
// where it is spawned from elsewhere.
unsafe impl<F: Future + 'static> Sync for TaskStorage<F> {}

impl<F: Future + 'static> Default for TaskStorage<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: Future + 'static> core::fmt::Debug for TaskStorage<F> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TaskStorage").finish_non_exhaustive()
    }
}

impl<F: Future + 'static> TaskStorage<F> {
    const OPERATIONS: Operations = Operations {
        poll: Self::poll,
        drop: Self::drop_value,
        output: Self::output,
    };

    /// Creates free memory: zeros.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            header: Header::free(),
            value: UnsafeCell::new(MaybeUninit::zeroed()),
        }
    }

    /// Takes the memory for the future that `make` returns, at the default level.
    ///
    /// # Errors
    /// [`SpawnError::TableFull`] if a task has the memory, or a handle or a token that is left of
    /// one. Then `make` is not called.
    pub fn claim(&'static self, make: impl FnOnce() -> F) -> Result<Token<F>, SpawnError> {
        if !self.reserve() {
            return Err(SpawnError::TableFull);
        }
        Ok(self.fill(make))
    }

    /// Takes the memory if it is free.
    pub(crate) fn reserve(&self) -> bool {
        critical(|| {
            let free = self.header.phase.get() == Phase::FREE;
            if free {
                self.header.phase.set(Phase::CLAIMED);
            }
            free
        })
    }

    /// Makes the future in memory that the caller has reserved.
    pub(crate) fn fill(&'static self, make: impl FnOnce() -> F) -> Token<F> {
        // SAFETY: the memory belongs to this call since it was reserved.
        unsafe {
            (*self.value.get()).write(Value {
                future: ManuallyDrop::new(make()),
            })
        };
        self.header.operations.set(Some(&Self::OPERATIONS));
        self.header.base.set(Priority::DEFAULT.level());
        Token::new(&self.header)
    }

    /// The waker is made here, so that the compiler sees what it does.
    ///
    /// # Safety
    /// The task is of this type and the running one, and its future is there.
    unsafe fn poll(task: *const Header) {
        // SAFETY: the header is the first field of the storage, by which the task is known.
        let this = unsafe { &*task.cast::<Self>() };
        let value = this.value.get().cast::<Value<F>>();
        // SAFETY: the pointer reaches the whole of the storage.
        let waker = unsafe { waker::borrowed(task) };
        let mut cx = Context::from_waker(&waker);
        // SAFETY: the future is there, and it is never moved.
        let polled = unsafe { Pin::new_unchecked(&mut *(*value).future) }.poll(&mut cx);
        if let Poll::Ready(output) = polled {
            // SAFETY: the caller's promise.
            unsafe { this.finish(value, output) };
        }
    }

    /// # Safety
    /// The future is there and has returned this output.
    #[cold]
    #[inline(never)]
    unsafe fn finish(&self, value: *mut Value<F>, output: F::Output) {
        // SAFETY: it is not polled again.
        unsafe { ManuallyDrop::drop(&mut (*value).future) };
        let phase = &self.header.phase;
        let kept = critical(|| {
            let kept = phase.get().has(Phase::HELD);
            if kept {
                phase.set(phase.get().with(Phase::OUTPUT));
            }
            kept
        });
        if kept {
            // SAFETY: the future is gone, and nothing reads the output before the task has exited.
            unsafe {
                value.write(Value {
                    output: ManuallyDrop::new(output),
                })
            };
        }
        self.header.scheduler().finish(&self.header);
    }

    /// # Safety
    /// The task is of this type, what is dropped is there, and nothing else refers to it.
    unsafe fn drop_value(task: *const Header, output: bool) {
        // SAFETY: as in `poll`.
        let this = unsafe { &*task.cast::<Self>() };
        let value = this.value.get().cast::<Value<F>>();
        // SAFETY: the caller's promise.
        unsafe {
            if output {
                ManuallyDrop::drop(&mut (*value).output);
            } else {
                ManuallyDrop::drop(&mut (*value).future);
            }
        }
    }

    /// # Safety
    /// The task is of this type.
    unsafe fn output(task: *const Header) -> *mut () {
        // SAFETY: as in `poll`.
        let this = unsafe { &*task.cast::<Self>() };
        this.value.get().cast()
    }
}
