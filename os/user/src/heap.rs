//! The heap: the crate `talc`, which grows through `sbrk` and never gives memory back before the
//! process ends.
//!
//! Coroutines are many small boxes, so what counts is the time of one small allocation. Talc keeps
//! free chunks in bins by size and finds one with a bit search, whatever their number.
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::NonNull;

use corank_abi::call;
use corank_abi::page::PAGE_SIZE;
use talc::base::{Talc, binning::Binning};
use talc::source::Source;
use talc::{DefaultBinning, TalcLock};

use crate::interrupt::Masked;
use crate::lock::Lock;
use crate::raw;

/// The heap grows by at least this many bytes, so that growing stays rare beside allocating.
const LEAST_GROWTH: usize = 64 * 1024;
/// Room that an allocation may need beside itself: alignment at both ends, and talc's tag.
const SLACK: usize = 64;

/// Talc behind a lock that is never held when the thread is interrupted: an interrupt would come
/// back for it.
struct Heap(TalcLock<Lock, Program>);

#[global_allocator]
static HEAP: Heap = Heap(TalcLock::new(Program { end: None, size: 0 }));

// SAFETY: talc's own implementation, with interrupts masked.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        masked(|| unsafe { self.0.alloc(layout) })
    }

    #[inline]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        masked(|| unsafe { self.0.dealloc(start, layout) });
    }

    #[inline]
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        masked(|| unsafe { self.0.realloc(start, layout, size) })
    }
}

/// Works on the heap with interrupts masked.
///
/// They nearly always are masked already, and testing that is cheaper than masking them again.
#[inline(always)]
fn masked<T>(work: impl Fn() -> T) -> T {
    #[cold]
    #[inline(never)]
    fn mask_for<T>(work: &dyn Fn() -> T) -> T {
        let _masked = Masked::new();
        work()
    }
    if Masked::already() {
        work()
    } else {
        mask_for(&work)
    }
}

unsafe extern "C" {
    /// Where the program's variables end: the linker script puts it there. What is left of their
    /// page is the heap's beginning: one page fewer to touch.
    static end_of_data: u8;
}

/// The program's data segment, which `sbrk` extends.
#[derive(Debug)]
struct Program {
    /// The end of the memory that talc manages.
    end: Option<NonNull<u8>>,
    /// The number of bytes taken.
    size: usize,
}

// SAFETY: the pointer is an address that talc owns; it is used only under the lock around talc.
unsafe impl Send for Program {}

// SAFETY: `acquire` talks to the kernel alone, never to the global allocator.
unsafe impl Source for Program {
    /// Grows the heap by a quarter of its size, so that a large heap grows in few steps.
    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        let first = if talc.source.end.is_none() {
            talc::min_first_heap_size::<DefaultBinning>()
        } else {
            0
        };
        let needed = layout.size() + layout.align() + SLACK + first;
        let wanted = needed.max(LEAST_GROWTH).max(talc.source.size / 4);
        // Where memory is short, what is needed has to do.
        let (old_end, growth) = [wanted, needed]
            .into_iter()
            .map(|bytes| bytes.next_multiple_of(PAGE_SIZE))
            .find_map(|bytes| {
                let grown = raw::number_call(call::SBRK, [bytes, 0, 0]);
                grown.ok().map(|old_end| (old_end, bytes))
            })
            .ok_or(())?;
        // The first time, what is left of the variables' page also belongs to it.
        let rest = (&raw const end_of_data).addr();
        let first = talc.source.end.is_none() && rest.next_multiple_of(PAGE_SIZE) == old_end;
        let start = if first { rest } else { old_end };
        let size = old_end + growth - start;
        let start = core::ptr::with_exposed_provenance_mut::<u8>(start);
        let new_end = start.wrapping_add(size);
        let adjoins = talc
            .source
            .end
            .filter(|end| end.addr().get().next_multiple_of(talc::base::CHUNK_UNIT) >= old_end);
        // SAFETY: the kernel has just mapped the memory from `old_end` on for us alone, and nothing
        // lies behind the variables in their page. It adjoins the old heap unless other code has
        // called `sbrk` in between; then it becomes a heap of its own.
        let end = unsafe {
            match adjoins {
                Some(end) => Some(talc.extend(end, new_end)),
                None => talc.claim(start, size),
            }
        };
        talc.source.size += growth;
        talc.source.end = end;
        end.map(|_| ()).ok_or(())
    }
}
