//! Reads from pipes that wait without a coroutine.
//!
//! ```text
//!  submitted ──▶ parked in the pipe ──┬── bytes or the end come from somebody of its level or a less urgent one: served there and
//!                                     │   then, *done*
//!                                     ├── they come from somebody more urgent, who must not wait for it: *left* to a coroutine of
//!                                     │   its own level
//!                                     └── cancelled, or the process ends: taken out of the pipe
//! ```
//! So a read is never served ahead of what is more urgent (rule I9), and where it would have come next anyway, making, waking and polling
//! a coroutine for it is saved. While it is parked its call is in [`Calls`](super::calls::Calls) as any other.
use super::Ring;
use super::calls::Place;
use super::serve::UnderWay;
use crate::file::pipe::ReadEnd;
use crate::hart;
use crate::memory::heap;
use crate::memory::user::{BadAddress, UserBuffer};
use crate::process::{Process, priority};
use crate::thread;
use crate::wait::WaitMode;
use alloc::sync::Arc;
use corank_abi::call::{FAILED, READ};
use core::future::poll_fn;
use core::pin::pin;

/// A read that waits. See the module's documentation.
#[derive(Debug)]
pub(crate) struct Parked {
    ring: Arc<Ring>,
    /// Whose memory the buffer is.
    pub(crate) process: Arc<Process>,
    place: Place,
    /// The level at which it is to be served. Live.
    pub(crate) level: u8,
    /// Where the bytes go; none has come yet.
    pub(crate) buffer: UserBuffer,
}

/// A read that was parked until now. Whoever has it [settles](Self::settle) it when it holds no lock.
#[derive(Debug)]
#[must_use = "a read that is not settled never ends"]
pub(crate) struct Unparked {
    parked: Parked,
    /// `None` if it is left to a coroutine.
    result: Option<Result<usize, BadAddress>>,
}

impl Parked {
    pub(super) fn new(
        ring: Arc<Ring>,
        process: Arc<Process>,
        place: Place,
        level: u8,
        buffer: UserBuffer,
    ) -> Parked {
        Parked {
            ring,
            process,
            place,
            level,
            buffer,
        }
    }

    /// Whether it is that of the call at `place` of `process`.
    pub(crate) fn is(&self, process: &Process, place: Place) -> bool {
        self.place == place && core::ptr::eq(&raw const *self.process, process)
    }

    /// Whether it is at least as urgent as this level.
    pub(crate) fn is_as_urgent_as(&self, level: u8) -> bool {
        self.process.allowed(self.level) <= level
    }

    /// It has been served, with this result.
    pub(crate) fn done(self, result: Result<usize, BadAddress>) -> Unparked {
        Unparked {
            parked: self,
            result: Some(result),
        }
    }

    /// It goes on in a coroutine.
    pub(crate) fn leave(self) -> Unparked {
        Unparked {
            parked: self,
            result: None,
        }
    }
}

impl Unparked {
    /// Completes the call, or makes its coroutine.
    #[inline]
    pub(crate) fn settle(unparked: Option<Unparked>) {
        match unparked {
            None => {}
            Some(Unparked {
                parked,
                result: Some(result),
            }) => complete(&parked, result),
            Some(Unparked { parked, .. }) => make_coroutine(parked),
        }
    }
}

fn complete(parked: &Parked, result: Result<usize, BadAddress>) {
    let Parked {
        ring,
        process,
        place,
        ..
    } = parked;
    process.step();
    match result {
        Ok(bytes) => drop(ring.finish(process, *place, Some(bytes as isize))),
        Err(bad) => thread::fail_call(process, READ as u32, bad),
    }
}

/// Without memory for a coroutine the read is served by whoever brings what it waits for, as far as there is something.
#[cold]
fn make_coroutine(parked: Parked) {
    let Parked {
        ring,
        process,
        place,
        buffer,
        ..
    } = parked;
    let mut state = ring.state.lock();
    let Some((end, level)) = state.calls.leave_parked(place) else {
        return;
    };
    let level = priority(process.allowed(level));
    let spare = end.clone();
    let under_way = UnderWay::new(ring.clone(), place);
    // Under the lock, as any call's coroutine. Without one, what it would have got is dropped when nothing is held.
    let mut unused = Some((process.clone(), under_way, end));
    let spawned = if heap::has_room() {
        hart::executor()
            .spawn_with(level, || {
                let (process, under_way, end) = unused.take().expect("it is called once");
                run(process, under_way, end, buffer)
            })
            .ok()
    } else {
        None
    };
    if let Some(handle) = spawned {
        state.calls.made(place, handle.remote());
        drop(state);
        return;
    }
    drop(state);
    drop(unused);
    let result = match spare.read_at_once(&process, buffer) {
        Some(Ok(bytes)) => bytes as isize,
        Some(Err(bad)) => return thread::fail_call(&process, READ as u32, bad),
        None => FAILED,
    };
    ring.finish(&process, place, Some(result));
}

/// The coroutine of a read that was parked.
async fn run(process: Arc<Process>, under_way: UnderWay, end: ReadEnd, mut buffer: UserBuffer) {
    under_way.begin();
    let read = {
        let mut read = pin!(end.read(&process, WaitMode::Block, &mut buffer));
        poll_fn(|context| {
            process.step();
            under_way.unless_cancelled(read.as_mut().poll(context), || true)
        })
        .await
    };
    let result = match read {
        // What is parked fits into a pipe: cancelled, it has taken nothing.
        None => None,
        Some(Ok(bytes)) => Some(bytes as isize),
        Some(Err(bad)) => return thread::fail_call(&process, READ as u32, bad),
    };
    process.step();
    drop(end);
    under_way.finish(&process, result);
}
