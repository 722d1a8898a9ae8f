//! The TCP server of experiments `tcp-models` and `tcp-priority` (COPS, section 5):
//! `tcp-server MODEL...`.
//!
//! Each connection has three tasks, joined by message buffers: one receives requests, one computes,
//! one sends the answers. What they do is written once, over [`Model`]. The four models differ in
//! what runs the tasks and in what serves their calls:
//!
//! | | coroutines of the process | threads of the process |
//! |---|---|---|
//! | served by coroutines of the kernel | `KCUC`, port 1001 | `KCUT`, port 1003 |
//! | served by threads of the kernel | `KTUC`, port 1002 | `KTUT`, port 1004 |
//!
//! `KCUC-bounded`, port 1005, is `KCUC` with a bound on how long a level can starve: one pick in
//! [`RESERVED`] goes round the levels.
//!
//! Coroutines run on as many threads as there are harts, each with an executor of its own. All
//! coroutines of a connection run on one of them.
//!
//! Each model that is named is a process of its own. A model that has nothing to do costs nothing.
//! So the models can be measured in turn within one boot.
//!
//! A connection begins with a [greeting](Greeting). Then each request is a number of eight bytes
//! and a square matrix of `u32`, row by row; the answer is the same number and the square of the
//! matrix. All numbers are little-endian.
#![no_std]
#![no_main]
#![expect(
    clippy::manual_async_fn,
    reason = "an `async fn` would keep its arguments twice"
)]

extern crate alloc;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::pin::pin;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use atomic_waker::AtomicWaker;
use corank_abi::call::{BY_COROUTINE, BY_THREAD, SERVICE_MODEL};
use corank_user::corank::time;
use corank_user::net::{self, TcpListener, TcpStream};
use corank_user::page::WORKERS;
use corank_user::ring::Transferred;
use corank_user::runtime::{self, Global};
use corank_user::sync::Semaphore;
use corank_user::{
    Policy, Priority, calls, information, println, process, raw, spawn_with, thread,
};
use crossbeam_queue::ArrayQueue;

corank_user::main!(main);

/// Requests or answers that a message buffer holds.
const MESSAGES: usize = 4;
/// Connections that may wait to be accepted.
const BACKLOG: usize = 256;
/// Bytes of each of a connection's two buffers in the kernel: room for two of the longest messages.
const SOCKET_BUFFER: usize = 4 << 10;
/// Time for which a server waits that has no memory for a connection.
const PAUSE: Duration = Duration::from_millis(10);
/// The answer to the request that the server ends.
const END: u8 = 2;
/// Frames of memory that are kept free.
///
/// Connections for which there would be fewer are refused.
const RESERVE: u64 = 256;

/// The models, and their ports.
const MODELS: [(&str, u16, usize); 5] = [
    ("KCUC", 1001, BY_COROUTINE),
    ("KTUC", 1002, BY_THREAD),
    ("KCUT", 1003, BY_COROUTINE),
    ("KTUT", 1004, BY_THREAD),
    ("KCUC-bounded", 1005, BY_COROUTINE),
];

/// Number of picks of `KCUC-bounded` of which one is for the next level in turn that has something
/// to do.
const RESERVED: u32 = 8;

