//! The rings themselves, and the table of calls that are under way.
//!
//! ```text
//!           submit                       the kernel completes it                poll
//!  (new) ──────────▶ Waiting(waker) ────────────────────────────▶ Done(result) ──────▶ (gone)
//!                        │ future dropped                                               ▲
//!                        │   entry not taken yet: it becomes a call that does nothing ──┤
//!                        └─▶ entry taken: Abandoned(buffer) ──── the kernel completes ──┘
//! ```
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::mem;
use core::sync::atomic::Ordering;
use core::task::{Context, Poll, Waker};

use corank_abi::call::{RING_ENTER, RING_SETUP};
use corank_abi::ring::{Completion, LINK, RingHeader, SILENT, SUBMISSIONS, Submission};
use slab::Slab;

use crate::local;
use crate::raw::{Error, number_call};

/// Entries of each ring. More let more coroutines share one kernel entry; so many make entering rare beside what it serves, and
/// the rings lie in one page: each page that is touched between two kernel entries costs a miss in the translation buffer.
pub const ENTRIES: u32 = 64;

const _: () = {
    let entry = size_of::<Submission>() + size_of::<Completion>();
    assert!(SUBMISSIONS + ENTRIES as usize * entry <= crate::page::PAGE_SIZE);
};

/// Key of calls that nobody waits for.
const NOBODY: u64 = u64::MAX;

/// Number of a call that does nothing: the kernel knows none with this number.
const NOTHING: u32 = 0;

/// This process's rings, as the thread that set them up sees them. They exist until the process ends.
#[derive(Debug)]
pub(crate) struct Ring {
    header: &'static RingHeader,
    submissions: *mut Submission,
    completions: *const Completion,
    /// Our copies of the two counters that only we write.
    submission_tail: Cell<u32>,
    completion_head: Cell<u32>,
    /// Levels of the submissions that the kernel hasn't taken yet.
    queued_levels: Cell<u64>,
    /// Calls that the kernel will complete, by key.
    calls: RefCell<Slab<Call>>,
}

/// What is known of one call; see the module's drawing.
#[derive(Debug)]
enum Call {
    Waiting(Waker),
    Done(isize),
    Abandoned {
        #[expect(
            dead_code,
            reason = "it is here to stay alive until the kernel is done with it"
        )]
        buffer: Vec<u8>,
    },
}

/// What the kernel shall do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) call: usize,
    pub(crate) arguments: [usize; 3],
}

