//! The runtime: one shared executor, the threads that serve it, and the reactor that wakes it.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::io;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use corank::{
    CoroutineId, JoinError, Priority, Relaxed, SharedExecutor, SharedHandle, SpawnError, WorkerId,
};

use crate::builder::Builder;
use crate::idle::{Call, Parker, Pause, Watch};
use crate::reactor::Reactor;
use crate::watchdog;
use crate::worker;

/// How long it takes to notice that the last coroutine was cancelled by a thread that is no worker.
const LOOK_WHILE_DRAINING: Duration = Duration::from_millis(10);

/// Owns the result of a coroutine. Await it to get the output; drop it to let the coroutine go on alone.
///
/// It also cancels ([`cancel`](corank::JoinHandle::cancel)), re-prioritises and gives a [`Remote`](corank::Remote). Whoever
/// awaits it lends the coroutine its urgency.
pub type JoinHandle<T> = SharedHandle<T>;

/// Where others find a worker.
#[derive(Clone)]
pub(crate) struct WorkerEntry {
    pub(crate) parker: Arc<Parker>,
    pub(crate) worker: WorkerId,
}

/// What threads, handles and coroutines of one runtime share.
pub(crate) struct Shared {
    pub(crate) executor: SharedExecutor,
    pub(crate) reactor: Arc<Reactor>,
    pub(crate) watch: Watch,
    /// Every worker's, in the order in which they began.
    entries: Mutex<Vec<WorkerEntry>>,
    /// Where the watchdog sleeps, if there is one.
    pub(crate) pause: OnceLock<Pause>,
    /// Workers leave when their poll has ended.
    pub(crate) stopping: AtomicBool,
    /// Somebody waits until there is no coroutine any more.
    draining: AtomicBool,
    drained: (Mutex<()>, Condvar),
}

impl Shared {
    pub(crate) fn entries(&self) -> MutexGuard<'_, Vec<WorkerEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody looks after events any more: wakes a worker that sleeps, if there is one, to do so.
    pub(crate) fn wake_successor(&self) {
        let _ = (self.entries().iter()).any(|entry| entry.parker.wake_sleeper());
    }

    fn wake_all(&self) {
        for entry in self.entries().iter() {
            if entry.parker.wake() == Call::Interrupt {
                self.reactor.interrupt();
            }
        }
        if let Some(pause) = self.pause.get() {
            pause.note_awake();
        }
    }

    /// By a worker, now and then: tells whoever waits for the last coroutine.
    #[inline]
    pub(crate) fn note_progress(&self) {
        if self.draining.load(Ordering::Relaxed) && self.executor.live() == 0 {
            drop(self.drained.0.lock());
            self.drained.1.notify_all();
        }
    }

    /// Waits until there is no coroutine, at most until `end`.
    fn drain(&self, end: Instant) {
        let mut guard = (self.drained.0.lock()).unwrap_or_else(PoisonError::into_inner);
        self.draining.store(true, Ordering::Relaxed);
        // Those who are idle have noted their progress before.
        while self.executor.live() > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            // Workers tell. Another thread that cancels the last one doesn't: that is found at the next look.
            let waited = (self.drained.1).wait_timeout(guard, left.min(LOOK_WHILE_DRAINING));
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

thread_local! {
    /// The runtime whose worker this thread is, or that was entered here.
    static CURRENT: RefCell<Option<Handle>> = const { RefCell::new(None) };
}

/// Coroutines, the workers that run them, and their I/O.
///
/// Any number may exist beside each other. Dropping one stops its workers when their polls end, and cancels what is left.
///
/// ```
/// use corank_linux::{Priority, Runtime, spawn};
///
/// let runtime = Runtime::new()?;
/// let sum = runtime.block_on(async {
///     let urgent = spawn(Priority::MOST_URGENT, async { 40 }).expect("memory");
///     let other = spawn(Priority::DEFAULT, async { 2 }).expect("memory");
///     Ok::<_, corank_linux::JoinError>(urgent.await? + other.await?)
/// });
/// assert_eq!(sum.unwrap(), 42);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Runtime {
    handle: Handle,
    /// By number; those that have been joined are gone.
    threads: Vec<Option<thread::JoinHandle<()>>>,
    /// Numbers of threads that have ended.
    ended: Mutex<mpsc::Receiver<usize>>,
}

/// Tells that a worker's thread ends, however it does.
struct Ends(usize, mpsc::Sender<usize>);

impl Drop for Ends {
    fn drop(&mut self) {
        // Nobody listens to those who were left behind.
        let _ = self.1.send(self.0);
    }
}

/// Reaches a runtime from anywhere: spawns, cancels, re-prioritises. Cheap to clone; it doesn't keep the workers running.
#[derive(Clone)]
pub struct Handle(pub(crate) Arc<Shared>);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.0.executor).finish()
    }
}

