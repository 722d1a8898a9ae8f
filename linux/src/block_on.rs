//! Runs a future on the thread that waits for it, as a coroutine of a runtime.
//!
//! Such a future need not be `Send`, and may borrow. What the executor knows of it is a [`Proxy`].
//! The worker that polls the proxy asks the waiting thread to poll the future, and sleeps inside
//! its own poll until that is done. So the coroutine has a level, is picked in its turn, donates
//! and inherits like any other, and no more polls go on at once than there are workers.
//!
//! ```text
//!   the worker, in the proxy          the waiting thread
//!   poll  ── Asked(poll) ───────────▶ polls the future, as the worker
//!         ◀─ Answered(finished?) ────
//!   drop  ── Asked(drop) ───────────▶ drops the future, as the worker (it was cancelled)
//!         ◀─ Answered ───────────────
//! ```

use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::thread::{self, ThreadId};

use corank::PollContext;

/// The payload of a panic.
type Panic = Box<dyn Any + Send>;

/// Joins the thread that has a future with the workers that poll its coroutine.
pub(crate) struct Handoff {
    state: Mutex<State>,
    asked: Condvar,
    answered: Condvar,
    /// The thread that has the future.
    thread: ThreadId,
}

enum State {
    /// No worker is inside the proxy.
    Apart,
    Asked(Request, PollContext),
    /// The waiting thread carries out a request.
    Working,
    Answered {
        finished: bool,
    },
    /// The future is gone.
    Over,
}

enum Request {
    Poll(Waker),
    Drop,
}

/// The coroutine's future: polls that of another thread.
pub(crate) struct Proxy(Arc<Handoff>);

impl Handoff {
    /// Creates the two sides, for a future of the calling thread.
    pub(crate) fn new() -> (Arc<Self>, Proxy) {
        let handoff = Arc::new(Self {
            state: Mutex::new(State::Apart),
            asked: Condvar::new(),
            answered: Condvar::new(),
            thread: thread::current().id(),
        });
        let proxy = Proxy(handoff.clone());
        (handoff, proxy)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code between two states panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the waiting thread, and waits for its answer: whether the future is finished.
    fn ask(&self, request: Request) -> bool {
        let Some(context) = PollContext::here() else {
            unreachable!("an executor polls and drops its futures as itself");
        };
        let mut state = self.state();
        if !matches!(*state, State::Apart) {
            return true;
        }
        *state = State::Asked(request, context);
        self.asked.notify_one();
        loop {
            state = (self.answered.wait(state)).unwrap_or_else(PoisonError::into_inner);
            if let State::Answered { finished } = *state {
                *state = if finished { State::Over } else { State::Apart };
                return finished;
            }
        }
    }

    /// Carries out what workers ask for until the future is finished or dropped.
    ///
    /// Returns its output; `None` if it was cancelled.
    ///
    /// # Errors
    /// Returns the payload of its panic.
    pub(crate) fn serve<F: Future>(&self, future: F) -> Result<Option<F::Output>, Panic> {
        let mut future = pin!(Some(future));
        loop {
            let (request, context) = self.wait_for_request();
            let _driving = Driving::begin();
            let carry_out = || carry_out(future.as_mut(), request);
            // SAFETY: the worker that asked waits inside its poll until it has the answer; the
            // mutex orders what the two do.
            let result = unsafe { context.enter(|| catch_unwind(AssertUnwindSafe(carry_out))) };
            if result.is_err() {
                let let_go = || future.set(None);
                // A panic of its destructor is a second one: the hook has reported it.
                // SAFETY: as above.
                let _ = unsafe { context.enter(|| catch_unwind(AssertUnwindSafe(let_go))) };
            }
            let finished = future.is_none();
            *self.state() = State::Answered { finished };
            self.answered.notify_one();
            match result {
                Ok(Poll::Pending) => {}
                Ok(Poll::Ready(output)) => return Ok(output),
                Err(panic) => return Err(panic),
            }
        }
    }

    fn wait_for_request(&self) -> (Request, PollContext) {
        let mut state = self.state();
        loop {
            match mem::replace(&mut *state, State::Working) {
                State::Asked(request, context) => return (request, context),
                // The worker has not seen the last answer yet, or none asks.
                other => *state = other,
            }
            state = (self.asked.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Carries out a request of a worker, as that worker.
///
/// The future is dropped before its output is returned, as that of any coroutine.
fn carry_out<F: Future>(
    mut future: Pin<&mut Option<F>>,
    request: Request,
) -> Poll<Option<F::Output>> {
    let mut output = None;
    if let (Request::Poll(waker), Some(polled)) = (request, future.as_mut().as_pin_mut()) {
        output = Some(ready!(polled.poll(&mut Context::from_waker(&waker))));
    }
    future.set(None);
    Poll::Ready(output)
}

impl Future for Proxy {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.0.ask(Request::Poll(cx.waker().clone())) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

/// Lets the future go first: the coroutine was cancelled, unless it is finished.
impl Drop for Proxy {
    fn drop(&mut self) {
        // On its own thread it was never spawned.
        if thread::current().id() != self.0.thread {
            self.0.ask(Request::Drop);
        }
    }
}

thread_local! {
    /// Set while coroutines are polled on this thread.
    static DRIVES: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as one that polls coroutines, until it is dropped.
pub(crate) struct Driving {
    outer: bool,
}

impl Driving {
    pub(crate) fn begin() -> Self {
        Self {
            outer: DRIVES.replace(true),
        }
    }
}

impl Drop for Driving {
    fn drop(&mut self) {
        DRIVES.set(self.outer);
    }
}

/// Panics on a thread that polls coroutines: a worker that waited for a coroutine would keep its
/// own from running, among them those that end the wait.
#[track_caller]
pub(crate) fn assert_may_wait() {
    assert!(
        !DRIVES.try_with(Cell::get).unwrap_or(false),
        "block_on was called inside a runtime, on a thread that runs coroutines, which would wait for itself: await the future there, or call block_on in spawn_blocking"
    );
}