fn main() -> i32 {
    if net::status().is_ok_and(|network| network.card == 0) {
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
    listener.set_buffer(SOCKET_BUFFER).expect("it is in range");
    println!("{name} listening");
    match name {
        "KCUT" | "KTUT" => at_once(accept::<Threads>(listener, connect::<Threads>)),
        "KCUC-bounded" => run(Policy::bounded(RESERVED), listener),
        _ => run(Policy::Strict, listener),
    }
}

/// Runs the tasks as coroutines.
///
/// The accepting coroutine is the most urgent, because a greeting says how urgent its connection
/// is.
fn run(policy: Policy, listener: TcpListener) -> i32 {
    let others: Vec<_> = (1..process::harts().min(WORKERS))
        .map_while(|_| Door::open(policy))
        .collect();
    let mut taken = [0; 64];
    let connect = move |stream: &Arc<TcpStream>, greeting: Greeting| {
        let place = &mut taken[usize::from(greeting.level.level())];
        let worker = *place % (others.len() + 1);
        // Each level is spread over all of the threads. If one has more to do than a hart can, the
        // others have as urgent things to do.
        *place += 1;
        let unplaced = match others.get(worker) {
            Some(other) => other.hand_over(stream, greeting),
            None => Some(greeting),
        };
        if let Some(greeting) = unplaced {
            connect::<Coroutines>(stream, greeting);
        }
    };
    let main = accept::<Coroutines>(listener, connect);
    runtime::run_under(policy, Priority::MOST_URGENT, Global::Relaxed, main)
}

/// Queue of the connections that come to another thread's executor.
struct Door {
    connections: ArrayQueue<(Arc<TcpStream>, Greeting)>,
    knock: AtomicWaker,
}

impl Door {
    /// Starts a thread with an executor; returns `None` without memory for it.
    fn open(policy: Policy) -> Option<Arc<Self>> {
        let door = Arc::new(Self {
            connections: ArrayQueue::new(BACKLOG),
            knock: AtomicWaker::new(),
        });
        let theirs = door.clone();
        let work = move || {
            let main = theirs.answer();
            runtime::run_under(policy, Priority::MOST_URGENT, Global::Relaxed, main);
        };
        thread::spawn(work).ok()?;
        Some(door)
    }

    /// Gives a connection to the thread.
    ///
    /// Returns its greeting if too many wait there already.
    fn hand_over(&self, stream: &Arc<TcpStream>, greeting: Greeting) -> Option<Greeting> {
        let refused = self.connections.push((stream.clone(), greeting)).err();
        self.knock.wake();
        refused.map(|(_, greeting)| greeting)
    }

    async fn answer(self: Arc<Self>) {
        loop {
            let (stream, greeting) = poll_fn(|context| {
                self.knock.register(context.waker());
                self.connections.pop().map_or(Poll::Pending, Poll::Ready)
            })
            .await;
            connect::<Coroutines>(&stream, greeting);
        }
    }
}

/// Takes connections until one requests the end of the server.
async fn accept<M: Model>(
    listener: TcpListener,
    mut connect: impl FnMut(&Arc<TcpStream>, Greeting),
) -> i32 {
    loop {
        let Some(stream) = M::accept(&listener).await else {
            // There is no memory until connections have ended.
            M::pause().await;
            continue;
        };
        let stream = Arc::new(stream);
        let (Ok(Greeting::LENGTH), greeting) = M::receive(&stream, Greeting::LENGTH).await else {
            continue;
        };
        match greeting[1] {
            // A refused client learns of it by the end of the stream.
            0 if is_nearly_full() => {}
            0 => connect(&stream, Greeting::new(&greeting)),
            1 => {
                let _ = M::send(&stream, state()).await;
            }
            _ => {
                // This answer tells the client that the request was received. The machine may be
                // off a moment later.
                let _ = M::send(&stream, alloc::vec![END]).await;
                let _ = M::receive(&stream, 1).await;
                return 0;
            }
        }
    }
}

/// The bytes with which a connection begins.
///
/// They are the level of its tasks, its purpose (0: requests, 1: to ask for the server's [`state`],
/// 2: to end it), and the number of rows of its matrices, in two bytes. Four bytes that mean
/// nothing follow, so that requests begin at whole words.
struct Greeting {
    level: Priority,
    rows: usize,
}

impl Greeting {
    const LENGTH: usize = 8;

    fn new(bytes: &[u8]) -> Self {
        Self {
            level: Priority::new(bytes[0]).unwrap_or(Priority::LEAST_URGENT),
            rows: usize::from(u16::from_le_bytes([bytes[2], bytes[3]])),
        }
    }

    /// Returns the bytes of a request, and of an answer.
    fn message(&self) -> usize {
        8 + 4 * self.rows * self.rows
    }
}

/// Returns the server's state: four numbers of eight bytes.
///
/// - bytes of memory that are in use, in frames of programs and the kernel's heap
/// - coroutines of the kernel
/// - bytes of the futures of the last connection's tasks, 0 if they are threads
/// - bytes that the kernel keeps of a read that waits without a coroutine
fn state() -> Vec<u8> {
    let system = information::system().expect("it is there");
    let memory = (system.frames - system.frames_free) * 4096 + system.heap_used;
    let futures = FUTURES.load(Ordering::Relaxed) as u64;
    [memory, system.coroutines, futures, system.waiting_read]
        .into_iter()
        .flat_map(u64::to_le_bytes)
        .collect()
}

/// Bytes of the futures of the last connection's tasks.
static FUTURES: AtomicUsize = AtomicUsize::new(0);

fn is_nearly_full() -> bool {
    !information::system().is_ok_and(|system| system.frames_free >= RESERVE)
}

/// Starts the three tasks of a connection.
///
/// They end with it. Without memory for one of them the connection ends at once.
fn connect<M: Model>(stream: &Arc<TcpStream>, greeting: Greeting) {
    FUTURES.store(0, Ordering::Relaxed);
    let (level, rows, length) = (greeting.level, greeting.rows, greeting.message());
    // A request that comes in several frames is read once. One that is longer than any connection's
    // buffer comes in pieces.
    let _ = stream.set_low_water(length);
    let (Some(requests), Some(answers)) = (Buffer::new(), Buffer::new()) else {
        return;
    };
    let (requests, answers) = (Arc::new(requests), Arc::new(answers));
    let (input, to_worker) = (stream.clone(), requests.clone());
    let (from_receiver, to_sender) = (requests.clone(), answers.clone());
    let (from_worker, output) = (answers.clone(), stream.clone());
    let are_started = M::spawn(level, move || receive::<M>(input, to_worker, length))
        && M::spawn(level, move || work(from_receiver, to_sender, rows))
        && M::spawn(level, move || send::<M>(from_worker, output));
    if !are_started {
        requests.close();
        answers.close();
        let _ = stream.shutdown();
    }
}

// The tasks are small. They are blocks that take over what they are given, not `async fn`s. They
// use `let` rather than `while let`, which would keep its scrutinee as long as its body waits.

fn receive<M: Model>(
    input: Arc<TcpStream>,
    requests: Arc<Buffer<M::Signal>>,
    length: usize,
) -> impl Future<Output = ()> {
    async move {
        loop {
            let (count, request) = M::receive(&input, length).await;
            if count != Ok(length) {
                break;
            }
            requests.put(request).await;
        }
        requests.close();
    }
}

fn work<S: Signal>(
    requests: Arc<Buffer<S>>,
    answers: Arc<Buffer<S>>,
    rows: usize,
) -> impl Future<Output = ()> {
    async move {
        let mut room = Vec::new();
        loop {
            let Some(mut message) = requests.take().await else {
                break;
            };
            square(&mut message, rows, &mut room);
            answers.put(message).await;
        }
        answers.close();
    }
}

fn send<M: Model>(
    answers: Arc<Buffer<M::Signal>>,
    output: Arc<TcpStream>,
) -> impl Future<Output = ()> {
    async move {
        loop {
            let Some(answer) = answers.take().await else {
                break;
            };
            // What can't be sent is taken anyway, so that the other tasks come to their end.
            let _ = M::send(&output, answer).await;
        }
    }
}

/// A few numbers of a row that are computed at once, and the same of the row below.
///
/// Their sums are in registers. What stands in the rows is loaded once for all of those columns,
/// and what stands in the matrix once for both rows.
type Tile = [u32; COLUMNS];
/// Columns of a tile; both 15 and 20 are a multiple of it.
const COLUMNS: usize = 5;

/// Turns a request into its answer.
///
/// `room` is room to work in, for matrices with this many rows alone.
fn square(message: &mut [u8], rows: usize, room: &mut Vec<Tile>) {
    let bytes = &mut message[8..];
    let rows = rows.max(1);
    // What is behind the last number of a row stays 0.
    let tiles = rows.div_ceil(COLUMNS);
    room.resize((rows + 2) * tiles, Tile::default());
    let (matrix, products) = room.split_at_mut(rows * tiles);
    let lines = matrix.chunks_exact_mut(tiles);
    for (line, row) in lines.zip(bytes.chunks_exact(4 * rows)) {
        bytemuck::cast_slice_mut(&mut line.as_flattened_mut()[..rows]).copy_from_slice(row);
    }
    let (first, second) = products.split_at_mut(tiles);
    let pairs = matrix.chunks(2 * tiles);
    for (pair, answers) in pairs.zip(bytes.chunks_mut(2 * 4 * rows)) {
        let (upper, lower) = pair.split_at(tiles);
        // Below the last row there may be none.
        let lower = if lower.is_empty() { upper } else { lower };
        let (upper, lower) = (upper.as_flattened(), lower.as_flattened());
        for (tile, (first, second)) in first.iter_mut().zip(&mut *second).enumerate() {
            let down = matrix.chunks_exact(tiles).map(|row| &row[tile]);
            [*first, *second] = multiply(&upper[..rows], &lower[..rows], down);
        }
        let products = [&*first, &*second];
        for (answer, product) in answers.chunks_exact_mut(4 * rows).zip(products) {
            answer.copy_from_slice(bytemuck::cast_slice(&product.as_flattened()[..rows]));
        }
    }
}

/// Returns the products of two rows and a few columns.
fn multiply<'a>(upper: &[u32], lower: &[u32], down: impl Iterator<Item = &'a Tile>) -> [Tile; 2] {
    let [mut first, mut second] = [Tile::default(); 2];
    for ((right, upper), lower) in down.zip(upper).zip(lower) {
        for ((first, second), right) in first.iter_mut().zip(&mut second).zip(right) {
            *first = first.wrapping_add(upper.wrapping_mul(*right));
            *second = second.wrapping_add(lower.wrapping_mul(*right));
        }
    }
    [first, second]
}

