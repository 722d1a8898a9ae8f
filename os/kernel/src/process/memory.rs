//! Work on a process's memory whose size the program chooses, in bounded pieces.
//!
//! The memory's lock is held for one piece at a time. What one call has begun another one cannot
//! disturb, because the end of the heap is moved by one call at a time. What is mapped always
//! reaches to a place that the address space records.
use super::Process;
use crate::memory::OutOfMemory;
use crate::memory::address_space::AddressSpace;
use crate::pace::{self, checkpoint};
use crate::wait::{WaitMode, until};
use core::ops::Range;
use core::task::Poll;

/// The number of bytes up to which a move of the heap's end is made at once.
const SMALL: usize = pace::PAGES * corank_abi::page::PAGE_SIZE;

/// The right to move the end of the heap.
///
/// When it is dropped, the heap ends at `end`.
struct Move<'a> {
    process: &'a Process,
    /// Where the heap ended, and where it is to end.
    range: Range<usize>,
    end: usize,
}

impl Drop for Move<'_> {
    fn drop(&mut self) {
        self.process
            .with_memory(|space| space.end_move(self.end), ());
        self.process.heap_moved.wake_all();
    }
}

impl Process {
    /// Moves the end of the heap by `bytes`, if that is little and no other move is under way.
    ///
    /// Returns where the end was.
    ///
    /// # Errors
    /// As [`move_heap_end`](Self::move_heap_end).
    pub(crate) fn move_heap_end_at_once(&self, bytes: isize) -> Option<Result<usize, OutOfMemory>> {
        if bytes.unsigned_abs() > SMALL {
            return None;
        }
        self.with_memory(
            |space| {
                if !space.heap_is_exact() {
                    return None;
                }
                let range = match space.begin_move(bytes) {
                    Ok(range) => range?,
                    Err(error) => return Some(Err(error)),
                };
                // One piece of work, and one more to take it back.
                let moved = space.move_some(range.end);
                if moved.is_err() {
                    let _ = space.move_some(range.start);
                }
                space.end_move(if moved.is_ok() {
                    range.end
                } else {
                    range.start
                });
                Some(moved.map(|_| range.start))
            },
            Some(Err(OutOfMemory)),
        )
    }

    /// Moves the end of the heap by `bytes`.
    ///
    /// Returns where it was. Whole pages are mapped.
    ///
    /// # Errors
    /// When the heap would leave its place or no frame is left; it then stays as it was.
    pub(crate) async fn move_heap_end(&self, bytes: isize) -> Result<usize, OutOfMemory> {
        let mut the_move = self.begin_move(bytes).await?;
        let Range { start: old, end } = the_move.range.clone();
        // A move that was given up may have left more mapped, whose contents are not zeros.
        self.move_to(old.min(end)).await?;
        match self.move_to(end).await {
            Ok(()) => {
                the_move.end = end;
                Ok(old)
            }
            Err(error) => {
                // Taking away does not fail.
                let _ = self.move_to(old).await;
                the_move.end = old;
                Err(error)
            }
        }
    }

    async fn begin_move(&self, bytes: isize) -> Result<Move<'_>, OutOfMemory> {
        until(&self.heap_moved, WaitMode::Block, |turn| {
            self.with_memory(
                |space| match space.begin_move(bytes) {
                    Ok(None) => {
                        turn.wait(space);
                        Poll::Pending
                    }
                    Ok(Some(range)) => Poll::Ready(Ok(Move {
                        process: self,
                        end: range.start.min(range.end),
                        range,
                    })),
                    Err(error) => Poll::Ready(Err(error)),
                },
                Poll::Ready(Err(OutOfMemory)),
            )
        })
        .await
    }

    async fn move_to(&self, end: usize) -> Result<(), OutOfMemory> {
        while !self.with_memory(|space| space.move_some(end), Ok(true))? {
            checkpoint().await;
        }
        Ok(())
    }

    /// Returns a copy of the memory, with `id` as its number in translation buffers.
    ///
    /// # Errors
    /// When no frame is left.
    pub(super) async fn copy_memory(&self, id: u16) -> Result<AddressSpace, OutOfMemory> {
        // The heap stays as it is meanwhile.
        let _unmoved = self.begin_move(0).await?;
        let mut copy = AddressSpace::new(id)?;
        let mut next = 0;
        loop {
            let copied =
                self.with_memory(|space| space.copy_some(&mut copy, next), Err(OutOfMemory));
            match copied {
                Ok(Some(page)) => next = page,
                Ok(None) => return Ok(copy),
                Err(error) => {
                    release(copy).await;
                    return Err(error);
                }
            }
            checkpoint().await;
        }
    }
}

/// Releases the memory, which nothing uses any more.
pub(super) async fn release(mut space: AddressSpace) {
    while space.release_some() {
        checkpoint().await;
    }
}
