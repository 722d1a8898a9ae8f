//! The runtime: one shared executor, the threads that serve it, and the reactor that wakes them.

use std::any::type_name;
use std::fmt;
use std::future::Future;
use std::io;
use std::mem;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use corank::{JoinError, Priority, Relaxed};

use crate::block_on::{self, Handoff};
use crate::builder::Builder;
use crate::class::Class;
use crate::executor::Executor;
use crate::external_scheduler::ExternalScheduler;
use crate::handle::{Entered, Handle, enter};
use crate::shared::Shared;
use crate::snapshot::Metrics;
use crate::{blocking, bulk, spare, watchdog, worker};

/// Owns coroutines, the workers that run them, and their I/O.
///
/// Any number of runtimes may exist in one process. Dropping one stops its workers after the polls
/// that they are in, and cancels the remaining coroutines.
///
/// # After a fork
/// A child process has none of the runtime's threads. Dropping the runtime or what is registered
/// with it, in the child, leaves the parent's alone and releases only the child's descriptors. The
/// child's coroutines are not dropped. `spawn` and registrations fail there, and
/// [`block_on`](Self::block_on) panics. A child that needs a runtime calls `exec` first: other
/// state of this process, such as its threads for blocking calls, is not made anew.
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
    /// By number; `None` once joined.
    threads: Vec<Option<thread::JoinHandle<()>>>,
    /// Receives the number of each thread that ends.
    ended: Mutex<mpsc::Receiver<usize>>,
    /// The workers, if they are tasks of tokio instead of threads.
    #[cfg(feature = "tokio")]
    hosts: Option<crate::tokio::Hosts>,
}

/// Notifies the runtime that a thread ends, also if it panics.
struct EndNotice(usize, mpsc::Sender<usize>);

impl Drop for EndNotice {
    fn drop(&mut self) {
        // The runtime is gone if it left this thread behind.
        let _ = self.1.send(self.0);
    }
}

/// What a thread of the runtime does.
#[derive(Clone, Copy)]
enum Task {
    Work(usize),
    ActAsSpare(usize),
    DoBulk(Priority, Class, usize),
}

/// Starts the threads that run coroutines.
struct Threads {
    shared: Arc<Shared>,
    ends: mpsc::Sender<usize>,
    /// The first part of their names.
    name: String,
    #[cfg(feature = "domain")]
    domain: Option<(corank_domain::Participant, &'static corank::Published)>,
}

impl Threads {
    /// # Errors
    /// Fails if the builder asked for something that a runtime cannot have that hosts tokio.
    #[cfg(feature = "tokio")]
    fn assert_alone(&self) -> io::Result<()> {
        #[cfg(feature = "domain")]
        let is_in_domain = self.domain.is_some();
        #[cfg(not(feature = "domain"))]
        let is_in_domain = false;
        let what = if is_in_domain {
            "join a domain"
        } else if self.shared.bulk.is_some() {
            "have threads of a class for bulk work"
        } else {
            return Ok(());
        };
        let message = format!("a runtime that hosts tokio cannot {what}: choose one of them");
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }

    /// Shows the state of the threads to the watchers of the domain, if there is one.
    fn report(&self, now: u64) {
        #[cfg(feature = "domain")]
        if let Some((participant, _)) = &self.domain {
            self.shared.report_to(participant, now);
        }
        #[cfg(not(feature = "domain"))]
        let _ = now;
    }

