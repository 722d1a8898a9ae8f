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

/// Bytes of what the driver takes for a block of the disk: half a sector.
///
/// The driver follows a chain through a whole block between two accesses, some 600 instructions for
/// each cluster. The smaller the block, the sooner comes the next check for more urgent work.
const BLOCK: usize = SECTOR / 2;

/// The most bytes of one request.
///
/// A longer read or write is as many requests as it takes, all under way at once.
const LARGEST: usize = 32 << 10;

/// How many requests are made in one piece of work.
///
/// Copying or clearing the bytes of four takes some 40,000 instructions. With fewer the device
/// would have done with one before it gets the next.
const MADE_AT_ONCE: usize = 4;

/// A disk as a row of blocks.
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

    /// Reads the sectors of which a write has a part only, unless they are kept.
    fn poll_parts(
        &mut self,
        transfer: &mut Transfer,
        span: &Span,
        context: &mut Context<'_>,
    ) -> Poll<Outcome> {
        let Blocks { disk, kept } = self;
        while let Some(sector) = span.parts().find(|sector| kept.find(*sector).is_none()) {
            ready!(transfer.read(disk, &(sector..sector + 1), context));
            transfer.made = 0;
            let answer = transfer.answers.pop().expect("a request has an answer");
            kept.keep(sector, &answer.map_err(failed)?);
        }
        Poll::Ready(Ok(()))
    }
}

/// Bytes on the disk, and the sectors that they lie in.
struct Span {
    sectors: Range<u64>,
    /// How many bytes of the sectors lie in front of the span.
    skipped: usize,
    length: usize,
}

impl Span {
    fn new(first: BlockIndex, length: usize) -> Span {
        const BLOCKS: u64 = (SECTOR / BLOCK) as u64;
        let behind = first.get() + (length / BLOCK) as u64;
        Span {
            sectors: first.get() / BLOCKS..behind.div_ceil(BLOCKS),
            skipped: (first.get() % BLOCKS) as usize * BLOCK,
            length,
        }
    }

    /// Returns how many bytes its sectors have.
    fn size(&self) -> usize {
        (self.sectors.end - self.sectors.start) as usize * SECTOR
    }

    /// Returns its sector, if it lies in one.
    fn only_sector(&self) -> Option<u64> {
        (self.size() == SECTOR).then_some(self.sectors.start)
    }

