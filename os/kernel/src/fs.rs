//! The file system: FAT on the disk.
//!
//! One coroutine, the *service*, owns the volume and performs one operation after the other. A
//! coroutine that needs one leaves it in a queue and waits for the reply. So an operation is
//! completed even if its process is killed meanwhile, and no directory is left half changed. The
//! memory of the process is touched only by the process's own coroutine.
//!
//! The most urgent operation is next. One that grows with what it is asked for is performed in
//! steps, and more urgent ones go between them. While one waits, the service runs at the level of
//! the most urgent waiter, so nothing urgent waits behind what is not. A file that was dropped open
//! is closed as an operation of that level, before others of it. The end of a process waits for its
//! files. An operation keeps the level that it was asked for at, because it does not last long.
mod blocks;
mod file;
pub(crate) mod path;
mod sectors;
mod volume;

use crate::device::disk;
use crate::executor::{current_level, executor, priority};
use crate::failure::{Failure, Result};
use crate::lock::Mutex;
use crate::memory::account::{Account, Charge};
use crate::pace::checkpoint;
use crate::stretch::{self, Work};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use corank::{Priority, Remote};
use corank_abi::error::{INPUT_OUTPUT, NO_DEVICE};
use corank_abi::file::{DirectoryEntry, FileStatus, PATH_SIZE, Space};
use core::future::poll_fn;
use core::pin::pin;
use core::task::{Poll, Waker};
use hadris_fs::NodeId;
use volume::Volume;

pub(crate) use file::{DiskFile, OPEN_FILE};

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// It may be read.
    pub read: bool,
    /// It may be written.
    pub write: bool,
    /// What is written goes to the end.
    pub append: bool,
    /// It is emptied first.
    pub truncate: bool,
    /// It is made if it is not there.
    pub create: bool,
    /// It must not be there.
    pub exclusive: bool,
}

/// What the service can do.
///
/// Paths are absolute, without `.` and `..`.
#[derive(Debug)]
pub(crate) enum Operation {
    /// Gives [`Reply::File`], which keeps the charge.
    Open(String, Opening, Charge),
    /// Reads from the file's position on, which it moves. Gives [`Reply::Data`], empty at the end.
    Read(Arc<DiskFile>, usize),
    /// Writes at the file's position, which it moves. Gives [`Reply::Count`].
    Write(Arc<DiskFile>, Vec<u8>),
    /// Shortens the file, or extends it by zeros.
    Truncate(Arc<DiskFile>, u64),
    /// A part of that has been done, or of a write behind the end.
    Extend(Extension),
    /// The file has been opened, and a part of it cut off. As [`Operation::Open`].
    Empty(DiskFile),
    /// Gives [`Reply::Status`].
    Status(String),
    /// Gives [`Reply::Status`].
    StatusOf(Arc<DiskFile>),
    /// Gives [`Reply::Contents`].
    ///
    /// That is all of a file that is no longer than so many bytes, which this account pays for.
    ReadAll(String, usize, Arc<Account>),
    /// A part of that has been read.
    ReadMore(Contents),
    /// Gives [`Reply::Entry`]: the entry of a directory at a place, 0 for the first.
    Entry(String, u64),
    /// Makes a directory.
    MakeDirectory(String),
    /// Removes a file, or an empty directory.
    Remove(String, bool),
    /// A part of a long file has been cut off.
    RemoveMore(Removal),
    /// Moves the first to the second, and replaces that.
    Rename(String, String),
    /// Closes a file that was open for writing or not.
    Close(NodeId, bool),
    /// Makes everything durable.
    Sync,
    /// Gives [`Reply::Space`].
    Space,
}

/// A file that is being extended by zeros, in steps.
#[derive(Debug)]
pub(crate) struct Extension {
    file: Arc<DiskFile>,
    /// How long it was, is now, and is to be.
    before: u64,
    length: u64,
    wanted: u64,
    /// What is written behind the zeros then.
    data: Option<Vec<u8>>,
}

/// A whole file that is being read, in steps.
#[derive(Debug)]
pub(crate) struct Contents {
    node: NodeId,
    /// How long it was at first.
    length: usize,
    /// What has been read.
    data: Vec<u8>,
    charge: Charge,
}

/// A long file that is being removed, in steps.
#[derive(Debug)]
pub(crate) struct Removal {
    parent: NodeId,
    name: Vec<u8>,
    node: NodeId,
}

/// The outcome of one step of an operation.
enum Step {
    Done(Reply),
    /// This is left to do.
    More(Operation),
}

/// The outcome of an operation.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Nothing to say.
    Done,
    /// An open file.
    File(DiskFile),
    /// Bytes.
    Data(Vec<u8>),
    /// Bytes, and what they cost.
    Contents(Vec<u8>, Charge),
    /// How many bytes.
    Count(usize),
    /// What is known of a file.
    Status(FileStatus),
    /// An entry of a directory; `None` behind the last.
    Entry(Option<alloc::boxed::Box<DirectoryEntry>>),
    /// How much room there is.
    Space(Space),
}

/// Where a reply is left.
#[derive(Debug, Default)]
struct Waiting {
    reply: Option<Result<Reply>>,
    waker: Option<Waker>,
}

struct Request {
    /// Its level, and its place among those of that level.
    place: (u8, u64),
    operation: Operation,
    waiting: Arc<Mutex<Waiting>>,
}

/// A file that is not open any more, and what it cost.
///
/// It is a block that is no larger than what is given back.
struct Closing {
    node: NodeId,
    was_written: bool,
    _charge: Charge,
}

