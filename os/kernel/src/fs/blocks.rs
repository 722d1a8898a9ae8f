//! The disk as the file system's driver sees it.
use super::sectors::Sectors;
use crate::device::disk::{Answer, Disk, DiskError, Operation, SECTOR};
use crate::fault;
use crate::memory::bulk;
use crate::pace;
use alloc::vec::Vec;
use core::ops::Range;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use hadris_io::{Error, ErrorType};
use hadris_storage::async_::BlockDevice;
use hadris_storage::{BlockIndex, BlockSize};

/// The most bytes of one request.
///
/// A longer read or write is as many requests as it takes, all under way at once.
const LARGEST: usize = 32 << 10;

/// How many requests are made in one piece of work.
///
/// Copying or clearing the bytes of four takes some 40,000 instructions. With fewer the device
/// would have done with one before it gets the next.
const MADE_AT_ONCE: usize = 4;

/// A disk as a row of sectors.
pub(super) struct Blocks {
    disk: &'static Disk,
    /// Single sectors that were read or written.
    ///
    /// They are those of tables and directories, beside some of short files.
    kept: Sectors,
}

impl Blocks {
    /// Returns this disk, of which nothing is kept yet.
    pub(super) fn new(disk: &'static Disk) -> Blocks {
        Blocks {
            disk,
            kept: Sectors::new(),
        }
    }

    /// Returns the sectors that `length` bytes from `first` on are.
    fn range(first: BlockIndex, length: usize) -> Range<u64> {
        first.get()..first.get() + (length / SECTOR) as u64
    }
}

/// A read, write or flush under way.
#[derive(Default)]
pub(super) struct Transfer {
    /// It has passed the check for more urgent work.
    begun: bool,
    /// How many requests have been made.
    ///
    /// It is all of them, once there is one that finds no memory.
    made: usize,
    /// The requests, in the order of their sectors.
    requests: Vec<Answer>,
    /// The answers to the first of them.
    answers: Vec<Result<Vec<u8>, DiskError>>,
}

type Outcome = Result<(), Error<DiskError>>;

impl Transfer {
    /// Gives way once, where something more urgent is ready.
    ///
    /// The driver has worked since its last access.
    fn begin(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.begun {
            return Poll::Ready(());
        }
        self.begun = true;
        pace::poll_checkpoint(context)
    }

    /// Makes the requests: one for each piece, and none behind one that finds no memory.
    ///
    /// Gives way behind [`MADE_AT_ONCE`] of them where something more urgent is ready, and is
    /// polled again then.
    fn start<'a>(
        &mut self,
        disk: &Disk,
        operation: Operation,
        first: BlockIndex,
        pieces: impl Iterator<Item = &'a [u8]>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let mut sector = first.get();
        for (number, piece) in pieces.enumerate() {
            let length = (piece.len() / SECTOR) as u64;
            if number >= self.made {
                let Ok(data) = buffer(piece, operation) else {
                    self.answers.push(Err(DiskError::NoMemory));
                    self.made = usize::MAX;
                    break;
                };
                self.requests.push(disk.submit(operation, sector, data));
                self.made += 1;
                if self.made.is_multiple_of(MADE_AT_ONCE) {
                    ready!(pace::poll_checkpoint(context));
                }
            }
            sector += length;
        }
        Poll::Ready(())
    }

    /// Waits until no request is under way any more.
    ///
    /// The answers then are those of all requests, and no memory counts as one.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some(request) = self.requests.first_mut() {
            let answer = ready!(Pin::new(request).poll(context));
            self.requests.remove(0);
            self.answers.push(answer);
        }
        Poll::Ready(())
    }
}

/// Returns the request's data: a copy, or room.
fn buffer(piece: &[u8], operation: Operation) -> Result<Vec<u8>, DiskError> {
    let mut buffer = Vec::new();
    if fault::fails_allocation() {
        return Err(DiskError::NoMemory);
    }
    buffer
        .try_reserve_exact(piece.len())
        .map_err(|_| DiskError::NoMemory)?;
    if operation == Operation::Write {
        bulk::append(&mut buffer, piece);
    } else {
        bulk::append_zeros(&mut buffer, piece.len());
    }
    Ok(buffer)
}

fn failed(error: DiskError) -> Error<DiskError> {
    Error::device(error, "the disk has failed")
}

impl ErrorType for Blocks {
    type Error = DiskError;
}

impl BlockDevice for Blocks {
    type State = Transfer;

    fn block_size(&self) -> BlockSize {
        const { BlockSize::new(SECTOR as u32).expect("a sector has a size") }
    }

    fn block_count(&self) -> u64 {
        self.disk.sectors
    }

    fn writable(&self) -> bool {
        self.disk.writable
    }

    fn poll_read_blocks(
        &mut self,
        transfer: &mut Transfer,
        context: &mut Context<'_>,
        first: BlockIndex,
        buf: &mut [u8],
    ) -> Poll<Outcome> {
        ready!(transfer.begin(context));
        if transfer.made == 0 && buf.len() == SECTOR && self.kept.read(first.get(), buf) {
            return Poll::Ready(Ok(()));
        }
        let pieces = buf.chunks(LARGEST);
        ready!(transfer.start(self.disk, Operation::Read, first, pieces, context));
        ready!(transfer.poll(context));
        for (piece, answer) in buf.chunks_mut(LARGEST).zip(transfer.answers.drain(..)) {
            bulk::copy_all(&answer.map_err(failed)?, piece);
        }
        self.kept.keep(first.get(), buf);
        Poll::Ready(Ok(()))
    }

    fn poll_write_blocks(
        &mut self,
        transfer: &mut Transfer,
        context: &mut Context<'_>,
        first: BlockIndex,
        buf: &[u8],
    ) -> Poll<Outcome> {
        ready!(transfer.begin(context));
        if transfer.made == 0 {
            // What the disk has after a write that fails is not known.
            self.kept.forget(Self::range(first, buf.len()));
        }
        let pieces = buf.chunks(LARGEST);
        ready!(transfer.start(self.disk, Operation::Write, first, pieces, context));
        ready!(transfer.poll(context));
        if let Some(failure) = transfer.answers.drain(..).find_map(Result::err) {
            return Poll::Ready(Err(failed(failure)));
        }
        self.kept.keep(first.get(), buf);
        Poll::Ready(Ok(()))
    }

    fn poll_flush(&mut self, transfer: &mut Transfer, context: &mut Context<'_>) -> Poll<Outcome> {
        let nothing: [&[u8]; 1] = [&[]];
        let (first, pieces) = (BlockIndex::new(0), nothing.into_iter());
        ready!(transfer.start(self.disk, Operation::Flush, first, pieces, context));
        ready!(transfer.poll(context));
        let failure = transfer.answers.drain(..).find_map(Result::err);
        Poll::Ready(failure.map_or(Ok(()), |error| Err(failed(error))))
    }

    fn cancel(&mut self, _: &mut Transfer) {
        // The requests own their memory and are served to their end. The file system's service
        // never gives one up.
        self.kept.clear();
    }
}
