//! Reads from pipes and connections that wait without a coroutine.
//!
//! ```text
//!  submitted ──▶ parked in its source ┬── bytes or the end come from something of its level or less urgent: served there and
//!                                     │   then, *done*
//!                                     ├── they come from something more urgent, which must not wait for it: *left* to a coroutine of
//!                                     │   its own level
//!                                     └── cancelled, or the process ends: taken out of its source
//! ```
//! So a read is never served ahead of what is more urgent (rule I9). Where it would have come next
//! anyway, making, waking and polling a coroutine for it is saved. The network's service brings
//! what comes for a connection. It inspects frames before it can determine for which socket they
//! are. There the read is the last part of inspecting its frame, whatever its level, and as bounded
//! as that. While it is parked its call is in [`Calls`](super::calls::Calls) as any other.
use super::Ring;
use super::calls::Place;
use super::serve::UnderWay;
use crate::file::Transferred;
use crate::file::pipe::{self, ReadEnd};
use crate::memory::account::{self, Charge};
use crate::memory::user::{BadAddress, UserBuffer};
use crate::net::Connection;
use crate::process::{Process, priority};
use crate::thread;
use crate::wait::WaitMode;
use alloc::sync::Arc;
use corank_abi::call::{FAILED, READ};
use core::future::poll_fn;
use core::pin::pin;

/// What a read can be parked in.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Pipe(ReadEnd),
    Connection(Arc<Connection>),
}

impl Source {
    /// Tests whether a read of so many bytes can be parked.
    ///
    /// While it waits it must not take some of them.
    pub(crate) fn can_park(&self, length: usize) -> bool {
        match self {
            Source::Pipe(_) => length <= pipe::CAPACITY,
            // A read takes what there is, at once.
            Source::Connection(_) => true,
        }
    }

    /// Parks a read.
    ///
    /// It comes back if it need not wait, or if other reads wait already.
    pub(super) fn park(&self, parked: Parked) -> Option<Parked> {
        match self {
            Source::Pipe(end) => end.park(parked),
            Source::Connection(connection) => connection.park(parked),
        }
    }

    /// Takes out the read that is parked for the call at `place` of `process`, if it still is.
    pub(super) fn take_parked(&self, process: &Process, place: Place) -> Option<Parked> {
        let take = |slot: &mut Slot| slot.0.take_if(|parked| parked.is(process, place));
        self.with_slot(take)
    }

    /// Sets the level of the read that is parked for the call at `place` of `process`, if it still
    /// is.
    pub(super) fn set_parked_level(&self, process: &Process, place: Place, level: u8) {
        self.with_slot(|slot| {
            let parked = slot.0.as_mut();
            if let Some(parked) = parked.filter(|parked| parked.is(process, place)) {
                parked.level = level;
            }
        });
    }

    fn with_slot<T>(&self, use_it: impl FnOnce(&mut Slot) -> T) -> T {
        match self {
            Source::Pipe(end) => end.with_slot(use_it),
            Source::Connection(connection) => connection.with_slot(use_it),
        }
    }

    async fn read(&self, process: &Process, buffer: &mut UserBuffer) -> Transferred {
        match self {
            Source::Pipe(end) => end.read(process, WaitMode::Block, buffer).await.map(Ok),
            Source::Connection(connection) => {
                connection.read(process, WaitMode::Block, buffer).await
            }
        }
    }

    fn read_at_once(&self, process: &Process, mut buffer: UserBuffer) -> Option<Transferred> {
        match self {
            Source::Pipe(end) => end
                .read_at_once(process, buffer)
                .map(|result| result.map(Ok)),
            Source::Connection(connection) => connection.read_now(process, &mut buffer),
        }
    }
}

/// A read that waits without a coroutine.
#[derive(Debug)]
pub(crate) struct Parked {
    ring: Arc<Ring>,
    /// The process that the buffer belongs to.
    pub(crate) process: Arc<Process>,
    place: Place,
    /// The live level at which it is to be served.
    pub(crate) level: u8,
    /// Where the bytes go; none has come yet.
    pub(crate) buffer: UserBuffer,
}

/// Where a read is parked.
///
/// It is a part of what the read waits for, under the same lock.
#[derive(Debug)]
pub(crate) struct Slot(Option<Parked>);