struct Queue {
    /// By level, then in the order in which they came.
    requests: BTreeMap<(u8, u64), Request>,
    last: u64,
    /// Files that were dropped open, by level.
    closing: BTreeMap<(u8, u64), Closing>,
    service: Option<Remote>,
    /// The level of the operation that the service performs.
    ///
    /// If the most urgent one that waits is more urgent, it is the level of that one.
    level: u8,
    /// Wakes the service if it waits for something to do.
    idle: Option<Waker>,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    requests: BTreeMap::new(),
    last: 0,
    closing: BTreeMap::new(),
    service: None,
    // The level with which the service begins.
    level: Priority::MOST_URGENT.level(),
    idle: None,
});

/// Starts the service if there is a disk.
///
/// # Panics
/// When there is no memory for it.
pub(crate) fn init() {
    let Some(disk) = disk::get() else { return };
    let service = executor()
        // It is built in its place, because it is too large for copies of it on the stack.
        .spawn_with(Priority::MOST_URGENT, || serve(disk))
        .expect("there is memory for the file system");
    QUEUE.lock().service = Some(service.remote());
}

/// Tests whether there is a disk, with or without a file system that can be read.
pub(crate) fn is_there() -> bool {
    disk::get().is_some()
}

/// What a request costs, in bytes, with its paths, its place in the queue and its answer.
///
/// A buffer of data is not included. The caller that performs an operation on behalf of a process
/// charges that for it.
pub(crate) const REQUEST: usize = 8 * (PATH_SIZE + 1) + 2048;

/// Performs an operation at the level of the coroutine that calls this.
///
/// # Errors
/// As the operation; [`NO_DEVICE`] without a disk.
pub(crate) async fn perform(operation: Operation) -> Result<Reply> {
    let waiting = Arc::new(Mutex::new(Waiting::default()));
    QUEUE
        .lock()
        .add(operation, waiting.clone(), current_level())?;
    poll_fn(|context| {
        let mut waiting = waiting.lock();
        match waiting.reply.take() {
            Some(reply) => Poll::Ready(reply),
            None => {
                waiting.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    })
    .await
}

/// Closes a file that is not open any more.
///
/// Until that is done it costs what it did.
pub(crate) fn close(node: NodeId, was_written: bool, charge: Charge) {
    let level = current_level();
    let mut queue = QUEUE.lock();
    let place = queue.place(level);
    let closing = Closing {
        node,
        was_written,
        _charge: charge,
    };
    queue.closing.insert(place, closing);
    queue.wake();
}

/// Writes everything to the disk, for the end of the system.
pub(crate) async fn shut_down() {
    if is_there() && perform(Operation::Sync).await.is_err() {
        crate::println!("corank: the file system could not be written to its end");
    }
}

impl Queue {
    fn add(&mut self, operation: Operation, waiting: Arc<Mutex<Waiting>>, level: u8) -> Result<()> {
        if self.service.is_none() {
            return Err(Failure(NO_DEVICE));
        }
        let place = self.place(level);
        let request = Request {
            place,
            operation,
            waiting,
        };
        self.requests.insert(place, request);
        self.wake();
        Ok(())
    }

    /// Returns the place of a new operation at this level.
    ///
    /// The service takes on the level, if it is more urgent than its own.
    fn place(&mut self, level: u8) -> (u8, u64) {
        if let Some(service) = self.service.as_ref().filter(|_| level < self.level) {
            service.reprioritize(priority(level));
            self.level = level;
        }
        self.last += 1;
        (level, self.last)
    }

    /// Puts back what is left of an operation, in front of all that came after it at its level.
    fn put_back(&mut self, request: Request) {
        self.requests.insert(request.place, request);
    }

    fn wake(&mut self) {
        if let Some(service) = self.idle.take() {
            service.wake();
        }
    }

    /// Takes out what is next, if anything is.
    ///
    /// The service takes on its level.
    fn next(&mut self) -> Option<Request> {
        let closing = self.closing.keys().next().map(|place| place.0);
        let waiting = self.requests.keys().next().map(|place| place.0);
        let level = closing.into_iter().chain(waiting).min()?;
        if let Some(service) = self.service.as_ref().filter(|_| level != self.level) {
            service.reprioritize(priority(level));
            self.level = level;
        }
        if closing == Some(level) {
            let (place, closing) = self.closing.pop_first()?;
            return Some(Request {
                place,
                operation: Operation::Close(closing.node, closing.was_written),
                waiting: Arc::default(),
            });
        }
        self.requests.pop_first().map(|(_, request)| request)
    }
}

async fn serve(disk: &'static disk::Disk) {
    // Made in its place, because it is large.
    let mut service = pin!(serve_volume(disk));
    poll_fn(|context| {
        stretch::works_on(Work::Service("fs"));
        service.as_mut().poll(context)
    })
    .await;
}

async fn serve_volume(disk: &'static disk::Disk) {
    let mut volume = Volume::mount(disk).await;
    loop {
        let request = poll_fn(|context| {
            let mut queue = QUEUE.lock();
            match queue.next() {
                Some(request) => Poll::Ready(request),
                None => {
                    queue.idle = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await;
        let Request {
            place,
            operation,
            waiting,
        } = request;
        let step = match &mut volume {
            Some(volume) => volume.perform(operation).await,
            None => Err(Failure(INPUT_OUTPUT)),
        };
        let reply = match step {
            Ok(Step::Done(reply)) => Ok(reply),
            Ok(Step::More(operation)) => {
                QUEUE.lock().put_back(Request {
                    place,
                    operation,
                    waiting,
                });
                checkpoint().await;
                continue;
            }
            Err(failure) => Err(failure),
        };
        {
            let mut waiting = waiting.lock();
            waiting.reply = Some(reply);
            if let Some(waker) = waiting.waker.take() {
                waker.wake();
            }
        }
        checkpoint().await;
    }
}