    /// Starts the thread with this number.
    fn start(&self, number: usize, name: &str, task: Task) -> io::Result<thread::JoinHandle<()>> {
        #[cfg(feature = "domain")]
        let domain = self.domain.clone();
        let (shared, ends) = (self.shared.clone(), EndNotice(number, self.ends.clone()));
        thread::Builder::new()
            .name(format!("{}-{name}", self.name))
            .spawn(move || {
                let _ends = ends;
                let _current = enter(Handle(shared.clone()));
                #[cfg(feature = "domain")]
                if let Some((participant, published)) = domain
                    && let Ok(worker) = participant.worker(published)
                {
                    return task.run(&shared, &*worker);
                }
                task.run(&shared, &Relaxed);
            })
    }
}

impl Task {
    fn run(self, shared: &Arc<Shared>, view: &impl ExternalScheduler) {
        match self {
            Self::Work(number) => worker::serve(shared, view, number),
            Self::ActAsSpare(number) => spare::serve(shared, view, number),
            Self::DoBulk(from, class, number) => bulk::serve(shared, view, (from, class), number),
        }
    }
}

impl Builder {
    /// Starts the workers.
    ///
    /// # Errors
    /// Fails if there are no descriptors for the reactor, if a thread cannot be started, or if the
    /// domain cannot be joined. Threads that were started have ended again. Fails with
    /// [`Unsupported`](io::ErrorKind::Unsupported) for settings that exclude each other.
    pub fn build(self) -> io::Result<Runtime> {
        Runtime::start(self)
    }
}

impl Runtime {
    /// Starts a runtime with one worker for each processor that this process may use.
    ///
    /// # Errors
    /// Fails if there are no descriptors for the reactor, or if a thread cannot be started.
    pub fn new() -> io::Result<Self> {
        Builder::new().build()
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> Builder {
        Builder::new()
    }

    #[cfg_attr(
        not(any(feature = "domain", feature = "metrics", feature = "recording")),
        expect(unused_mut, reason = "it gives its domain, and gets an observer")
    )]
    fn start(mut builder: Builder) -> io::Result<Self> {
        let order = builder.checked_order()?;
        #[cfg(feature = "domain")]
        let domain = match builder.join()? {
            None => None,
            Some(participant) => {
                let published = participant.publish().map_err(io::Error::other)?;
                Some((participant, published))
            }
        };
        // Those in the page of the domain, if there is one, so that each poll is counted once.
        #[cfg(feature = "domain")]
        let page = (domain.as_ref()).map(|(participant, _)| participant.figures());
        #[cfg(not(feature = "domain"))]
        let page = None;
        let figures = builder.count_coroutines(page);
        #[cfg(feature = "recording")]
        let recorder = builder.start_recording()?;
        let config = |capacity| {
            let config = builder.config(capacity);
            #[cfg(feature = "domain")]
            if let Some((_, published)) = domain {
                return config.publish_to(published);
            }
            config
        };
        let (workers, capacity) = (builder.workers_wanted(), builder.capacity_wanted());
        let executor = Executor::new(order, workers, capacity, config);
        let shared = Shared::new(executor, &builder, figures)?;
        #[cfg(feature = "recording")]
        let shared = shared.recorded_by(recorder);
        let shared = Arc::new(shared);
        shared.publish();
        let (ends, ended) = mpsc::channel();
        let mut runtime = Self {
            handle: Handle(shared.clone()),
            threads: Vec::new(),
            ended: Mutex::new(ended),
            #[cfg(feature = "tokio")]
            hosts: None,
        };
        let threads = Threads {
            shared,
            ends,
            name: builder.thread_name().to_string(),
            #[cfg(feature = "domain")]
            domain,
        };
        #[cfg(feature = "tokio")]
        if let Some(level) = builder.tokio_level() {
            threads.assert_alone()?;
            let hosts = crate::tokio::start(&threads.shared, workers, &threads.name, level)?;
            runtime.hosts = Some(hosts);
            runtime.start_watchdog(threads, &builder)?;
            return Ok(runtime);
        }
        for number in 0..workers {
            // If one fails, dropping the runtime ends those before.
            let thread = threads.start(number, &number.to_string(), Task::Work(number))?;
            runtime.threads.push(Some(thread));
        }
        if let Some((from, class)) = threads.shared.bulk {
            blocking::set_bulk(from, class);
            for number in 0..workers {
                let (name, task) = (format!("bulk-{number}"), Task::DoBulk(from, class, number));
                let thread = threads.start(runtime.threads.len(), &name, task)?;
                runtime.threads.push(Some(thread));
            }
        }
        #[cfg(feature = "domain")]
        let reports = threads.domain.is_some();
        #[cfg(not(feature = "domain"))]
        let reports = false;
        let finds_long_polls = workers > 1
            || builder.blocked_report().is_some()
            || builder.spare_after().is_some()
            || figures.is_some();
        if finds_long_polls || reports {
            runtime.start_watchdog(threads, &builder)?;
        }
        Ok(runtime)
    }

    /// Starts the watchdog, which starts spare workers if there are to be any.
    fn start_watchdog(&mut self, threads: Threads, builder: &Builder) -> io::Result<()> {
        let blocked_report = builder.blocked_report();
        let has_spares = builder.spare_after().is_some();
        let others = self.threads.len();
        let ends = EndNotice(others, threads.ends.clone());
        let thread = thread::Builder::new()
            .name(format!("{}-watchdog", threads.name))
            .spawn(move || {
                let _ends = ends;
                let start_spare = |number| {
                    let name = format!("spare-{number}");
                    threads.start(others + 1 + number, &name, Task::ActAsSpare(number))
                };
                let start_spare: Option<&watchdog::StartSpare<'_>> =
                    has_spares.then_some(&start_spare);
                let report = |now| threads.report(now);
                let shared = &threads.shared;
                watchdog::run(shared, blocked_report.as_ref(), start_spare, report);
            })?;
        self.threads.push(Some(thread));
        Ok(())
    }

    /// Returns a handle. It may outlive the runtime; then it refuses to spawn.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Returns the figures of this moment: of workers, spare workers and coroutines.
    ///
    /// See [`Handle::metrics`], which coroutines and other threads call.
    pub fn metrics(&self) -> Metrics {
        self.handle.metrics()
    }