impl Slot {
    /// Makes a slot without a read.
    pub(crate) const fn new() -> Slot {
        Slot(None)
    }

    /// Returns the read, if one is parked.
    #[inline]
    pub(crate) fn parked(&self) -> Option<&Parked> {
        self.0.as_ref()
    }

    /// Takes the read out.
    ///
    /// The caller decides what becomes of it.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Parked> {
        self.0.take()
    }

    /// Parks a read in the empty slot.
    pub(crate) fn put(&mut self, parked: Parked) {
        self.0 = Some(parked);
    }
}

/// A read that was parked until now.
///
/// The code that holds it [settles](Self::settle) it when it holds no lock.
#[derive(Debug)]
#[must_use = "a read that is not settled never ends"]
pub(crate) struct Unparked {
    parked: Parked,
    /// `None` if it is left to a coroutine.
    result: Option<Transferred>,
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

    /// Tests whether it is the read of the call at `place` of `process`.
    pub(crate) fn is(&self, process: &Process, place: Place) -> bool {
        self.place == place && core::ptr::eq(&raw const *self.process, process)
    }

    /// Returns the level at which it is to be served, as far as its process was granted that.
    pub(crate) fn allowed_level(&self) -> u8 {
        self.process.allowed(self.level)
    }

    /// Tests whether it is at least as urgent as this level.
    pub(crate) fn is_as_urgent_as(&self, level: u8) -> bool {
        self.allowed_level() <= level
    }

    /// Returns the read as served, with this result.
    pub(crate) fn done(self, result: Transferred) -> Unparked {
        Unparked {
            parked: self,
            result: Some(result),
        }
    }

    /// Leaves the read to a coroutine.
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

fn complete(parked: &Parked, result: Transferred) {
    let Parked {
        ring,
        process,
        place,
        ..
    } = parked;
    process.step();
    match self::result(result) {
        Ok(result) => drop(ring.finish(process, *place, Some(result))),
        Err(bad) => thread::fail_call(process, READ as u32, bad),
    }
}

/// Converts what a read has given into the result of its call.
///
/// A bad address ends the process.
fn result(read: Transferred) -> Result<isize, BadAddress> {
    match read {
        Ok(read) => Ok(read.map_or_else(|failure| failure.0, |bytes| bytes as isize)),
        Err(bad) => bad.or_failed(),
    }
}

/// Makes the coroutine that serves a read.
///
/// Without memory for a coroutine the read is served by the code that brings what it waits for, as
/// far as there is something.
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
    let Some((source, level)) = state.calls.leave_parked(place) else {
        return;
    };
    let level = priority(process.allowed(level));
    let spare = source.clone();
    let under_way = UnderWay::new(ring.clone(), place);
    // Under the lock, as any call's coroutine. Without one, what it would have got is dropped when
    // nothing is held.
    let mut unused = Some((process.clone(), under_way, source));
    let spawned = account::spawn(&process.account, level, 0, |charge| {
        let (process, under_way, source) = unused.take().expect("it is called once");
        run(process, under_way, source, buffer, charge)
    });
    if let Ok(handle) = spawned {
        state.calls.made(place, handle.remote());
        drop(state);
        return;
    }
    drop(state);
    drop(unused);
    match spare
        .read_at_once(&process, buffer)
        .map_or(Ok(FAILED), result)
    {
        Ok(result) => drop(ring.finish(&process, place, Some(result))),
        Err(bad) => thread::fail_call(&process, READ as u32, bad),
    }
}

/// Serves a read that was parked, in a coroutine.
async fn run(
    process: Arc<Process>,
    under_way: UnderWay,
    source: Source,
    mut buffer: UserBuffer,
    _charge: Charge,
) {
    under_way.begin();
    let read = {
        let mut read = pin!(source.read(&process, &mut buffer));
        poll_fn(|context| {
            process.step();
            under_way.unless_cancelled(read.as_mut().poll(context), || true)
        })
        .await
    };
    let result = match read.map(result) {
        // Cancelled, it has taken nothing: what is parked fits into a pipe, and from a connection a
        // read takes what there is, at once.
        None => None,
        Some(Ok(result)) => Some(result),
        Some(Err(bad)) => return thread::fail_call(&process, READ as u32, bad),
    };
    process.step();
    drop(source);
    under_way.finish(&process, result);
}
