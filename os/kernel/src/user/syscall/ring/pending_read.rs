//! The calls of reads that were pending, and how they go on.
use super::serve::UnderWay;
use crate::executor::priority;
use crate::failure::Transferred;
use crate::file::Source;
use crate::memory::account::{self, Charge};
use crate::memory::user::{BadAddress, UserBuffer, UserMemory};
use crate::pending_read::{CallId, PendingCall, Reader};
use crate::process::Process;
use crate::ring::Ring;
use crate::user::thread::fail_call;
use alloc::sync::Arc;
use corank_abi::call::{FAILED, READ};
use core::future::poll_fn;
use core::pin::pin;

impl Reader for Process {
    fn memory(&self) -> &UserMemory {
        &self.memory
    }

    fn allowed(&self, level: u8) -> u8 {
        Process::allowed(self, level)
    }

    #[inline]
    fn go_on(self: Arc<Process>, call: PendingCall, result: Option<Transferred>) {
        let PendingCall { ring, id, buffer } = call;
        let ring = ring.downcast::<Ring>().expect("the read came from a ring");
        match result {
            Some(result) => complete(&self, &ring, id, result),
            None => make_coroutine(self, &ring, id, buffer),
        }
    }
}

fn complete(process: &Process, ring: &Ring, id: CallId, result: Transferred) {
    process.step();
    match self::result(result) {
        Ok(result) => drop(ring.finish(process, id, Some(result))),
        Err(bad) => fail_call(process, READ as u32, bad),
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
fn make_coroutine(process: Arc<Process>, ring: &Arc<Ring>, id: CallId, buffer: UserBuffer) {
    let mut state = ring.state.lock();
    let Some((source, level)) = state.calls.leave_pending_read(id) else {
        return;
    };
    let level = priority(process.allowed(level));
    let spare = source.clone();
    let under_way = UnderWay::new(ring.clone(), id);
    // Under the lock, as any call's coroutine. Without one, what it would have got is dropped when
    // nothing is held.
    let mut unused = Some((process.clone(), under_way, source));
    let spawned = account::spawn(&process.memory.account, level, 0, |charge| {
        let (process, under_way, source) = unused.take().expect("it is called once");
        run(process, under_way, source, buffer, charge)
    });
    if let Ok(handle) = spawned {
        state.calls.made(id, handle.remote());
        drop(state);
        return;
    }
    drop(state);
    drop(unused);
    match spare
        .read_at_once(&process.memory, buffer)
        .map_or(Ok(FAILED), result)
    {
        Ok(result) => drop(ring.finish(&process, id, Some(result))),
        Err(bad) => fail_call(&process, READ as u32, bad),
    }
}

/// Serves a read that was pending, in a coroutine.
async fn run(
    process: Arc<Process>,
    under_way: UnderWay,
    source: Source,
    mut buffer: UserBuffer,
    _charge: Charge,
) {
    under_way.begin();
    let read = {
        let mut read = pin!(source.read(&process.memory, &mut buffer));
        poll_fn(|context| {
            process.step();
            under_way.unless_cancelled(read.as_mut().poll(context), || true)
        })
        .await
    };
    let result = match read.map(result) {
        // Cancelled, it has taken nothing: a pending read fits into a pipe, and from a connection
        // a read takes what there is, at once.
        None => None,
        Some(Ok(result)) => Some(result),
        Some(Err(bad)) => return fail_call(&process, READ as u32, bad),
    };
    process.step();
    drop(source);
    under_way.finish(&process, result);
}
