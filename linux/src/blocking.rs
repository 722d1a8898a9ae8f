//! Blocking calls, on threads of their own.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::hint::black_box;
use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::task::{Context, Poll};

use async_task::{Runnable, Task};
use corank::workers::{PriorityListener, Shared};
use corank::{JoinError, Payload, Priority};

use crate::class::Class;
use crate::handle::{self, Handle};

mod pool;

/// The result of a blocking call: its output, or the payload of its panic.
type Outcome<T> = Result<T, Box<dyn Any + Send>>;

/// One pool for all runtimes of the process.
static POOL: LazyLock<Arc<pool::Pool<Runnable>>> = LazyLock::new(|| pool::Pool::new(run, None));
/// The pool of calls that are not urgent, and the level from which calls are its own.
static BULK: OnceLock<(Priority, Arc<pool::Pool<Runnable>>)> = OnceLock::new();

fn run(job: Runnable) {
    job.run();
}

/// Leaves calls of the levels `from` and less urgent to threads of this class, from now on.
///
/// Without effect after the first time.
pub(crate) fn set_bulk(from: Priority, class: Class) {
    BULK.get_or_init(|| (from, pool::Pool::new(run, Some(class))));
}

/// Returns the pool for a call of this level.
fn pool_for(priority: Priority) -> &'static Arc<pool::Pool<Runnable>> {
    match BULK.get() {
        Some((from, bulk)) if !priority.is_more_urgent_than(*from) => bulk,
        _ => &POOL,
    }
}

/// Bounds the memory of a call beyond its closure: its job, an entry in the queue, a thread's name
/// and handles.
const ROOM: usize = 16 * 1024;

/// What panicked, in the text of an error.
const SUBJECT: &str = "the blocking call";
const NO_MEMORY: &str = "there is no memory for a blocking call";

/// Runs `work` on a thread for blocking calls, so that it keeps no worker from other coroutines.
///
/// Await the result as that of a coroutine.
///
/// A process has up to 500 such threads, for all runtimes ([`limit_blocking_threads`] changes
/// that). When all are busy, the most urgent call runs next. A call has the priority of the
/// coroutine that awaits it, also if that changes while it waits for a thread. Before that it has
/// the priority of the coroutine that called this function; outside of coroutines,
/// [`Priority::DEFAULT`].
///
/// Dropping the future cancels the call until it has begun. After that it runs to its end, and its
/// result is discarded.
///
/// The caller's runtime is current while `work` runs, if the caller has one: `work` may spawn.
///
/// If `work` panics, the result is [`JoinError::Panicked`] with its payload. It is that with a
/// message if there is no thread and none can be started, or if there is no memory for the call.
/// The memory is tested before anything is done. Only if other threads take the last memory in
/// between, the process ends, as everywhere in Rust.
///
/// ```
/// # let runtime = corank_linux::Runtime::new()?;
/// let lines = runtime.block_on(async {
///     let read = corank_linux::spawn_blocking(|| std::fs::read_to_string("/proc/self/status"));
///     read.await.expect("no panic").map(|text| text.lines().count())
/// });
/// assert!(lines? > 10);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn spawn_blocking<T, F>(work: F) -> Blocking<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    if !has_memory_for(size_of::<F>().max(size_of::<T>()) + ROOM) {
        return Blocking(Call::Refused(Some(Payload::of_text(NO_MEMORY).of(SUBJECT))));
    }
    #[cfg(feature = "tracing")]
    let work = {
        let span = tracing::Span::current();
        move || span.in_scope(work)
    };
    let runtime = Handle::current();
    let work = move || {
        let _current = runtime.map(handle::enter);
        work()
    };
    // Caught there, because the panic belongs to the caller. The job is done after one run, so
    // nothing schedules it again.
    let work = async { catch_unwind(AssertUnwindSafe(work)) };
    let (job, task) = async_task::spawn(work, drop);
    let priority = handle::own_priority().unwrap_or(Priority::DEFAULT);
    let pool = pool_for(priority);
    Blocking(match pool.submit(priority, job) {
        Ok(number) => Call::Submitted {
            pool,
            task,
            number,
            priority,
            following: None,
        },
        Err(error) => {
            let message = format!("no thread for blocking calls can be started: {error}");
            Call::Refused(Some(Payload::new(Box::new(message)).of(SUBJECT)))
        }
    })
}