    /// Runs `future` as a coroutine of [`Priority::DEFAULT`], waits for it and returns its output.
    ///
    /// Other coroutines continue afterwards, as long as the runtime exists.
    ///
    /// The future need not be `Send`, and may borrow: it is polled on the calling thread. A worker
    /// that picks its coroutine hands the poll over and waits for its end, which takes 10 to 20
    /// microseconds each time. Work of many short polls belongs into a [spawned](Handle::spawn)
    /// coroutine, for whose handle `block_on` waits.
    ///
    /// ```
    /// use std::{error::Error, rc::Rc};
    ///
    /// fn main() -> Result<(), Box<dyn Error>> {
    ///     let runtime = corank_linux::Runtime::new()?;
    ///     let words = vec!["borrowed", "by the future"];
    ///     let length = runtime.block_on(async {
    ///         let count = Rc::new(words.len());
    ///         corank_linux::yield_now().await;
    ///         Ok::<_, Box<dyn Error>>(*count)
    ///     })?;
    ///     assert_eq!(length, words.len());
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Panics
    /// Panics on a thread that runs coroutines of this or another runtime: it would wait for
    /// itself. [`spawn_blocking`](crate::spawn_blocking) has threads that may wait.
    ///
    /// Panics with the payload of the future if that panics. Panics if the future is cancelled,
    /// which any code with its identifier can do, if there is no memory to spawn it, and in a child
    /// process that was forked from the runtime's.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.block_on_at(Priority::DEFAULT, future)
    }

    /// Runs `future` as [`block_on`](Self::block_on) does, on the given level.
    #[track_caller]
    pub fn block_on_at<F: Future>(&self, priority: Priority, future: F) -> F::Output {
        block_on::assert_may_wait();
        let shared = &self.handle.0;
        let (handoff, proxy) = Handoff::new();
        #[cfg(feature = "tracing")]
        let future = crate::span::coroutine(type_name::<F>(), priority, future);
        let handle = (self.handle.spawn_bare(priority, proxy))
            .unwrap_or_else(|error| panic!("block_on cannot spawn its future: {error}"));
        let _name = shared.name_root(handle.id(), type_name::<F>());
        #[cfg(feature = "recording")]
        if let Some(recorder) = shared.recorder {
            recorder.name(handle.id(), type_name::<F>());
        }
        let result = {
            let _current = self.enter();
            #[cfg(feature = "tokio")]
            let _tokio = shared.tokio.get().map(|tokio| tokio.handle.enter());
            handoff.serve(future)
        };
        // The future is gone. When this is over, so is its coroutine.
        let end = wait_on_this_thread(handle);
        match result {
            Ok(Some(output)) => output,
            Ok(None) => panic!(
                "block_on has no result: {}",
                end.err().unwrap_or(JoinError::Cancelled)
            ),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Makes this runtime current on this thread until the guard is dropped: to create sockets and
    /// spawn outside of coroutines.
    pub fn enter(&self) -> Entered {
        enter(self.handle.clone())
    }

    /// Ends the runtime: waits up to `limit` until every coroutine has exited, then cancels the
    /// remaining ones.
    ///
    /// A worker whose poll does not end within another `limit` is left behind.
    ///
    /// Does nothing in a child process that was forked from the runtime's.
    ///
    /// # Errors
    /// Returns [`Unfinished`] if coroutines were cancelled or workers were left behind.
    pub fn shutdown(mut self, limit: Duration) -> Result<(), Unfinished> {
        if self.handle.0.reactor.is_in_child() {
            return Ok(());
        }
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
        // Others end by themselves, but Linux may have left them aside until now.
        let in_polls = self.handle.0.threads_in_polls();
        #[cfg_attr(
            not(feature = "tokio"),
            expect(unused_mut, reason = "it adds its threads")
        )]
        let mut blocked: Vec<String> = (self.threads.drain(..).flatten())
            .filter(|thread| in_polls.contains(&thread.thread().id()))
            .map(|thread| thread.thread().name().unwrap_or("?").to_string())
            .collect();
        #[cfg(feature = "tokio")]
        if let Some(hosts) = self.hosts.take() {
            blocked.extend(hosts.shut_down(end));
        }
        if cancelled == 0 && blocked.is_empty() {
            return Ok(());
        }
        Err(Unfinished { cancelled, blocked })
    }

    /// Stops the workers and cancels every coroutine; returns how many there were.
    fn stop(&mut self) -> usize {
        let shared = &self.handle.0;
        let live = shared.executor.live();
        shared.executor.close();
        shared.stopping.store(true, Ordering::Release);
        shared.wake_all();
        // Their numbers follow those of the other threads.
        (self.threads).extend(shared.stop_spares().into_iter().map(Some));
        // Those that sleep for a while end now.
        for thread in self.threads.iter().flatten() {
            thread.thread().unpark();
        }
        live
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if self.handle.0.reactor.is_in_child() {
            // The threads are the parent's. This process has only what their handles refer to,
            // which the C library uses for new threads.
            self.threads.drain(..).for_each(mem::forget);
            #[cfg(feature = "tokio")]
            mem::forget(self.hosts.take());
            return;
        }
        if self.threads.is_empty() && self.handle.0.stopping.load(Ordering::Acquire) {
            return;
        }
        self.stop();
        for thread in self.threads.drain(..).flatten() {
            // A coroutine that drops its own runtime does not wait for itself.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

/// Reports what [`Runtime::shutdown`] cancelled and left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Counts the coroutines that were cancelled.
    pub cancelled: usize,
    /// Names the threads of workers that were still inside a poll.
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

/// Unparks a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a future on this thread, outside of any executor, until it is ready.
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
