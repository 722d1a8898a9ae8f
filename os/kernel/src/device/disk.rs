//! The disk: a virtio block device.
//!
//! A request goes into the device's queue and belongs to the driver until the device's interrupt
//! says that it is done. The coroutine that asked waits for the [`Answer`]. So many requests can be
//! under way at once, and no coroutine polls for their end. A waiter that is dropped leaves no
//! memory behind that the device still writes to.
use super::plic;
use super::virtio::{self, Dma};
use crate::lock::Mutex;
use crate::machine::Machine;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use spin::Once;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::mmio::MmioTransport;
use virtio_drivers::transport::{DeviceType, Transport};

/// Bytes of a sector, in which places on the disk are counted.
pub(crate) const SECTOR: usize = 512;

/// Number of the device's only queue.
const QUEUE: u16 = 0;
/// Descriptors of the queue.
///
/// A request takes up to three, so about 21 are under way at once. Others wait for their turn.
const DESCRIPTORS: usize = 64;

bitflags::bitflags! {
    /// What a device can do, as far as this driver cares (virtio 1.2, sections 5.2.3 and 6).
    #[derive(Clone, Copy, Debug)]
    struct Features: u64 {
        const READ_ONLY = 1 << 5;
        const FLUSH = 1 << 9;
        const VERSION_1 = 1 << 32;
    }
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Fills the data from the disk.
    Read,
    /// Writes the data to the disk.
    Write,
    /// Makes durable what has been written. Without data.
    Flush,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskError {
    /// The device could not do it.
    Failed,
    /// The kernel has no memory for the request.
    NoMemory,
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DiskError::Failed => "the disk could not read or write",
            DiskError::NoMemory => "no memory for a request to the disk",
        })
    }
}

impl core::error::Error for DiskError {}

/// How much a disk has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Requests that are done.
    pub requests: u64,
    /// The largest number of requests that were in the device's queue at once.
    pub most_under_way: u64,
}

/// A disk.
pub(crate) struct Disk {
    /// How many sectors it has.
    pub sectors: u64,
    /// It accepts writes.
    pub writable: bool,
    flushes: bool,
    state: Mutex<State>,
}

struct State {
    transport: MmioTransport<'static>,
    queue: VirtQueue<Dma, DESCRIPTORS>,
    /// The requests in the device's queue, by their token.
    under_way: [Option<Box<Request>>; DESCRIPTORS],
    /// Requests for which the queue had no room, oldest first.
    waiting: VecDeque<Box<Request>>,
    totals: Totals,
    count: u64,
}

// SAFETY: the registers are reached through this value alone, which its lock gives to one hart at a
// time.
unsafe impl Send for State {}

/// A request in the layout of virtio 1.2, section 5.2.6.
///
/// It is boxed, so that it stays at the place that the device was given.
struct Request {
    operation: Operation,
    /// Type and first sector.
    header: [u8; 16],
    data: Vec<u8>,
    status: [u8; 1],
    answer: Arc<Mutex<Waiting>>,
}

/// What the device writes into the status of a request that it could serve.
const OK: u8 = 0;

/// Where the answer to a request is left.
#[derive(Default)]
struct Waiting {
    answer: Option<Result<Vec<u8>, DiskError>>,
    waker: Option<Waker>,
}

/// The future answer to a request: its data.
///
/// Dropping it early does not cancel the request.
pub(crate) struct Answer(Arc<Mutex<Waiting>>);

impl Future for Answer {
    type Output = Result<Vec<u8>, DiskError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut waiting = self.0.lock();
        match waiting.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                waiting.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

static DISK: Once<Disk> = Once::new();

/// Returns the disk, if the machine has one.
pub(crate) fn get() -> Option<&'static Disk> {
    DISK.get()
}

/// Finds the first block device among the machine's virtio devices and switches its interrupt on.
pub(crate) fn init(machine: &Machine) {
    for (transport, interrupt) in virtio::devices(machine, DeviceType::Block) {
        match Disk::new(transport) {
            Ok(disk) => {
                DISK.call_once(|| disk);
                plic::enable(interrupt, self::interrupt);
                return;
            }
            Err(error) => crate::println!("corank: the disk cannot be used: {error}"),
        }
    }
}

/// Serves the disk's interrupt.
fn interrupt() {
    if let Some(disk) = DISK.get() {
        disk.state.lock().finish();
    }
}