// Numbers are little-endian in messages, and as the processor has them in memory.
const _: () = assert!(cfg!(target_endian = "little"));

/// Messages between two tasks, oldest first: one task puts, one takes.
struct Buffer<S> {
    messages: ArrayQueue<Vec<u8>>,
    closed: AtomicBool,
    /// Given when a message has come, or none will come any more.
    filled: S,
    /// Given when there is room.
    room: S,
}

impl<S: Signal> Buffer<S> {
    /// Creates a buffer; returns `None` without memory for its signals.
    fn new() -> Option<Self> {
        Some(Self {
            messages: ArrayQueue::new(MESSAGES),
            closed: AtomicBool::new(false),
            filled: S::new()?,
            room: S::new()?,
        })
    }

    fn put(&self, message: Vec<u8>) -> impl Future<Output = ()> {
        let mut message = Some(message);
        self.room.wait(move || {
            message = self.messages.push(message.take()?).err();
            message.is_none().then(|| self.filled.give())
        })
    }

    /// Takes the next message; returns `None` when there will be no more.
    fn take(&self) -> impl Future<Output = Option<Vec<u8>>> {
        self.filled.wait(|| {
            // In this order: what was put before it was closed is found.
            let closed = self.closed.load(Ordering::Acquire);
            let message = self.messages.pop();
            if message.is_some() {
                self.room.give();
            }
            (message.is_some() || closed).then_some(message)
        })
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.filled.give();
    }
}