impl Ring {
    /// The calling thread's rings. An executor sets them up when it starts on the process's first such thread.
    ///
    /// # Panics
    /// If another thread of the process has the rings, or the kernel has no memory for them.
    #[inline]
    pub(crate) fn here() -> &'static Self {
        if let Some(ring) = local::block().ring.get() {
            return ring;
        }
        Self::try_here().expect(
            "asynchronous calls belong to one thread, and the kernel needs memory for its rings",
        )
    }

    /// [`here`](Self::here), if they can be had. Sets them up the first time, with one kernel entry.
    pub(crate) fn try_here() -> Option<&'static Self> {
        let slot = &local::block().ring;
        if slot.get().is_none() {
            slot.set(Self::set_up().ok());
        }
        slot.get()
    }

    fn set_up() -> Result<&'static Self, Error> {
        let address = number_call(RING_SETUP, [ENTRIES as usize, 0, 0])?;
        let header: *const RingHeader = core::ptr::with_exposed_provenance(address);
        let submissions: *mut Submission =
            core::ptr::with_exposed_provenance_mut(address + SUBMISSIONS);
        let completions = address + SUBMISSIONS + ENTRIES as usize * size_of::<Submission>();
        // SAFETY: the kernel has mapped the rings there, for as long as the process lives; all fields are atomic or never change.
        let header = unsafe { &*header };
        Ok(Box::leak(Box::new(Self {
            header,
            submissions,
            completions: core::ptr::with_exposed_provenance(completions),
            submission_tail: Cell::new(header.submission_tail.load(Ordering::Relaxed)),
            completion_head: Cell::new(header.completion_head.load(Ordering::Relaxed)),
            queued_levels: Cell::new(0),
            calls: RefCell::new(Slab::new()),
        })))
    }

    /// Whether anything is left for the kernel to do, or for us to hear of.
    pub(crate) fn busy(&self) -> bool {
        self.queued_levels.get() != 0 || !self.calls.borrow().is_empty()
    }

    /// Levels of the coroutines whose submissions the kernel hasn't seen yet, one bit each.
    #[inline]
    pub(crate) fn queued_levels(&self) -> u64 {
        self.queued_levels.get()
    }

    /// Number of the last submission: it moves when something is submitted.
    #[inline]
    pub(crate) fn submitted(&self) -> u32 {
        self.submission_tail.get()
    }

    /// Makes sure that `count` submissions fit, with a kernel entry if they don't.
    fn make_room(&self, count: u32) {
        let queued = self
            .submission_tail
            .get()
            .wrapping_sub(self.header.submission_head.load(Ordering::Acquire));
        if queued + count > ENTRIES {
            self.enter(0, 0);
        }
    }

    /// Writes one entry for the kernel. There must be room.
    fn push(&self, request: Request, key: u64, flags: u8) -> u32 {
        let tail = self.submission_tail.get();
        let level = crate::page::process()
            .running
            .load(Ordering::Relaxed)
            .trailing_zeros()
            .min(63);
        let submission = Submission {
            key,
            call: request.call as u32,
            level: level as u8,
            flags,
            reserved: 0,
            arguments: request.arguments.map(|argument| argument as u64),
        };
        // SAFETY: the place is inside the ring, and the kernel doesn't read it before the tail has moved past it.
        unsafe {
            self.submissions
                .add((tail % ENTRIES) as usize)
                .write(submission)
        };
        self.submission_tail.set(tail.wrapping_add(1));
        self.header
            .submission_tail
            .store(tail.wrapping_add(1), Ordering::Release);
        self.queued_levels
            .set(self.queued_levels.get() | 1 << level);
        tail
    }

    /// Submits the calls of an operation, linked; the completion of the one that counts wakes `waker`.
    fn submit(&self, operation: &Operation, waker: Waker) -> Pending {
        let Operation {
            mut request,
            times,
            stride,
            then,
            ..
        } = *operation;
        self.make_room(times + u32::from(then.is_some()));
        for _ in 1..times {
            self.push(request, NOBODY, LINK | SILENT);
            request.arguments[0] += stride;
        }
        let key = self.calls.borrow_mut().insert(Call::Waiting(waker));
        let number = self.push(request, key as u64, if then.is_some() { LINK } else { 0 });
        if let Some(then) = then {
            self.push(then, NOBODY, SILENT);
        }
        Pending { key, number, times }
    }

    /// Submits a call whose result nobody wants.
    pub(crate) fn submit_silent(&self, request: Request) {
        self.make_room(1);
        self.push(request, NOBODY, SILENT);
    }

    fn poll(&self, key: usize, context: &Context<'_>) -> Poll<isize> {
        let mut calls = self.calls.borrow_mut();
        match &mut calls[key] {
            Call::Waiting(waker) => {
                if !waker.will_wake(context.waker()) {
                    *waker = context.waker().clone();
                }
                Poll::Pending
            }
            Call::Done(_) => match calls.remove(key) {
                Call::Done(result) => Poll::Ready(result),
                _ => unreachable!("it was done a moment ago"),
            },
            Call::Abandoned { .. } => unreachable!("only a future that is gone abandons its call"),
        }
    }

    /// Nobody waits any more. `buffer` is what the kernel may still write to or read from.
    fn abandon(&self, pending: Pending, buffer: Vec<u8>) {
        let Pending { key, number, times } = pending;
        let mut calls = self.calls.borrow_mut();
        let taken = self.header.submission_head.load(Ordering::Acquire);
        let not_taken = (number.wrapping_sub(taken) as i32) >= 0;
        let old = if not_taken && matches!(calls[key], Call::Waiting(_)) {
            // The kernel takes entries only when we enter it, so they are still ours to change. What is linked to them follows.
            for number in (0..times).map(|earlier| number.wrapping_sub(earlier)) {
                let place = (number % ENTRIES) as usize;
                // SAFETY: inside the ring, between head and tail, and the kernel isn't looking (see above).
                unsafe {
                    let submission = self.submissions.add(place);
                    (*submission).call = NOTHING;
                    (*submission).flags |= SILENT;
                    (*submission).key = NOBODY;
                }
            }
            calls.remove(key)
        } else if matches!(calls[key], Call::Waiting(_)) {
            mem::replace(&mut calls[key], Call::Abandoned { buffer })
        } else {
            calls.remove(key)
        };
        drop(calls);
        // A waker's destructor may call back into us.
        drop(old);
    }

    /// Enters the kernel: it serves every submission and returns when `wait_for` completions are ready or `deadline` (in
    /// ticks) has passed.
    pub(crate) fn enter(&self, wait_for: usize, deadline: u64) {
        self.header.deadline.store(deadline, Ordering::Release);
        self.queued_levels.set(0);
        number_call(RING_ENTER, [wait_for, 0, 0]).expect("the rings are set up");
    }

    /// Whether the kernel has completed anything that hasn't been taken in.
    #[inline]
    pub(crate) fn has_completions(&self) -> bool {
        self.header.completion_tail.load(Ordering::Acquire) != self.completion_head.get()
    }

    /// Takes in what the kernel has completed, and wakes those who wait for it. The executor clears the process page's
    /// `arriving` levels when it runs next.
    #[inline(always)]
    pub(crate) fn take_completions(&self) {
        while self.completion_head.get() != self.header.completion_tail.load(Ordering::Acquire) {
            let head = self.completion_head.get();
            // SAFETY: inside the ring, and the kernel has written it before it moved the tail.
            let completion = unsafe { self.completions.add((head % ENTRIES) as usize).read() };
            self.completion_head.set(head.wrapping_add(1));
            self.header
                .completion_head
                .store(head.wrapping_add(1), Ordering::Release);
            self.complete(completion);
        }
    }

    fn complete(&self, completion: Completion) {
        let key = completion.key as usize;
        let mut calls = self.calls.borrow_mut();
        match calls.get_mut(key) {
            Some(call @ Call::Waiting(_)) => {
                let Call::Waiting(waker) =
                    mem::replace(call, Call::Done(completion.result as isize))
                else {
                    return;
                };
                drop(calls);
                waker.wake();
            }
            Some(Call::Abandoned { .. }) => drop(calls.remove(key)),
            // The kernel completes each call once, and silent ones never.
            Some(Call::Done(_)) | None => {}
        }
    }
}

