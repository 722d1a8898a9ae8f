//! The TCP server of experiments `tcp-models` and `tcp-priority` (seed 002, figure 5): `tcp-server MODEL...`.
//!
//! Each connection has three tasks, joined by message buffers: one receives requests, one computes, one sends the answers. What they do is
//! written once, over [`Model`]; the four models differ in who runs them and in who serves their calls:
//!
//! | | coroutines of the process | threads of the process |
//! |---|---|---|
//! | served by coroutines of the kernel | `KCUC`, port 1001 | `KCUT`, port 1003 |
//! | served by threads of the kernel | `KTUC`, port 1002 | `KTUT`, port 1004 |
//!
//! `KCUC-bounded`, port 1005, is `KCUC` with a bound on how long a level can starve: one pick in [`RESERVED`] goes round the levels.
//!
//! Each model that is named is a process of its own; one that has nothing to do costs nothing. So the models can be measured in turn within
//! one boot.
//!
//! A connection begins with a [greeting](Greeting). Then each request is a number of eight bytes and a square matrix of `u32`, row by row;
//! the answer is the same number and the square of the matrix. All numbers are little-endian.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::pin::pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};

use atomic_waker::AtomicWaker;
use corank_abi::call::{BY_COROUTINE, BY_THREAD, SERVICE_MODEL};
use corank_user::net::{self, TcpListener, TcpStream};
use corank_user::runtime::{self, Global};
use corank_user::sync::Semaphore;
use corank_user::{Policy, Priority, information, println, process, raw, spawn_with, thread};
use crossbeam_queue::ArrayQueue;

corank_user::main!(main);

/// Requests or answers that a message buffer holds.
const MESSAGES: usize = 4;
/// Connections that may wait to be accepted.
const BACKLOG: usize = 256;

/// The models, and their ports.
const MODELS: [(&str, u16, usize); 5] = [
    ("KCUC", 1001, BY_COROUTINE),
    ("KTUC", 1002, BY_THREAD),
    ("KCUT", 1003, BY_COROUTINE),
    ("KTUT", 1004, BY_THREAD),
    ("KCUC-bounded", 1005, BY_COROUTINE),
];

/// Every so many picks of `KCUC-bounded` one is for the next level in turn that has something to do.
const RESERVED: u32 = 8;

fn main() -> i32 {
    if net::status().card == 0 {
        println!("this machine has no network card");
        return 1;
    }
    let mut children = Vec::new();
    for name in corank_user::arguments().skip(1) {
        let Some(&(_, port, service)) = MODELS.iter().find(|model| model.0 == name) else {
            println!(
                "tcp-server: there is no model {name}; there are KCUC, KTUC, KCUT, KTUT and KCUC-bounded"
            );
            return 2;
        };
        let child = process::spawn(move || serve(name, port, service));
        children.push(child.expect("memory for a process"));
    }
    children
        .into_iter()
        .map(|child| process::wait(child).map_or(1, |ended| ended.code))
        .fold(0, |all, code| all | code)
}

fn serve(name: &str, port: u16, service: usize) -> i32 {
    // SAFETY: the arguments are numbers.
    unsafe { raw::system_call(SERVICE_MODEL, [service, 0, 0]) };
    let listener = TcpListener::with_backlog(port, BACKLOG).expect("the port is free");
    println!("{name} listening");
    match name {
        "KCUT" | "KTUT" => at_once(accept::<Threads>(listener)),
        "KCUC-bounded" => run(Policy::bounded(RESERVED), listener),
        _ => run(Policy::Strict, listener),
    }
}

/// Runs the tasks as coroutines. Who accepts is the most urgent: a greeting says how urgent its connection is.
fn run(policy: Policy, listener: TcpListener) -> i32 {
    let main = accept::<Coroutines>(listener);
    runtime::run_under(policy, Priority::MOST_URGENT, Global::Relaxed, main)
}

/// Takes connections until one greets with the wish that the server ends.
async fn accept<M: Model>(listener: TcpListener) -> i32 {
    loop {
        let Some(stream) = M::accept(&listener).await else {
            return 1;
        };
        let stream = Arc::new(stream);
        let Some(greeting) = M::receive(&stream, Vec::with_capacity(4), 4).await else {
            continue;
        };
        match greeting[1] {
            0 => connect::<M>(&stream, &Greeting::new(&greeting)),
            1 => {
                let _ = M::send(&stream, memory().to_le_bytes().to_vec()).await;
            }
            _ => return 0,
        }
    }
}