/// A signal on which one task sleeps until another one tells it to try again.
trait Signal: Send + Sync + Sized + 'static {
    /// Creates a signal; returns `None` without memory for it.
    fn new() -> Option<Self>;

    /// Tries `attempt` until it has a result: at once, and after each time that the signal is
    /// given.
    fn wait<T>(&self, attempt: impl FnMut() -> Option<T>) -> impl Future<Output = T>;

    fn give(&self);
}

impl Signal for AtomicWaker {
    fn new() -> Option<Self> {
        Some(Self::new())
    }

    fn wait<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> impl Future<Output = T> {
        poll_fn(move |context| {
            if let Some(result) = attempt() {
                return Poll::Ready(result);
            }
            self.register(context.waker());
            // The signal may have been given between the two.
            attempt().map_or(Poll::Pending, Poll::Ready)
        })
    }

    fn give(&self) {
        self.wake();
    }
}

/// For threads: a semaphore of the kernel, which is entered only if a thread sleeps.
struct Sleep {
    semaphore: Semaphore,
    /// Tells whether a thread sleeps, or is about to.
    waits: AtomicBool,
}

impl Signal for Sleep {
    fn new() -> Option<Self> {
        Some(Self {
            semaphore: Semaphore::new(0).ok()?,
            waits: AtomicBool::new(false),
        })
    }