    /// Returns the sectors of which it has a part only: the first, the last, or both.
    fn parts(&self) -> impl Iterator<Item = u64> + use<> {
        let first = (self.skipped > 0).then_some(self.sectors.start);
        let rest = (self.size() - self.skipped > self.length).then(|| self.sectors.end - 1);
        first.into_iter().chain(rest)
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
    /// Yields once if something more urgent is ready.
    ///
    /// The driver has worked since its last access.
    fn begin(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.begun {
            return Poll::Ready(());
        }
        self.begun = true;
        pace::poll_checkpoint(context)
    }

    /// Makes the requests for these sectors, and none behind one that finds no memory.
    ///
    /// `fill` puts the bytes of a request into its buffer, by their range in these sectors. Yields
    /// after [`MADE_AT_ONCE`] requests if something more urgent is ready, and is then polled again.
    fn start(
        &mut self,
        disk: &Disk,
        operation: Operation,
        sectors: &Range<u64>,
        mut fill: impl FnMut(&mut Vec<u8>, Range<usize>),
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let size = (sectors.end - sectors.start) as usize * SECTOR;
        for begin in (0..size).step_by(LARGEST).skip(self.made) {
            let bytes = begin..size.min(begin + LARGEST);
            let Ok(mut data) = buffer(bytes.len()) else {
                self.answers.push(Err(DiskError::NoMemory));
                self.made = usize::MAX;
                break;
            };
            fill(&mut data, bytes);
            let sector = sectors.start + (begin / SECTOR) as u64;
            self.requests.push(disk.submit(operation, sector, data));
            self.made += 1;
            if self.made.is_multiple_of(MADE_AT_ONCE) {
                ready!(pace::poll_checkpoint(context));
            }
        }
        Poll::Ready(())
    }

    /// Reads these sectors.
    fn read(&mut self, disk: &Disk, sectors: &Range<u64>, context: &mut Context<'_>) -> Poll<()> {
        let zeros = |data: &mut Vec<u8>, bytes: Range<usize>| bulk::append_zeros(data, bytes.len());
        ready!(self.start(disk, Operation::Read, sectors, zeros, context));
        self.poll(context)
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

    /// Returns the first failure among the answers, of which none is left.
    fn outcome(&mut self) -> Outcome {
        let failure = self.answers.drain(..).find_map(Result::err);
        failure.map_or(Ok(()), |error| Err(failed(error)))
    }
}

/// Returns room for the data of a request.
fn buffer(length: usize) -> Result<Vec<u8>, DiskError> {
    let mut buffer = Vec::new();
    if fault::fails_allocation() {
        return Err(DiskError::NoMemory);
    }
    buffer
        .try_reserve_exact(length)
        .map_err(|_| DiskError::NoMemory)?;
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
        const { BlockSize::new(BLOCK as u32).expect("a block has a size") }
    }

    fn block_count(&self) -> u64 {
        self.disk.sectors * (SECTOR / BLOCK) as u64
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
        let span = Span::new(first, buf.len());
        if transfer.made == 0
            && let Some(sector) = span.only_sector()
            && let Some(kept) = self.kept.find(sector)
        {
            buf.copy_from_slice(&kept[span.skipped..][..span.length]);
            return Poll::Ready(Ok(()));
        }
        ready!(transfer.read(self.disk, &span.sectors, context));
        let (mut skipped, mut rest) = (span.skipped, buf);
        for answer in transfer.answers.drain(..) {
            let data = answer.map_err(failed)?;
            if let Some(sector) = span.only_sector() {
                self.kept.keep(sector, &data);
            }
            let part = &data[skipped..];
            let (to, behind) = rest.split_at_mut(part.len().min(rest.len()));
            bulk::copy_all(&part[..to.len()], to);
            (skipped, rest) = (0, behind);
        }
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
        let span = Span::new(first, buf.len());
        ready!(self.poll_parts(transfer, &span, context))?;
        let Blocks { disk, kept } = self;
        let behind = span.skipped + span.length;
        let mut kept_part = |data: &mut Vec<u8>, sector, part: Range<usize>| {
            let sector = kept.find(sector).expect("it is kept since `poll_parts`");
            bulk::append(data, &sector[part]);
        };
        let fill = |data: &mut Vec<u8>, bytes: Range<usize>| {
            if bytes.start < span.skipped {
                kept_part(data, span.sectors.start, 0..span.skipped);
            }
            let begin = bytes.start.max(span.skipped) - span.skipped;
            bulk::append(data, &buf[begin..bytes.end.min(behind) - span.skipped]);
            if bytes.end > behind {
                kept_part(
                    data,
                    span.sectors.end - 1,
                    SECTOR + behind - bytes.end..SECTOR,
                );
            }
        };
        ready!(transfer.start(disk, Operation::Write, &span.sectors, fill, context));
        ready!(transfer.poll(context));
        let outcome = transfer.outcome();
        match span.only_sector() {
            Some(sector) if outcome.is_ok() => self.kept.change(sector, span.skipped, buf),
            // What the disk has after a write that fails is not known.
            _ => self.kept.forget(span.sectors),
        }
        Poll::Ready(outcome)
    }

    fn poll_flush(&mut self, transfer: &mut Transfer, context: &mut Context<'_>) -> Poll<Outcome> {
        if transfer.made == 0 {
            let request = self.disk.submit(Operation::Flush, 0, Vec::new());
            transfer.requests.push(request);
            transfer.made = 1;
        }
        ready!(transfer.poll(context));
        Poll::Ready(transfer.outcome())
    }

    fn cancel(&mut self, _: &mut Transfer) {
        // The requests own their memory and are served to their end. The file system's service
        // never gives one up.
        self.kept.clear();
    }
}