/// What a connection begins with: the level of its tasks, what it is for (0: requests, 1: to ask how many bytes of memory are in use, as
/// eight bytes, 2: to end the server), and the number of rows of its matrices, in two bytes.
struct Greeting {
    level: Priority,
    rows: usize,
}

impl Greeting {
    fn new(bytes: &[u8]) -> Self {
        Self {
            level: Priority::new(bytes[0]).unwrap_or(Priority::LEAST_URGENT),
            rows: usize::from(u16::from_le_bytes([bytes[2], bytes[3]])),
        }
    }

    /// Bytes of a request, and of an answer.
    fn message(&self) -> usize {
        8 + 4 * self.rows * self.rows
    }
}

/// Bytes of memory that are in use: frames of programs, and the kernel's heap.
fn memory() -> u64 {
    let system = information::system().expect("it is there");
    (system.frames - system.frames_free) * 4096 + system.heap_used
}

/// Starts the three tasks of a connection. They end with it.
fn connect<M: Model>(stream: &Arc<TcpStream>, greeting: &Greeting) {
    let (level, rows, length) = (greeting.level, greeting.rows, greeting.message());
    let requests = Arc::new(Buffer::<M::Signal>::new());
    let answers = Arc::new(Buffer::<M::Signal>::new());
    let (input, to_worker) = (stream.clone(), requests.clone());
    M::spawn(level, move || receive::<M>(input, to_worker, length));
    let to_sender = answers.clone();
    M::spawn(level, move || work(requests, to_sender, rows));
    let output = stream.clone();
    M::spawn(level, move || send::<M>(answers, output));
}

async fn receive<M: Model>(input: Arc<TcpStream>, requests: Arc<Buffer<M::Signal>>, length: usize) {
    while let Some(request) = M::receive(&input, Vec::with_capacity(length), length).await {
        requests.put(request).await;
    }
    requests.close();
}

async fn work<S: Signal>(requests: Arc<Buffer<S>>, answers: Arc<Buffer<S>>, rows: usize) {
    while let Some(request) = requests.take().await {
        answers.put(square(&request, rows)).await;
    }
    answers.close();
}

async fn send<M: Model>(answers: Arc<Buffer<M::Signal>>, output: Arc<TcpStream>) {
    while let Some(answer) = answers.take().await {
        // What can't be sent is taken all the same, so that the others come to their end.
        let _ = M::send(&output, answer).await;
    }
}

/// The answer to a request.
fn square(request: &[u8], rows: usize) -> Vec<u8> {
    let (number, matrix) = request.split_at(8);
    let matrix: Vec<u32> = matrix
        .as_chunks::<4>()
        .0
        .iter()
        .map(|bytes| u32::from_le_bytes(*bytes))
        .collect();
    let mut answer = Vec::with_capacity(request.len());
    answer.extend_from_slice(number);
    for row in matrix.chunks_exact(rows.max(1)) {
        for column in 0..rows {
            let sum = (0..rows).fold(0_u32, |sum, at| {
                sum.wrapping_add(row[at].wrapping_mul(matrix[at * rows + column]))
            });
            answer.extend_from_slice(&sum.to_le_bytes());
        }
    }
    answer
}

/// Messages between two tasks, oldest first: one puts, one takes.
struct Buffer<S> {
    messages: ArrayQueue<Vec<u8>>,
    closed: AtomicBool,
    /// Given when a message has come, or none will come any more.
    filled: S,
    /// Given when there is room.
    room: S,
}

impl<S: Signal> Buffer<S> {
    fn new() -> Self {
        Self {
            messages: ArrayQueue::new(MESSAGES),
            closed: AtomicBool::new(false),
            filled: S::new(),
            room: S::new(),
        }
    }

    async fn put(&self, message: Vec<u8>) {
        let mut message = Some(message);
        self.room
            .wait(|| {
                let result = self.messages.push(message.take()?);
                message = result.err();
                message.is_none().then_some(())
            })
            .await;
        self.filled.give();
    }

    /// The next message; `None` when there will be none any more.
    async fn take(&self) -> Option<Vec<u8>> {
        let message = self
            .filled
            .wait(|| {
                // In this order: what was put before it was closed is found.
                let closed = self.closed.load(Ordering::Acquire);
                match self.messages.pop() {
                    Some(message) => Some(Some(message)),
                    None => closed.then_some(None),
                }
            })
            .await;
        self.room.give();
        message
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.filled.give();
    }
}

