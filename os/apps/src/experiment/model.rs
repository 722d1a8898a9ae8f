//! The three ways of waiting that the experiments compare.
//!
//! What a task does is written once, as an `async fn` over [`Model`]. A coroutine is that function
//! under the executor. A thread polls the same function once. What it awaits blocks the thread
//! instead of suspending, so that this poll completes it.
use alloc::vec::Vec;
use core::future::poll_fn;
use core::marker::PhantomData;
use core::pin::pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};

use atomic_waker::AtomicWaker;
use corank_user::io::{OwnedFd, Pipe};
use corank_user::process;
use corank_user::sync::Semaphore;
use corank_user::{Error, JoinHandle, Priority, ring, runtime, spawn_with, thread};

/// A way to run many tasks in one process.
pub trait Model: 'static {
    /// Name of the model on the command line and in the rows.
    const NAME: &'static str;
    /// A task that can be joined.
    type Task;
    /// A signal on which a task sleeps until another one tells it to check again.
    type Signal: Signal;

    /// Runs the main task and returns its result.
    fn run<T: 'static>(main: impl Future<Output = T> + 'static) -> T;

    /// Creates a task that runs the future that `make` makes.
    fn spawn<F: Future<Output = ()> + 'static>(
        make: impl FnOnce() -> F + Send + 'static,
    ) -> Self::Task;

    /// Waits until a task has ended.
    fn join(task: Self::Task) -> impl Future<Output = ()>;

    /// Creates pipes.
    fn pipes(count: usize) -> impl Future<Output = Vec<Pipe>>;

    /// Reads a pipe until it ends or the buffer is full, and closes it.
    fn read_and_close(reader: OwnedFd, buffer: Vec<u8>) -> impl Future<Output = Vec<u8>>;

    /// Writes to a pipe and closes it.
    fn write_and_close(writer: OwnedFd, data: Vec<u8>) -> impl Future<Output = ()>;
}

/// A signal of a [`Model`], on which its tasks wait for their turn.
pub trait Signal: Send + Sync + Sized + 'static {
    /// Creates a signal that hasn't been given.
    fn new() -> Result<Self, Error>;

    /// Returns once `turn` has the value `number`.
    ///
    /// The task that sets it gives this signal afterwards.
    fn wait_until(&self, turn: &AtomicUsize, number: usize) -> impl Future<Output = ()>;

    /// Gives the signal.
    fn give(&self);
}

/// Coroutines of the core, which are woken by what they wait for.
#[derive(Debug)]
pub struct Coroutine;

impl Model for Coroutine {
    const NAME: &'static str = "coroutine";
    type Task = JoinHandle<()>;
    type Signal = AtomicWaker;

    fn run<T: 'static>(main: impl Future<Output = T> + 'static) -> T {
        runtime::block_on(main)
    }

    fn spawn<F: Future<Output = ()> + 'static>(
        make: impl FnOnce() -> F + Send + 'static,
    ) -> Self::Task {
        spawn_with(Priority::DEFAULT, make).expect("memory for another coroutine")
    }

    async fn join(task: Self::Task) {
        task.await.expect("the coroutine finishes");
    }

    async fn pipes(count: usize) -> Vec<Pipe> {
        ring::pipes(count)
            .await
            .expect("descriptors and memory for the pipes")
    }

    async fn read_and_close(reader: OwnedFd, buffer: Vec<u8>) -> Vec<u8> {
        let (count, buffer) = ring::read_and_close(reader, buffer).await;
        count.expect("the pipe can be read");
        buffer
    }

    async fn write_and_close(writer: OwnedFd, data: Vec<u8>) {
        let (count, data) = ring::write_and_close(writer, data).await;
        assert_eq!(count, Ok(data.len()), "the pipe takes all");
    }
}

impl Signal for AtomicWaker {
    fn new() -> Result<Self, Error> {
        Ok(Self::new())
    }

    async fn wait_until(&self, turn: &AtomicUsize, number: usize) {
        poll_fn(|context| {
            if turn.load(Ordering::Acquire) == number {
                return Poll::Ready(());
            }
            self.register(context.waker());
            // The signal may have been given between the two.
            if turn.load(Ordering::Acquire) == number {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    fn give(&self) {
        self.wake();
    }
}

/// Runs a future in which no await suspends.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("a thread's calls block, they don't suspend"),
    }
}

/// Threads that do the same; how they wait is `W`.
#[derive(Debug)]
pub struct Threads<W>(PhantomData<W>);

/// A way in which threads wait.
pub trait Waiting: 'static {
    /// Name of the model; see [`Model::NAME`].
    const NAME: &'static str;
    /// Tells whether they stay ready and ask again each time they get the hart.
    const YIELDS: bool;
    /// Signal of the model; see [`Model::Signal`].
    type Signal: Signal;
}

/// Waiting by yielding, as in AsyncOS, section 3: the threads ask again and again.
#[derive(Debug)]
pub struct Yielding;

impl Waiting for Yielding {
    const NAME: &'static str = "thread-yield";
    const YIELDS: bool = true;
    type Signal = Nothing;
}

/// Waiting by sleeping in the kernel until what the threads wait for has happened.
#[derive(Debug)]
pub struct Blocking;

impl Waiting for Blocking {
    const NAME: &'static str = "thread-block";
    const YIELDS: bool = false;
    type Signal = Semaphore;
}

/// Threads that wait by yielding.
pub type ThreadYield = Threads<Yielding>;
/// Threads that wait by blocking.
pub type ThreadBlock = Threads<Blocking>;

impl<W: Waiting> Model for Threads<W> {
    const NAME: &'static str = W::NAME;
    type Task = thread::JoinHandle<()>;
    type Signal = W::Signal;

    fn run<T: 'static>(main: impl Future<Output = T> + 'static) -> T {
        process::wait_by_yielding(W::YIELDS);
        at_once(main)
    }

    fn spawn<F: Future<Output = ()> + 'static>(
        make: impl FnOnce() -> F + Send + 'static,
    ) -> Self::Task {
        thread::spawn(move || at_once(make())).expect("memory for another thread")
    }

    async fn join(task: Self::Task) {
        let joined = if W::YIELDS {
            task.join_yielding()
        } else {
            task.join()
        };
        joined.expect("the thread finishes");
    }

    async fn pipes(count: usize) -> Vec<Pipe> {
        (0..count)
            .map(|_| Pipe::new().expect("descriptors and memory for another pipe"))
            .collect()
    }

    async fn read_and_close(reader: OwnedFd, mut buffer: Vec<u8>) -> Vec<u8> {
        reader.fill(&mut buffer).expect("the pipe can be read");
        buffer
    }

    async fn write_and_close(writer: OwnedFd, data: Vec<u8>) {
        assert_eq!(writer.write(&data), Ok(data.len()), "the pipe takes all");
    }
}

/// The signal of a thread that asks again and again, and so needs none.
#[derive(Debug)]
pub struct Nothing;

impl Signal for Nothing {
    fn new() -> Result<Self, Error> {
        Ok(Self)
    }

    async fn wait_until(&self, turn: &AtomicUsize, number: usize) {
        while turn.load(Ordering::Acquire) != number {
            thread::yield_now();
        }
    }

    fn give(&self) {}
}

impl Signal for Semaphore {
    fn new() -> Result<Self, Error> {
        Self::new(0)
    }

    async fn wait_until(&self, turn: &AtomicUsize, number: usize) {
        while turn.load(Ordering::Acquire) != number {
            self.down();
        }
    }

    fn give(&self) {
        self.up();
    }
}
