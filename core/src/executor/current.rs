//! Functions that act on the executor that runs here (COPS, table 1, and `coroutine_run` of
//! AsyncOS, section 2.2).

use core::pin::Pin;
use core::task::{Context, Poll};

use crate::executor::join::JoinHandle;
use crate::ownership::Local;
use crate::priority::Priority;
use crate::scheduling::config::SpawnError;
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::block::BlockRef;
use crate::scheduling::table::id::CoroutineId;
use crate::scheduling::workers::context;
use crate::scheduling::workers::worker_context::WorkerContext;

/// Adds a coroutine to the executor that runs here (`spawn` of COPS, table 1).
///
/// # Errors
/// As [`Executor::spawn`](crate::Executor::spawn); [`SpawnError::NotRunning`] where no executor
/// runs, and [`SpawnError::Shared`] inside one that several workers may poll.
pub fn spawn<F>(priority: Priority, future: F) -> Result<JoinHandle<F::Output>, SpawnError>
where
    F: Future + 'static,
{
    spawn_with(priority, move || future)
}

/// Adds a coroutine as [`spawn`] does, but `make` builds the future where it will stay.
///
/// So large futures are not moved. `make` does nothing else. It is dropped, and not called, if
/// there is no place for the future.
///
/// # Errors
/// As [`spawn`].
#[inline]
pub fn spawn_with<F>(
    priority: Priority,
    make: impl FnOnce() -> F,
) -> Result<JoinHandle<F::Output>, SpawnError>
where
    F: Future + 'static,
{
    let scheduler = context::here().ok_or(SpawnError::NotRunning)?;
    if scheduler.is_shared() {
        return Err(SpawnError::Shared);
    }
    scheduler.spawn::<F, Local>(priority, make)
}

/// Returns the coroutine that calls this (`get_cid` of COPS, table 1); `None` outside.
pub fn current() -> Option<CoroutineId> {
    context::current().map(|block| block.id())
}

/// Tests whether the coroutine that calls this has woken itself in the poll that goes on here.
///
/// Then it is ready when the poll ends (rule W3): it yields. Code that measures polls tells by this
/// a coroutine that waits for its turn from one that waits for something else. Returns false
/// outside of coroutines. In an executor of several workers, wakes by other threads and coroutines
/// do not count; in one of one thread they may.
///
/// ```
/// use corank::{Priority, coroutine_run, woke_itself, yield_now};
///
/// coroutine_run(async {
///     let mut yields = std::pin::pin!(yield_now());
///     std::future::poll_fn(|cx| {
///         let result = yields.as_mut().poll(cx);
///         assert_eq!(woke_itself(), result.is_pending());
///         result
///     }).await;
/// }, Priority::DEFAULT).unwrap();
/// ```
pub fn woke_itself() -> bool {
    context::worker_context().is_some_and(WorkerContext::current_woke_itself)
}

/// The name of an executor, which no other one of the program has.
#[cfg(feature = "alloc")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExecutorId(core::num::NonZeroUsize);

#[cfg(feature = "alloc")]
impl ExecutorId {
    /// Returns that of a scheduler; `None` if the program has used up all numbers.
    pub(crate) fn of(scheduler: &Scheduler) -> Option<Self> {
        core::num::NonZeroUsize::new(scheduler.serial()).map(Self)
    }
}

/// Returns the executor that runs here; `None` outside.
///
/// An executor also runs where a destructor of one of its coroutines runs, on whatever thread: see
/// [`SharedExecutor::cancel`](crate::SharedExecutor::cancel).
#[cfg(feature = "alloc")]
pub fn current_executor() -> Option<ExecutorId> {
    ExecutorId::of(context::here()?)
}

/// Wakes a coroutine of the executor that runs here (rules W1 to W3).
///
/// Returns false if the identifier is stale.
pub fn wake(id: CoroutineId) -> bool {
    context::here().is_some_and(|scheduler| scheduler.locked(|| scheduler.wake_by_id(id)))
}

/// Gives a coroutine of the executor that runs here another base priority, at once.
///
/// This is `re prio` of COPS, table 1 (rules R1 to R4). Returns false if the coroutine has exited.
pub fn reprioritize(id: CoroutineId, priority: Priority) -> bool {
    on(id, |scheduler, block| {
        scheduler.reprioritize(block, priority)
    })
    .unwrap_or(false)
}

/// Cancels a coroutine of the executor that runs here (rules X1 to X4).
///
/// Returns false if it was too late.
pub fn cancel(id: CoroutineId) -> bool {
    on(id, Scheduler::cancel).unwrap_or(false)
}

/// Acts on the live coroutine of the executor that runs here with this identifier.
pub(crate) fn on<R>(id: CoroutineId, act: impl FnOnce(&Scheduler, BlockRef) -> R) -> Option<R> {
    let scheduler = context::here()?;
    scheduler.locked(|| scheduler.on(id, |block| act(scheduler, block)))
}

/// Lets the others on the same level run, and everything more urgent.
///
/// The coroutine goes to the tail of its level.
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// Future of [`yield_now`].
#[derive(Debug)]
#[must_use = "a future does nothing unless awaited"]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Runs `async_main`: the single entry point of AsyncOS (algorithm 1).
///
/// Inside a coroutine it spawns `async_main`. Outside it makes an executor, and returns when
/// `async_main` and everything that was spawned by it have exited.
///
/// ```
/// use corank::{Priority, coroutine_run};
///
/// coroutine_run(async {
///     coroutine_run(async { println!("urgent") }, Priority::MOST_URGENT).unwrap();
///     println!("main goes on first: nothing is interrupted");
/// }, Priority::DEFAULT).unwrap();
/// ```
///
/// # Errors
/// As [`Executor::spawn`](crate::Executor::spawn).
#[cfg(feature = "std")]
pub fn coroutine_run<F>(async_main: F, priority: Priority) -> Result<(), SpawnError>
where
    F: Future + 'static,
{
    if context::here().is_some() {
        return spawn(priority, async_main).map(drop);
    }
    let executor = crate::Executor::with(
        crate::Config::new()
            .notify(crate::park::unparker())
            .clock(crate::park::monotonic),
    );
    drop(executor.spawn(priority, async_main)?);
    while executor.live() > 0 {
        executor.run_until_idle();
        if executor.live() > 0 {
            crate::park::park_until(executor.next_deadline());
        }
    }
    Ok(())
}