/// What one task sleeps on until another one tells it to look again.
trait Signal: Send + Sync + 'static {
    fn new() -> Self;

    /// Tries `attempt` until it has a result: at once, and after each time that the signal is given.
    fn wait<T>(&self, attempt: impl FnMut() -> Option<T>) -> impl Future<Output = T>;

    fn give(&self);
}

impl Signal for AtomicWaker {
    fn new() -> Self {
        Self::new()
    }

    async fn wait<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> T {
        poll_fn(|context| {
            if let Some(result) = attempt() {
                return Poll::Ready(result);
            }
            self.register(context.waker());
            // It may have been given between the two.
            attempt().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    fn give(&self) {
        self.wake();
    }
}

/// For threads: a semaphore of the kernel, which is entered only if someone sleeps.
struct Sleep {
    semaphore: Semaphore,
    /// Someone sleeps, or is about to.
    waits: AtomicBool,
}

impl Signal for Sleep {
    fn new() -> Self {
        Self {
            semaphore: Semaphore::new(0).expect("memory for a semaphore"),
            waits: AtomicBool::new(false),
        }
    }

    async fn wait<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(result) = attempt() {
                return result;
            }
            self.waits.store(true, Ordering::SeqCst);
            // It may have been given between the two: then the semaphore is up, now or the next time.
            if let Some(result) = attempt() {
                return result;
            }
            self.semaphore.down();
        }
    }

    fn give(&self) {
        if self.waits.swap(false, Ordering::SeqCst) {
            self.semaphore.up();
        }
    }
}

/// A way to run the tasks.
trait Model: 'static {
    type Signal: Signal;

    /// Starts a task that runs the future that `make` makes.
    fn spawn<F: Future<Output = ()> + 'static>(
        level: Priority,
        make: impl FnOnce() -> F + Send + 'static,
    );

    /// Waits for a connection.
    fn accept(listener: &TcpListener) -> impl Future<Output = Option<TcpStream>>;

    /// Reads exactly so many bytes; `None` at the end, or when the connection was broken off.
    fn receive(
        stream: &TcpStream,
        buffer: Vec<u8>,
        length: usize,
    ) -> impl Future<Output = Option<Vec<u8>>>;

    /// Writes all of it; false if the connection was broken off.
    fn send(stream: &TcpStream, data: Vec<u8>) -> impl Future<Output = bool>;
}

/// Coroutines of one thread.
struct Coroutines;

impl Model for Coroutines {
    type Signal = AtomicWaker;

    fn spawn<F: Future<Output = ()> + 'static>(
        level: Priority,
        make: impl FnOnce() -> F + Send + 'static,
    ) {
        drop(spawn_with(level, make).expect("memory for a coroutine"));
    }

    async fn accept(listener: &TcpListener) -> Option<TcpStream> {
        listener.accept().await.ok()
    }

    async fn receive(stream: &TcpStream, buffer: Vec<u8>, length: usize) -> Option<Vec<u8>> {
        let (count, data) = stream.read_exact(buffer, length).await;
        (count == Ok(length)).then_some(data)
    }

    async fn send(stream: &TcpStream, data: Vec<u8>) -> bool {
        stream.write_all(data).await.is_ok()
    }
}

/// Threads of the kernel's.
struct Threads;

/// Runs a future none of whose awaits suspends.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("a thread's calls block, they don't suspend"),
    }
}

impl Model for Threads {
    type Signal = Sleep;

    fn spawn<F: Future<Output = ()> + 'static>(
        _: Priority,
        make: impl FnOnce() -> F + Send + 'static,
    ) {
        // Threads have no level of their own.
        let started = thread::spawn(move || at_once(make()));
        drop(started.expect("memory for a thread"));
    }

    async fn accept(listener: &TcpListener) -> Option<TcpStream> {
        listener.accept_blocking().ok()
    }

    async fn receive(stream: &TcpStream, mut buffer: Vec<u8>, length: usize) -> Option<Vec<u8>> {
        buffer.resize(length, 0);
        let mut count = 0;
        while count < length {
            match stream.read_blocking(&mut buffer[count..]) {
                Ok(more @ 1..) => count += more,
                _ => return None,
            }
        }
        Some(buffer)
    }

    async fn send(stream: &TcpStream, data: Vec<u8>) -> bool {
        stream.write_blocking(&data) == Ok(data.len())
    }
}
