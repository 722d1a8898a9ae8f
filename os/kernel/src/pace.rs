//! Long work in bounded pieces.
//!
//! A hart executes a coroutine's poll without interruption, so no poll may last long. Work whose
//! size a program chooses is split into pieces, with a [`checkpoint`] behind each. A piece takes
//! some ten thousand instructions at most, and holds no lock across the checkpoint.
use crate::executor::{has_arrivals, has_more_urgent_work};
use crate::stretch;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};

/// The number of pages of memory that one piece of work maps, copies or releases.
pub(crate) const PAGES: usize = 16;

/// The number of bytes that one piece of work copies.
pub(crate) const BYTES: usize = 32 << 10;

/// The number of objects (files, calls, threads, sockets) that one piece of work releases or
/// visits.
pub(crate) const OBJECTS: usize = 16;

/// Yields if something strictly more urgent is ready, or if an interrupt is pending, which may make
/// something ready.
///
/// A pending clock tick counts, too: after it, coroutines of the same level have their turn. Costs
/// a few instructions where nothing is pending. At boot, where no coroutine runs, it does nothing.
#[inline]
pub(crate) async fn checkpoint() {
    stretch::check();
    if has_more_urgent_work() {
        corank::yield_now().await;
    }
}

/// Passes a [`checkpoint`] inside a poll: pending where the caller should yield.
///
/// It is woken then, and goes on in the next poll.
pub(crate) fn poll_checkpoint(context: &Context<'_>) -> Poll<()> {
    stretch::check();
    if has_more_urgent_work() {
        context.waker().wake_by_ref();
        return Poll::Pending;
    }
    Poll::Ready(())
}

/// A counter of objects, which passes a [`checkpoint`] behind each [`OBJECTS`] of them.
///
/// It also yields there if the executor has something to collect: coroutines that were cancelled,
/// or whose last handles are gone. So the executor never has much of that at once.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    objects: usize,
}

impl Pace {
    /// Counts one object that has been worked on.
    #[inline]
    pub(crate) async fn step(&mut self) {
        self.objects += 1;
        if self.objects == OBJECTS {
            self.objects = 0;
            stretch::check();
            if has_more_urgent_work() || has_arrivals() {
                corank::yield_now().await;
            }
        }
    }
}

/// A rare part of a coroutine that runs often.
///
/// Its code lies apart, and not in the middle of what is executed at each step.
pub(crate) struct Apart<F>(F);

/// Moves the code of a future apart from that of its caller; see [`Apart`].
pub(crate) fn apart<F: Future>(future: F) -> Apart<F> {
    Apart(future)
}

impl<F: Future> Future for Apart<F> {
    type Output = F::Output;

    #[cold]
    #[inline(never)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is pinned as this is: it is moved neither here nor anywhere else.
        unsafe { self.map_unchecked_mut(|this| &mut this.0) }.poll(context)
    }
}

/// Does work of the boot, where there is nothing else to do.
///
/// Its checkpoints do nothing.
///
/// # Panics
/// When the work waits for something.
pub(crate) fn at_boot<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("nothing can be waited for at boot"),
    }
}