impl Disk {
    fn new(mut transport: MmioTransport<'static>) -> virtio_drivers::Result<Disk> {
        let features = transport.begin_init(Features::all());
        let words: [u32; 2] = [
            transport.read_config_space(0)?,
            transport.read_config_space(4)?,
        ];
        let queue = VirtQueue::new(&mut transport, QUEUE, false, false)?;
        transport.finish_init();
        Ok(Disk {
            sectors: u64::from(words[1]) << 32 | u64::from(words[0]),
            writable: !features.contains(Features::READ_ONLY),
            flushes: features.contains(Features::FLUSH),
            state: Mutex::new(State {
                transport,
                queue,
                under_way: [const { None }; DESCRIPTORS],
                waiting: VecDeque::new(),
                totals: Totals::default(),
                count: 0,
            }),
        })
    }

    /// Starts a request for the sectors from `sector` on, as many as `data` has room for.
    ///
    /// A flush takes no data.
    pub(crate) fn submit(&self, operation: Operation, sector: u64, data: Vec<u8>) -> Answer {
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let answer = Answer(waiting.clone());
        if operation == Operation::Flush && !self.flushes {
            // Such a disk has written when it says so.
            waiting.lock().answer = Some(Ok(data));
            return answer;
        }
        let kind: u32 = match operation {
            Operation::Read => 0,
            Operation::Write => 1,
            Operation::Flush => 4,
        };
        let mut header = [0; 16];
        header[..4].copy_from_slice(&kind.to_le_bytes());
        header[8..].copy_from_slice(&sector.to_le_bytes());
        let request = Box::new(Request {
            operation,
            header,
            data,
            status: [u8::MAX],
            answer: waiting,
        });
        let mut state = self.state.lock();
        state.waiting.push_back(request);
        state.start();
        answer
    }

    /// Returns how much it has done.
    pub(crate) fn totals(&self) -> Totals {
        self.state.lock().totals
    }
}

impl State {
    /// Moves requests that wait into the device's queue as far as there is room.
    fn start(&mut self) {
        let mut started = false;
        while let Some(request) = self.waiting.front_mut() {
            // SAFETY: the request is boxed and stays in `under_way`, untouched, until `finish` has
            // taken it out of the queue.
            let added =
                unsafe { request.with_buffers(|inputs, outputs| self.queue.add(inputs, outputs)) };
            // The queue is full.
            let Ok(token) = added else { break };
            self.under_way[usize::from(token)] = self.waiting.pop_front();
            self.count += 1;
            self.totals.most_under_way = self.totals.most_under_way.max(self.count);
            started = true;
        }
        if started && self.queue.should_notify() {
            self.transport.notify(QUEUE);
        }
    }

    /// Collects what the device has done.
    fn finish(&mut self) {
        self.transport.ack_interrupt();
        while let Some(token) = self.queue.peek_used() {
            let Some(mut request) = self
                .under_way
                .get_mut(usize::from(token))
                .and_then(Option::take)
            else {
                panic!("the disk has answered a request that was not made");
            };
            // SAFETY: these are the buffers that `start` has added under this token.
            let popped = unsafe {
                request.with_buffers(|inputs, outputs| self.queue.pop_used(token, inputs, outputs))
            };
            popped.expect("the request has just been found in the queue");
            self.count -= 1;
            self.totals.requests += 1;
            request.finish();
        }
        self.start();
    }
}

impl Request {
    /// Calls `use_them` with what the device reads, and what it writes.
    fn with_buffers<T>(
        &mut self,
        use_them: impl for<'a> FnOnce(&'a [&'a [u8]], &'a mut [&'a mut [u8]]) -> T,
    ) -> T {
        match self.operation {
            Operation::Read => use_them(&[&self.header], &mut [&mut self.data, &mut self.status]),
            Operation::Write => use_them(&[&self.header, &self.data], &mut [&mut self.status]),
            Operation::Flush => use_them(&[&self.header], &mut [&mut self.status]),
        }
    }

    fn finish(self) {
        let answer = if self.status == [OK] {
            Ok(self.data)
        } else {
            Err(DiskError::Failed)
        };
        let mut waiting = self.answer.lock();
        waiting.answer = Some(answer);
        if let Some(waker) = waiting.waker.take() {
            waker.wake();
        }
    }
}