impl Runtime {
    /// A runtime with one worker for each processor that this process may use.
    ///
    /// # Errors
    /// No descriptors for the reactor, or no thread could be started.
    pub fn new() -> io::Result<Self> {
        Builder::new().build()
    }

    /// How it is set up.
    pub fn builder() -> Builder {
        Builder::new()
    }

    #[cfg_attr(
        not(feature = "domain"),
        expect(unused_mut, reason = "it gives its domain")
    )]
    pub(crate) fn start(mut builder: Builder) -> io::Result<Self> {
        let config = builder.config();
        #[cfg(feature = "domain")]
        let (config, domain) = match builder.join()? {
            None => (config, None),
            Some(participant) => {
                let published = participant.publish().map_err(io::Error::other)?;
                let config = config.publish_to(published);
                (config, Some((participant, published)))
            }
        };
        let shared = Arc::new(Shared {
            executor: SharedExecutor::with(config),
            reactor: Arc::new(Reactor::new()?),
            watch: Watch::new(),
            entries: Mutex::default(),
            pause: OnceLock::new(),
            stopping: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            drained: (Mutex::new(()), Condvar::new()),
        });
        let (ends, ended) = mpsc::channel();
        let mut runtime = Self {
            handle: Handle(shared.clone()),
            threads: Vec::new(),
            ended: Mutex::new(ended),
        };
        let workers = builder.workers_wanted();
        for number in 0..workers {
            #[cfg(feature = "domain")]
            let domain = domain.clone();
            let (shared, ends) = (shared.clone(), Ends(number, ends.clone()));
            // Should one fail, dropping the runtime ends those before.
            let thread = thread::Builder::new()
                .name(format!("{}-{number}", builder.thread_name()))
                .spawn(move || {
                    let _ends = ends;
                    let _current = enter(Handle(shared.clone()));
                    #[cfg(feature = "domain")]
                    if let Some((participant, published)) = domain
                        && let Ok(worker) = participant.worker(published)
                    {
                        return worker::serve(&shared, &*worker);
                    }
                    worker::serve(&shared, &Relaxed);
                })?;
            runtime.threads.push(Some(thread));
        }
        let blocked_report = builder.blocked_report();
        if workers > 1 || blocked_report.is_some() {
            let ends = Ends(workers, ends);
            let thread = thread::Builder::new()
                .name(format!("{}-watchdog", builder.thread_name()))
                .spawn(move || {
                    let _ends = ends;
                    watchdog::run(&shared, blocked_report.as_ref());
                })?;
            runtime.threads.push(Some(thread));
        }
        Ok(runtime)
    }

    /// A handle that may outlive the runtime; then it refuses.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs `future` as a coroutine of [`Priority::DEFAULT`]; waits for it and returns its output. Other coroutines go on afterwards,
    /// whenever workers run.
    ///
    /// # Panics
    /// If the future panics, with its payload. If it is cancelled: it can name itself, so others can cancel it. If there is no
    /// memory to spawn it.
    pub fn block_on<F>(&self, future: F) -> F::Output
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.block_on_at(Priority::DEFAULT, future)
    }

    /// As [`block_on`](Self::block_on), on another level.
    pub fn block_on_at<F>(&self, priority: Priority, future: F) -> F::Output
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let handle = (self.handle.spawn(priority, future))
            .unwrap_or_else(|error| panic!("block_on cannot spawn its future: {error}"));
        match wait_on_this_thread(handle) {
            Ok(output) => output,
            Err(JoinError::Panicked(payload)) => resume_unwind(payload.into_inner()),
            Err(error) => panic!("block_on has no result: {error}"),
        }
    }

    /// Code on this thread finds the runtime until the guard is dropped: to make sockets and spawn outside of coroutines.
    pub fn enter(&self) -> Entered {
        enter(self.handle.clone())
    }

    /// Ends the runtime: waits up to `limit` until every coroutine has exited, then cancels those that are left. A worker whose
    /// poll doesn't end within `limit` more is left behind.
    ///
    /// # Errors
    /// [`Unfinished`] says how many coroutines were cancelled, and which workers were left behind.
    pub fn shutdown(mut self, limit: Duration) -> Result<(), Unfinished> {
        self.handle.0.drain(Instant::now() + limit);
        let cancelled = self.stop();
        let end = Instant::now() + limit;
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..self.threads.len() {
            let left = end.saturating_duration_since(Instant::now());
            match ended.recv_timeout(left) {
                Ok(number) => drop(self.threads[number].take().map(thread::JoinHandle::join)),
                Err(_) => break,
            }
        }
        let blocked: Vec<String> = (self.threads.drain(..).flatten())
            .map(|thread| thread.thread().name().unwrap_or("?").to_string())
            .collect();
        if cancelled == 0 && blocked.is_empty() {
            return Ok(());
        }
        Err(Unfinished { cancelled, blocked })
    }

    /// Tells the workers to leave, and cancels every coroutine; returns how many there were.
    fn stop(&self) -> usize {
        let shared = &self.handle.0;
        let live = shared.executor.live();
        shared.executor.close();
        shared.stopping.store(true, Ordering::Release);
        shared.wake_all();
        live
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if self.threads.is_empty() && self.handle.0.stopping.load(Ordering::Acquire) {
            return;
        }
        self.stop();
        for thread in self.threads.drain(..).flatten() {
            // A coroutine that drops its own runtime doesn't wait for itself.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

/// What [`Runtime::shutdown`] had to break off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Coroutines that were cancelled.
    pub cancelled: usize,
    /// Names of the threads of workers that were still inside a poll.
    pub blocked: Vec<String>,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} coroutines were cancelled", self.cancelled)?;
        if !self.blocked.is_empty() {
            let names = self.blocked.join(", ");
            write!(
                f,
                "; still inside a poll: {names}: what blocks there belongs into spawn_blocking"
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for Unfinished {}

impl Handle {
    /// The runtime of the coroutine or thread that calls this; `None` outside.
    pub fn current() -> Option<Self> {
        CURRENT
            .try_with(|current| current.borrow().clone())
            .ok()
            .flatten()
    }

    /// Adds a coroutine, ready at the tail of its level.
    ///
    /// # Errors
    /// A full table and exhausted memory are errors, as is a runtime that has gone ([`SpawnError::Closed`]).
    pub fn spawn<F>(
        &self,
        priority: Priority,
        future: F,
    ) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        #[cfg(feature = "tracing")]
        let future = crate::trace::unnamed(priority, future);
        self.0.executor.spawn(priority, future)
    }

    /// Gives a coroutine another base priority, at once. False if it has exited.
    pub fn reprioritize(&self, id: CoroutineId, priority: Priority) -> bool {
        self.0.executor.reprioritize(id, priority)
    }

    /// Cancels a coroutine: unless it is running, its future is dropped here before this returns. False if it was too late.
    pub fn cancel(&self, id: CoroutineId) -> bool {
        self.0.executor.cancel(id)
    }

    /// A coroutine's effective priority: its own, or a more urgent one that it has inherited. `None` if it has gone.
    pub fn priority(&self, id: CoroutineId) -> Option<Priority> {
        self.0.executor.priority(id)
    }

    /// How many coroutines have not exited.
    pub fn live(&self) -> usize {
        self.0.executor.live()
    }

    /// How often the runtime has asked the kernel for events so far.
    pub fn looks(&self) -> u64 {
        self.0.reactor.looks()
    }
}

/// Adds a coroutine to the runtime that runs here, ready at the tail of its level.
///
/// # Errors
/// A full table and exhausted memory; [`SpawnError::NotRunning`] outside a runtime; [`SpawnError::Closed`] in one that stops.
pub fn spawn<F>(priority: Priority, future: F) -> Result<JoinHandle<F::Output>, SpawnError>
where
    F: Future<Output: Send> + Send + 'static,
{
    CURRENT
        .try_with(|current| match &*current.borrow() {
            Some(handle) => handle.spawn(priority, future),
            None => Err(SpawnError::NotRunning),
        })
        .unwrap_or(Err(SpawnError::NotRunning))
}

/// The effective level of the coroutine that runs here.
pub(crate) fn own_priority() -> Option<Priority> {
    let me = corank::current()?;
    CURRENT
        .try_with(|current| current.borrow().as_ref()?.priority(me))
        .ok()
        .flatten()
}

/// The reactor of the runtime that runs here.
pub(crate) fn reactor() -> io::Result<Arc<Reactor>> {
    let reactor = CURRENT.try_with(|current| {
        let current = current.borrow();
        current.as_ref().map(|handle| handle.0.reactor.clone())
    });
    reactor.ok().flatten().ok_or_else(|| {
        io::Error::other(
            "no runtime runs here: do I/O in a coroutine, or call Runtime::enter first",
        )
    })
}

/// Until it is dropped, code on this thread finds the runtime; see [`Runtime::enter`].
#[derive(Debug)]
#[must_use = "the runtime is found until this is dropped"]
pub struct Entered {
    outer: Option<Handle>,
    /// It restores what this thread had.
    _local: std::marker::PhantomData<*const ()>,
}

fn enter(handle: Handle) -> Entered {
    Entered {
        outer: CURRENT.replace(Some(handle)),
        _local: std::marker::PhantomData,
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let outer = self.outer.take();
        let _ = CURRENT.try_with(|current| current.replace(outer));
    }
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a future here, outside of any executor, until it is finished.
fn wait_on_this_thread<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        thread::park();
    }
}