    async fn wait<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(result) = attempt() {
                return result;
            }
            self.waits.store(true, Ordering::SeqCst);
            // The signal may have been given between the two. Then the semaphore is up, now or the
            // next time.
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

    /// Starts a task that runs the future that `make` makes; returns false without memory for it.
    fn spawn<F: Future<Output = ()> + 'static>(
        level: Priority,
        make: impl FnOnce() -> F + Send + 'static,
    ) -> bool;

    /// Waits for a connection.
    fn accept(listener: &TcpListener) -> impl Future<Output = Option<TcpStream>>;

    /// Lets some time pass.
    fn pause() -> impl Future<Output = ()>;

    /// Reads this many bytes; fewer at the end.
    fn receive(stream: &TcpStream, length: usize) -> impl Future<Output = Transferred>;

    /// Writes all of it; an error if the connection was broken off.
    fn send(stream: &TcpStream, data: Vec<u8>) -> impl Future<Output = Transferred>;
}

/// Coroutines of one thread.
struct Coroutines;

impl Model for Coroutines {
    type Signal = AtomicWaker;

    fn spawn<F: Future<Output = ()> + 'static>(
        level: Priority,
        make: impl FnOnce() -> F + Send + 'static,
    ) -> bool {
        FUTURES.fetch_add(size_of::<F>(), Ordering::Relaxed);
        spawn_with(level, make).is_ok()
    }

    async fn accept(listener: &TcpListener) -> Option<TcpStream> {
        listener.accept().await.ok()
    }

    fn pause() -> impl Future<Output = ()> {
        time::sleep(PAUSE)
    }

    fn receive(stream: &TcpStream, length: usize) -> impl Future<Output = Transferred> {
        stream.read_exact(Vec::with_capacity(length), length)
    }

    fn send(stream: &TcpStream, data: Vec<u8>) -> impl Future<Output = Transferred> {
        stream.write(data)
    }
}

/// Threads of the kernel's.
struct Threads;

/// Runs a future in which no await suspends.
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
    ) -> bool {
        // Threads have no level of their own.
        thread::spawn(move || at_once(make())).is_ok()
    }

    async fn accept(listener: &TcpListener) -> Option<TcpStream> {
        listener.accept_blocking().ok()
    }

    async fn pause() {
        let _ = calls::sleep(PAUSE.as_millis() as usize);
    }

    async fn receive(stream: &TcpStream, length: usize) -> Transferred {
        let mut buffer = alloc::vec![0; length];
        let mut count = 0;
        while count < length {
            match stream.read_blocking(&mut buffer[count..]) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) => return (Err(error), buffer),
            }
        }
        (Ok(count), buffer)
    }

    async fn send(stream: &TcpStream, data: Vec<u8>) -> Transferred {
        (stream.write_blocking(&data), data)
    }
}
