//! Join handles (rules X5 to X8).

use core::fmt;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};

#[cfg(feature = "alloc")]
use crate::ownership::Shared;
use crate::ownership::{Local, Ownership};
use crate::priority::Priority;
use crate::scheduling::join_waiter::JoinWaiter;
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::block::{BlockRef, Flags, State};
use crate::scheduling::table::id::CoroutineId;
use crate::scheduling::waiter::Wants;
use crate::scheduling::wake::waker::Remote;
use crate::scheduling::workers::{budget, context};

/// The owner of a coroutine's result.
///
/// Await it to get the output; drop it to let the coroutine go on alone.
///
/// While one coroutine awaits the handle of another, that one inherits its urgency (rule I1). The
/// handle is not `Unpin`: `handle.await` and `join!` work as they are, `select` needs `pin!`.
///
/// With [`Shared`](crate::Shared), it is a handle of a [`SharedExecutor`](crate::SharedExecutor),
/// `Send` and `Unpin`.
pub struct JoinHandle<T, O: Ownership = Local> {
    /// Its slot is not used again while the handle exists.
    block: BlockRef,
    waiter: O::JoinWaiter,
    _output: PhantomData<(T, O)>,
}

// SAFETY: with `Shared`, each method holds the scheduler's lock while it touches more
// than atomics; the output is `Send`.
#[cfg(feature = "alloc")]
unsafe impl<T: Send> Send for JoinHandle<T, Shared> {}
// SAFETY: as above; the output is only given to code that owns the handle or has it to itself.
#[cfg(feature = "alloc")]
unsafe impl<T: Send> Sync for JoinHandle<T, Shared> {}

/// Its waiter has memory of its own, and it contains no output.
#[cfg(all(feature = "alloc", not(feature = "image")))]
impl<T> Unpin for JoinHandle<T, Shared> {}

/// The reason why a coroutine has no output.
pub enum JoinError {
    /// It was cancelled, or its executor was dropped.
    Cancelled,
    /// It panicked.
    #[cfg(feature = "std")]
    Panicked(Payload),
}

/// The value that a panic carried.
///
/// It is given away as a whole or shown as text. So an error that has it goes wherever errors go.
#[cfg(feature = "std")]
pub struct Payload {
    carried: Carried,
    /// What panicked, as the subject of a sentence.
    subject: &'static str,
}

#[cfg(feature = "std")]
enum Carried {
    Panic(std::boxed::Box<dyn core::any::Any + Send>),
    Text(&'static str),
}

// SAFETY: a shared reference to it gives no reference to what is inside, but for texts, which are
// `Sync`.
#[cfg(feature = "std")]
unsafe impl Sync for Payload {}

#[cfg(feature = "std")]
impl Payload {
    /// Makes a payload from that of [`std::panic::catch_unwind`].
    #[must_use]
    pub fn new(payload: std::boxed::Box<dyn core::any::Any + Send>) -> Self {
        Self::carrying(Carried::Panic(payload))
    }

    const fn carrying(carried: Carried) -> Self {
        Self {
            carried,
            subject: "the coroutine",
        }
    }

    /// Names what panicked, if it was no coroutine, such as `"the blocking call"`.
    ///
    /// The text of [`JoinError::Panicked`] begins with it.
    #[must_use]
    pub const fn of(mut self, subject: &'static str) -> Self {
        self.subject = subject;
        self
    }

    /// Makes the payload of `panic!(text)`, for something that could not even begin.
    ///
    /// It needs no memory, so it can also report a lack of memory.
    #[must_use]
    pub const fn of_text(text: &'static str) -> Self {
        Self::carrying(Carried::Text(text))
    }

    /// Returns the payload, for [`std::panic::resume_unwind`], or to see what it is.
    #[must_use]
    pub fn into_inner(self) -> std::boxed::Box<dyn core::any::Any + Send> {
        match self.carried {
            Carried::Panic(payload) => payload,
            Carried::Text(text) => std::boxed::Box::new(text),
        }
    }

    /// Returns the panic's message, if it had one.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        match &self.carried {
            Carried::Panic(payload) => {
                let text = payload.downcast_ref::<&str>().copied();
                text.or_else(|| {
                    payload
                        .downcast_ref::<std::string::String>()
                        .map(|text| &**text)
                })
            }
            Carried::Text(text) => Some(text),
        }
    }
}

#[cfg(feature = "std")]
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Payload").field(&self.message()).finish()
    }
}

impl<T, O: Ownership> JoinHandle<T, O> {
    /// Makes the handle of `block`, whose scheduler is shared as `O` says.
    pub(crate) fn new(block: BlockRef, waiter: O::JoinWaiter) -> Self {
        Self {
            block,
            waiter,
            _output: PhantomData,
        }
    }

    /// Returns the scheduler.
    ///
    /// The handle keeps it: through the executor, and after that through an anchor.
    fn scheduler(&self) -> &Scheduler {
        Scheduler::of(self.block)
    }