/// Makes the error of a blocking call that panicked.
fn panicked(payload: Box<dyn Any + Send>) -> JoinError {
    JoinError::Panicked(Payload::new(payload).of(SUBJECT))
}

/// Tests whether an allocation of so many bytes would succeed now.
///
/// The standard library and `async-task` allocate afterwards, and end the process if they cannot.
fn has_memory_for(bytes: usize) -> bool {
    let mut room: Vec<u8> = Vec::new();
    let granted = room.try_reserve_exact(bytes).is_ok();
    // Otherwise the compiler removes the unused allocation.
    black_box(&mut room);
    granted
}

/// Converts to an I/O error; does not allocate if memory was exhausted.
pub(crate) fn into_io(error: JoinError) -> io::Error {
    match &error {
        JoinError::Panicked(payload) if payload.message() == Some(NO_MEMORY) => {
            io::ErrorKind::OutOfMemory.into()
        }
        _ => io::Error::other(error),
    }
}

/// Limits the threads of this process for blocking calls from now on; the default is 500.
pub fn limit_blocking_threads(threads: NonZeroUsize) {
    POOL.limit(threads);
    if let Some((_, bulk)) = BULK.get() {
        bulk.limit(threads);
    }
}

/// Waits for the result of [`spawn_blocking`].
#[must_use = "dropping it may cancel the call"]
pub struct Blocking<T>(Call<T>);

enum Call<T> {
    Submitted {
        task: Task<Outcome<T>>,
        pool: &'static Arc<pool::Pool<Runnable>>,
        number: u64,
        /// The priority when it was submitted.
        priority: Priority,
        /// Set once a coroutine waits for it.
        following: Option<Pin<Box<PriorityListener<Following>>>>,
    },
    Refused(Option<Payload>),
}

impl<T> Blocking<T> {
    /// Lets the call run without a handle.
    pub fn detach(self) {
        if let Call::Submitted { task, .. } = self.0 {
            task.detach();
        }
    }
}

impl<T> Future for Blocking<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Call::Submitted {
                task,
                pool,
                number,
                priority,
                following,
            } => match Pin::new(task).poll(cx) {
                Poll::Ready(outcome) => {
                    *following = None;
                    Poll::Ready(outcome.map_err(panicked))
                }
                Poll::Pending => {
                    if following.is_none() && pool.waits(*priority, *number) {
                        *following = Following::new(pool, *number, *priority);
                    }
                    if let Some(following) = following {
                        following.as_ref().wait();
                    }
                    Poll::Pending
                }
            },
            Call::Refused(payload) => {
                let payload = payload.take().expect("polled after it was ready");
                Poll::Ready(Err(JoinError::Panicked(payload)))
            }
        }
    }
}

/// Keeps a call that has not begun on the level of the coroutine that waits for it.
struct Following {
    /// A call stays in the pool to which its level at the beginning led.
    pool: &'static Arc<pool::Pool<Runnable>>,
    number: u64,
    /// The level on which the pool holds the job. Changed only under the executor's scheduler lock.
    level: AtomicU8,
}

impl Following {
    /// Returns `None` outside of coroutines and without memory: then the call keeps its level.
    fn new(
        pool: &'static Arc<pool::Pool<Runnable>>,
        number: u64,
        priority: Priority,
    ) -> Option<Pin<Box<PriorityListener<Self>>>> {
        let place = Shared::here()?;
        if !has_memory_for(size_of::<PriorityListener<Self>>()) {
            return None;
        }
        let level = AtomicU8::new(priority.level());
        // SAFETY: `follow` takes only the pool's lock, under which no function of the executor is
        // called.
        let listener = unsafe {
            PriorityListener::with_data(
                place,
                Self {
                    pool,
                    number,
                    level,
                },
                follow,
            )
        };
        Some(Box::pin(listener))
    }
}

fn follow(listener: &PriorityListener<Following>, level: Priority) {
    let following = listener.data();
    let before = following.level.swap(level.level(), Ordering::Relaxed);
    if before != level.level()
        && let Some(before) = Priority::new(before)
    {
        (following.pool).move_job(following.number, before, level);
    }
}

impl<T> fmt::Debug for Blocking<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").finish_non_exhaustive()
    }
}