/// A call that was submitted.
#[derive(Clone, Copy, Debug)]
struct Pending {
    key: usize,
    /// Number of its entry in the submission ring, the last of `times`.
    number: u32,
    times: u32,
}

/// One asynchronous call, or several of a kind, and the buffer that they work on.
#[derive(Debug)]
pub(crate) struct Operation {
    request: Request,
    /// How many times the request is made; the last one counts.
    times: u32,
    /// By how much the first argument grows each time.
    stride: usize,
    /// What follows silently.
    then: Option<Request>,
    buffer: Vec<u8>,
    pending: Option<(&'static Ring, Pending)>,
}

impl Operation {
    /// A call that is submitted when it is first polled. The kernel may use `buffer`, and no other memory, until then.
    pub(crate) fn new(request: Request, then: Option<Request>, buffer: Vec<u8>) -> Self {
        Self {
            request,
            times: 1,
            stride: 0,
            then,
            buffer,
            pending: None,
        }
    }

    /// The same call made `times` times, from 1 to [`ENTRIES`], the first argument growing by `stride`. Completes when all have;
    /// the result is the last one's.
    pub(crate) fn repeated(request: Request, times: u32, stride: usize, buffer: Vec<u8>) -> Self {
        Self {
            request,
            times,
            stride,
            then: None,
            buffer,
            pending: None,
        }
    }

    /// What the call returned, and the buffer.
    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<(isize, Vec<u8>)> {
        let Some((ring, pending)) = self.pending else {
            let ring = Ring::here();
            self.pending = Some((ring, ring.submit(self, context.waker().clone())));
            return Poll::Pending;
        };
        ring.poll(pending.key, context).map(|result| {
            self.pending = None;
            (result, mem::take(&mut self.buffer))
        })
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if let Some((ring, pending)) = self.pending.take() {
            ring.abandon(pending, mem::take(&mut self.buffer));
        }
    }
}
