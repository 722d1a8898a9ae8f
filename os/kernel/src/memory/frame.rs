//! Physical memory in frames of 4 KiB.
//!
//! Allocation and release take constant time. Frames that were never used are taken from the front
//! of the free ranges. Frames that came back form a list that is threaded through the frames
//! themselves, so that the allocator needs no memory of its own.
use super::bulk;
use super::{OutOfMemory, PAGE_SIZE, page_down, page_up};
use crate::fault;
use crate::lock::Mutex;
use core::mem::ManuallyDrop;
use core::ops::Range;

/// Ranges of memory that boot can hand over.
///
/// They are what the kernel, the archive and the device tree leave of the machine's memory.
const MAX_RANGES: usize = 8;

/// How many frames stay out of the reach of programs' memory.
///
/// What carries messages, the first frame of a pipe, still gets one when programs have taken all
/// others. So a program that gets the answer that there is no more memory can pass that on.
pub(crate) const RESERVE: usize = 64;

struct Allocator {
    /// Memory that was never used.
    fresh: [Range<usize>; MAX_RANGES],
    /// First of the frames that came back, 0 when there is none.
    ///
    /// Each holds the address of the next.
    returned: usize,
    free: usize,
    /// How many there are, free or not.
    all: usize,
}

static FRAMES: Mutex<Allocator> = Mutex::new(Allocator {
    fresh: [const { 0..0 }; MAX_RANGES],
    returned: 0,
    free: 0,
    all: 0,
});

/// Hands a range of memory to the allocator.
///
/// Incomplete pages at its ends stay unused.
///
/// # Safety
/// The memory exists, nothing else uses it, and it is mapped at its own address.
///
/// # Panics
/// When called more than [`MAX_RANGES`] times.
pub(crate) unsafe fn add(range: Range<usize>) {
    let range = page_up(range.start)..page_down(range.end);
    if range.is_empty() {
        return;
    }
    let mut frames = FRAMES.lock();
    frames.free += range.len() / PAGE_SIZE;
    frames.all += range.len() / PAGE_SIZE;
    let place = frames
        .fresh
        .iter_mut()
        .find(|place| place.start >= place.end)
        .expect("too many ranges of memory");
    *place = range;
}

/// Returns how many frames are free.
pub(crate) fn free() -> usize {
    FRAMES.lock().free
}

/// Returns how many frames there are, free or not.
pub(crate) fn all() -> usize {
    FRAMES.lock().all
}

/// A frame that belongs to its holder, and returns to the allocator when it is dropped.
#[derive(Debug)]
pub(crate) struct Frame(usize);

impl Frame {
    /// Takes a frame with arbitrary contents.
    ///
    /// # Errors
    /// When no frame is free but the [`RESERVE`].
    pub(crate) fn uninitialised() -> Result<Frame, OutOfMemory> {
        Frame::take(RESERVE)
    }

    /// Takes a frame with arbitrary contents, from the [`RESERVE`] if no other is free.
    ///
    /// # Errors
    /// When no frame is free.
    pub(crate) fn of_reserve() -> Result<Frame, OutOfMemory> {
        Frame::take(0)
    }

    /// Takes a frame, unless no more than these are free.
    fn take(kept: usize) -> Result<Frame, OutOfMemory> {
        if fault::fails_allocation() {
            return Err(OutOfMemory);
        }
        let mut frames = FRAMES.lock();
        if frames.free <= kept {
            return Err(OutOfMemory);
        }
        if frames.returned != 0 {
            let address = frames.returned;
            // SAFETY: frames on the list belong to the allocator, and each begins with the address
            // of the next.
            frames.returned = unsafe { *(address as *const usize) };
            frames.free -= 1;
            return Ok(Frame(address));
        }
        let range = frames
            .fresh
            .iter_mut()
            .find(|range| range.start < range.end)
            .ok_or(OutOfMemory)?;
        let address = range.start;
        range.start += PAGE_SIZE;
        frames.free -= 1;
        Ok(Frame(address))
    }

    /// Takes a frame full of zeros.
    ///
    /// # Errors
    /// When no frame is free but the [`RESERVE`].
    pub(crate) fn zeroed() -> Result<Frame, OutOfMemory> {
        let mut frame = Frame::uninitialised()?;
        bulk::clear(frame.lines_mut());
        Ok(frame)
    }

    fn lines_mut(&mut self) -> &mut [[u64; 8]; PAGE_SIZE / 64] {
        // SAFETY: as in `bytes_mut`; a frame is aligned to its size.
        unsafe { &mut *(self.0 as *mut [[u64; 8]; PAGE_SIZE / 64]) }
    }

    /// Returns the frame's physical address, which is also its address in the kernel.
    pub(crate) fn address(&self) -> usize {
        self.0
    }

    /// Gives up ownership for the frame's address; [`Frame::from_address`] takes it back.
    pub(crate) fn into_address(self) -> usize {
        ManuallyDrop::new(self).0
    }

    /// Takes ownership back.
    ///
    /// # Safety
    /// `address` comes from [`Frame::into_address`] and is taken back once.
    pub(crate) unsafe fn from_address(address: usize) -> Frame {
        Frame(address)
    }

    /// Returns the frame's contents.
    pub(crate) fn bytes(&self) -> &[u8; PAGE_SIZE] {
        // SAFETY: the frame belongs to `self` and is mapped at its own address; any bytes are
        // valid.
        unsafe { &*(self.0 as *const [u8; PAGE_SIZE]) }
    }

    /// Returns the frame's contents, to change.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8; PAGE_SIZE] {
        // SAFETY: as in `bytes`, and `self` is borrowed exclusively.
        unsafe { &mut *(self.0 as *mut [u8; PAGE_SIZE]) }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        let mut frames = FRAMES.lock();
        // SAFETY: the frame belongs to `self` alone and from here on to the allocator.
        unsafe { *(self.0 as *mut usize) = frames.returned };
        frames.returned = self.0;
        frames.free += 1;
    }
}