    /// Runs `act` as the scheduler's owner.
    #[inline(always)]
    fn own<R>(&self, act: impl FnOnce() -> R) -> R {
        O::own(self.scheduler(), act)
    }

    /// Returns the coroutine's identifier.
    pub fn id(&self) -> CoroutineId {
        self.block.id()
    }

    /// Tests whether the coroutine has finished, was cancelled or has panicked.
    pub fn has_exited(&self) -> bool {
        self.own(|| self.is_over())
    }

    fn is_over(&self) -> bool {
        self.block.state.get() == State::Exited
    }

    /// Returns the coroutine that polls, if it can donate its priority.
    ///
    /// Between executors nothing is donated, and a coroutine that awaits itself cannot donate to
    /// itself. In these cases the waiter keeps only the waker of what polls.
    fn lender(&self) -> Option<BlockRef> {
        context::current()
            .filter(|&lender| lender != self.block && lender.scheduler() == self.block.scheduler())
    }

    /// Cancels the coroutine (rules X1 to X4).
    ///
    /// Unless it is running, its future is dropped before this returns. Returns false if it was too
    /// late.
    pub fn cancel(&self) -> bool {
        self.own(|| self.scheduler().cancel(self.block))
    }

    /// Gives the coroutine another base priority, at once (rules R1 to R4).
    ///
    /// Returns false if it has exited.
    pub fn reprioritize(&self, priority: Priority) -> bool {
        let scheduler = self.scheduler();
        self.own(|| scheduler.reprioritize(self.block, priority))
    }

    /// Returns a handle for other threads, harts and interrupt handlers.
    pub fn remote(&self) -> Remote {
        Remote::new(self.block)
    }

    /// Takes the result, if the coroutine has exited.
    ///
    /// Only the owner calls this.
    fn take(&self) -> Option<Result<T, JoinError>> {
        self.is_over().then(|| self.take_result())
    }

    /// Takes the result of a coroutine that has exited.
    ///
    /// Only the owner calls this.
    #[inline]
    fn take_result(&self) -> Result<T, JoinError> {
        self.scheduler().assert_owned();
        let result = self.block.result();
        assert!(
            result != Flags::TAKEN,
            "a JoinHandle was polled after it had given its result"
        );
        self.block.insert(Flags::TAKEN);
        if result == Flags::OUTPUT {
            // SAFETY: `T` is the future's output type since `spawn`, and the flag says that it is
            // there.
            return Ok(unsafe { self.scheduler().take_output(self.block) });
        }
        #[cfg(feature = "std")]
        if result == Flags::PANIC {
            let payload = Payload::new(self.scheduler().take_panic(self.block));
            return Err(JoinError::Panicked(payload));
        }
        Err(JoinError::Cancelled)
    }

    /// Returns the result if the coroutine has exited, and else the handle.
    ///
    /// It is for code that is not a coroutine.
    pub fn try_join(self) -> Result<Result<T, JoinError>, Self> {
        match self.own(|| self.take()) {
            Some(result) => Ok(result),
            None => Err(self),
        }
    }
}

impl<T, O: Ownership> Future for JoinHandle<T, O> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.as_ref().get_ref();
        this.own(|| {
            if this.is_over() {
                if budget::take_for(this.scheduler()) {
                    return Poll::Ready(this.take_result());
                }
                this.scheduler().unlocked(|| cx.waker().wake_by_ref());
                return Poll::Pending;
            }
            // SAFETY: the handle is pinned, so the waiter stays where it is.
            let waiter = unsafe { Pin::new_unchecked(this.waiter.get()) };
            let wants = || match this.is_over() {
                true => Wants::Nothing,
                false => Wants::Of(this.block),
            };
            if !waiter.wait(cx, Some(this.scheduler()), this.lender(), wants) {
                // It exited while the waker was cloned. Rare enough to be polled again for the
                // result.
                this.scheduler().unlocked(|| cx.waker().wake_by_ref());
            }
            Poll::Pending
        })
    }
}

impl<T, O: Ownership> Drop for JoinHandle<T, O> {
    fn drop(&mut self) {
        // Ends the wait as well: nothing of the waiter is left to drop.
        drop(Scheduler::release_handle::<O>(self.block, &self.waiter));
    }
}

impl<T, O: Ownership> fmt::Debug for JoinHandle<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("id", &self.id())
            .finish()
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("Cancelled"),
            #[cfg(feature = "std")]
            Self::Panicked(_) => f.write_str("Panicked(..)"),
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("the coroutine was cancelled"),
            #[cfg(feature = "std")]
            Self::Panicked(payload) => {
                let message = payload.message().unwrap_or("no message");
                write!(f, "{} panicked: {message}", payload.subject)
            }
        }
    }
}

impl core::error::Error for JoinError {}

/// Converts by `?`.
#[cfg(feature = "std")]
impl From<JoinError> for std::io::Error {
    fn from(error: JoinError) -> Self {
        Self::other(error)
    }
}
