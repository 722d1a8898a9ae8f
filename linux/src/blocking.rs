//! Work that blocks its thread: on threads of their own.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::hint::black_box;
use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use async_task::{Runnable, Task};
use corank::workers::{Follower, Shared};
use corank::{JoinError, Payload, Priority};

use crate::handle;

mod pool;

/// What a blocking call gives: its output, or what its panic carried.
type Outcome<T> = Result<T, Box<dyn Any + Send>>;

/// One for all runtimes of the process.
static POOL: LazyLock<Arc<pool::Pool<Runnable>>> = LazyLock::new(|| {
    pool::Pool::new(|job: Runnable| {
        job.run();
    })
});

/// Memory that a call takes at most besides what it was given: its job, a place in the queue, a thread's name and handles.
const ROOM: usize = 16 * 1024;

const NO_MEMORY: &str = "there is no memory for a blocking call";

/// Runs `work` on a thread for blocking calls, so that it keeps no worker from other coroutines. Await the result, as that of a coroutine.
///
/// There are up to 500 such threads in a process, for all runtimes ([`limit_blocking_threads`] says otherwise). When all are busy, the most
/// urgent call is next: by the live level of the coroutine that awaits it, also while it waits for a thread, and before that by the level of the one that called
/// this. Outside of coroutines, that is [`Priority::DEFAULT`].
///
/// The call can be cancelled until it has begun: by dropping the future. After that it runs to its end, and nobody is told. If there is no
/// thread and none can be started, or there is no memory for the call, the result is [`JoinError::Panicked`], with a message that says so. The memory is asked for
/// before anything is done: only if other threads of the process take the last of it in the meantime, the process ends, as everywhere in Rust.
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
        return Blocking(Call::Refused(Some(Payload::of_text(NO_MEMORY))));
    }
    #[cfg(feature = "tracing")]
    let work = {
        let span = tracing::Span::current();
        move || span.in_scope(work)
    };
    // Caught there: it is the caller's. The job is over when it has run once, so nothing schedules it again.
    let work = async { catch_unwind(AssertUnwindSafe(work)) };
    let (job, task) = async_task::spawn(work, drop);
    let priority = handle::own_priority().unwrap_or(Priority::DEFAULT);
    Blocking(match POOL.submit(priority, job) {
        Ok(number) => Call::Submitted {
            task,
            number,
            priority,
            following: None,
        },
        Err(error) => {
            let message = format!("no thread for blocking calls can be started: {error}");
            Call::Refused(Some(Payload::new(Box::new(message))))
        }
    })
}

/// Whether an allocation of so many bytes would succeed now. What is asked for afterwards comes from the standard library and from `async-task`, which end the process
/// where there is none.
fn has_memory_for(bytes: usize) -> bool {
    let mut room: Vec<u8> = Vec::new();
    let granted = room.try_reserve_exact(bytes).is_ok();
    // Or the compiler sees that nobody needs it, and leaves the question out.
    black_box(&mut room);
    granted
}

/// As an error of input and output, which needs no memory if there was none.
pub(crate) fn into_io(error: JoinError) -> io::Error {
    match &error {
        JoinError::Panicked(payload) if payload.message() == Some(NO_MEMORY) => {
            io::ErrorKind::OutOfMemory.into()
        }
        _ => io::Error::other(error),
    }
}

/// From now on at most so many threads of this process are for blocking calls; otherwise 500.
pub fn limit_blocking_threads(threads: NonZeroUsize) {
    POOL.limit(threads);
}

/// Future of [`spawn_blocking`].
#[must_use = "dropping it may cancel the call"]
pub struct Blocking<T>(Call<T>);

enum Call<T> {
    Submitted {
        task: Task<Outcome<T>>,
        number: u64,
        /// When it was submitted.
        priority: Priority,
        /// Once a coroutine waits for it.
        following: Option<Pin<Box<Follower<Following>>>>,
    },
    Refused(Option<Payload>),
}

impl<T> Blocking<T> {
    /// Lets the call go on alone.
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
                number,
                priority,
                following,
            } => match Pin::new(task).poll(cx) {
                Poll::Ready(outcome) => {
                    *following = None;
                    Poll::Ready(
                        outcome.map_err(|payload| JoinError::Panicked(Payload::new(payload))),
                    )
                }
                Poll::Pending => {
                    if following.is_none() && POOL.waits(*priority, *number) {
                        *following = Following::new(*number, *priority);
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
    number: u64,
    /// Where the pool has the job. Changed under the executor's baton alone.
    level: AtomicU8,
}

impl Following {
    /// `None` outside of coroutines; and without memory: then the call waits on the level that it has.
    fn new(number: u64, priority: Priority) -> Option<Pin<Box<Follower<Self>>>> {
        let place = Shared::here()?;
        if !has_memory_for(size_of::<Follower<Self>>()) {
            return None;
        }
        let level = AtomicU8::new(priority.level());
        // SAFETY: `follow` takes the pool's lock, under which nothing of the executor is called, and nothing else.
        let follower = unsafe { Follower::with_data(place, Self { number, level }, follow) };
        Some(Box::pin(follower))
    }
}

fn follow(follower: &Follower<Following>, level: Priority) {
    let following = follower.data();
    let before = following.level.swap(level.level(), Ordering::Relaxed);
    if before != level.level()
        && let Some(before) = Priority::new(before)
    {
        POOL.move_job(following.number, before, level);
    }
}

impl<T> fmt::Debug for Blocking<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").finish_non_exhaustive()
    }
}
