//! Serving a submission: in place if that is done without waiting, else by a coroutine.
use crate::executor::priority;
use crate::file::File;
use crate::file::pipe::Writer;
use crate::lock::MutexGuard;
use crate::memory::account::Charge;
use crate::memory::user::{BadAddress, UserBuffer};
use crate::pace::checkpoint;
use crate::pending_read::{CallId, EndedRead, PendingCall, PendingRead};
use crate::process::Process;
use crate::ring::{Finished, LAST_LEVEL, Ring, State, Tag};
use crate::stretch::{self, Work};
use crate::user::kernel_thread::{Call, KernelThread};
use crate::user::syscall;
use crate::user::thread::fail_call;
use crate::wait::WaitMode;
use alloc::sync::Arc;
use corank_abi::call::{FAILED, READ, WRITE};
use corank_abi::ring::{CLOSE_FILE, Completion, LINK, Submission};
use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Poll;

impl Ring {
    /// Serves a submission now if that can be done without waiting.
    ///
    /// This keeps linked ones in order too. Else leaves it to a coroutine, with all that is linked
    /// to it.
    pub(super) fn serve(
        self: &Arc<Ring>,
        process: &Arc<Process>,
        first: &Submission,
        end: u32,
    ) -> Result<(), BadAddress> {
        stretch::works_on(Work::Submission(first.call as usize));
        process.step();
        match first.call as usize {
            WRITE if self.write(process, first)? => return Ok(()),
            _ => {}
        }
        if let Some(result) = syscall::at_once(process, first.call as usize, arguments(first)) {
            let served = Tag::of(first);
            self.complete(process, served, result.or_else(BadAddress::or_failed)?);
            return match served.close() {
                Some(close) => self.serve(process, &close, end),
                None => Ok(()),
            };
        }
        if first.call as usize == READ && self.begin_pending(process, first) {
            return Ok(());
        }
        self.serve_later(process, first, end)
    }

    /// Serves a write to a pipe that need not wait, and closes the file if the call takes it along.
    ///
    /// Returns false if it is another write.
    fn write(&self, process: &Arc<Process>, first: &Submission) -> Result<bool, BadAddress> {
        let [file, address, length] = arguments(first);
        let level = process.allowed(first.level);
        let closes = first.flags & CLOSE_FILE != 0;
        let mut ended_read = None;
        let used = process.use_file(
            file,
            |file| match file {
                File::PipeWrite(end) => end.write_at_once(
                    &process.memory,
                    UserBuffer { address, length },
                    Writer::At { level, closes },
                    &mut ended_read,
                ),
                _ => None,
            },
            |written| closes && written.is_some(),
        );
        let Some((Some(written), closed)) = used else {
            return Ok(false);
        };
        // After the bytes have been handed over, before any thread can observe it.
        drop(closed);
        EndedRead::finish(ended_read);
        let result = match written {
            Ok(written) => written.map_or_else(|failure| failure.0, |bytes| bytes as isize),
            Err(bad) => bad.or_failed()?,
        };
        self.complete(process, Tag::of(first), result);
        Ok(true)
    }

    /// Leaves a read that has to wait pending.
    ///
    /// Returns false if it is another read.
    #[inline(never)]
    fn begin_pending(self: &Arc<Ring>, process: &Arc<Process>, first: &Submission) -> bool {
        let [file, address, length] = arguments(first);
        // What is linked behind it needs a coroutine that goes on with it.
        if first.flags & LINK != 0 || process.by_thread.load(Ordering::Relaxed) {
            return false;
        }
        let closes = first.flags & CLOSE_FILE != 0;
        let Some(source) = process.source(file, length, closes) else {
            return false;
        };
        let mut state = self.state.lock();
        if state.closed {
            return true;
        }
        let (owner, ring, process) = (process, self.clone(), process.clone());
        let buffer = UserBuffer { address, length };
        let account = &owner.memory.account;
        let begun = state
            .calls
            .begin_pending_read(account, first, source, |id| PendingRead {
                reader: process,
                level: first.level,
                call: PendingCall { ring, id, buffer },
            });
        drop(state);
        match begun {
            Ok(refused) => EndedRead::finish(refused.map(PendingRead::leave)),
            Err(source) => {
                // If the call takes its file along, dropping this closes it.
                drop(source);
                self.complete(owner, Tag::of(first), FAILED);
            }
        }
        true
    }

    /// Puts the result of what was served at once into the completion ring.
    ///
    /// Its process has entered the kernel, and its level is followed when all that it has submitted
    /// is served.
    pub(super) fn complete(&self, process: &Process, served: Tag, result: isize) {
        if served.reports() {
            let state = self.state.lock();
            self.report::<false>(state, process, served, result);
        }
    }

    /// Ends what a call served, with this result.
    ///
    /// `None` means that it was cancelled, and has done nothing. Returns what to serve next.
    /// Nothing happens if there is no such call any more.
    pub(super) fn finish(
        &self,
        process: &Process,
        id: CallId,
        result: Option<isize>,
    ) -> Option<Submission> {
        let mut state = self.state.lock();
        let Finished {
            served,
            next,
            cancel,
            file,
        } = state.calls.finish_at(id)?;
        let next = next.filter(|_| !state.closed);
        if cancel.is_some() {
            self.cancels.store(state.calls.cancels(), Ordering::Relaxed);
        }
        match result {
            Some(result) if served.reports() => self.report::<true>(state, process, served, result),
            _ => drop(state),
        }
        if let Some(cancel) = cancel {
            cancel.resolve(result.is_some());
        }
        drop(file);
        next
    }

    /// Puts a result into the completion ring and wakes the threads that waited for it.
    ///
    /// With `FOLLOW` the process's level follows at once.
    fn report<const FOLLOW: bool>(
        &self,
        mut state: MutexGuard<'_, State>,
        process: &Process,
        served: Tag,
        result: isize,
    ) {
        if state.closed {
            return;
        }
        state.add(
            &self.memory,
            Completion {
                key: served.key,
                result: result as i64,
            },
        );
        let ready = state.ready(&self.memory);
        let enough = ready >= state.wanted;
        if enough {
            state.wanted = u32::MAX;
        }
        drop(state);
        let worker = process.worker(self.worker);
        worker.note_arrival(served.level.min(LAST_LEVEL));
        if FOLLOW {
            worker.follow_level(process);
        }
        if enough {
            self.completed.wake_all();
        } else {
            process.notify(worker);
        }
    }

    /// Tests whether a canceller wants the call to end.
    ///
    /// Costs one load while no call is to be cancelled.
    fn is_cancelled(&self, number: usize) -> bool {
        self.cancels.load(Ordering::Relaxed) != 0 && self.state.lock().calls.is_cancelled(number)
    }
}

fn arguments(submission: &Submission) -> [usize; 3] {
    submission.arguments.map(|argument| argument as usize)
}

/// A call that is under way.
pub(super) struct UnderWay {
    ring: Arc<Ring>,
    id: CallId,
    /// Its coroutine has run, and is not done yet.
    ///
    /// Until then the call belongs to the code that makes the coroutine.
    begun: AtomicBool,
}

impl UnderWay {
    pub(super) fn new(ring: Arc<Ring>, id: CallId) -> UnderWay {
        UnderWay {
            ring,
            id,
            begun: AtomicBool::new(false),
        }
    }

    /// Notes that the coroutine runs, so that the call is its own.
    pub(super) fn begin(&self) {
        self.begun.store(true, Ordering::Relaxed);
    }

    /// Calls [`Ring::finish`].
    ///
    /// Without something to serve next the call belongs to nothing.
    pub(super) fn finish(&self, process: &Process, result: Option<isize>) -> Option<Submission> {
        let next = self.ring.finish(process, self.id, result);
        if next.is_none() {
            self.begun.store(false, Ordering::Relaxed);
        }
        next
    }

    /// Returns what a poll has given.
    ///
    /// Returns `None` if the call waits and is to end, and what was polled can be dropped.
    #[inline]
    pub(super) fn unless_cancelled<T>(
        &self,
        polled: Poll<T>,
        can_be_dropped: impl FnOnce() -> bool,
    ) -> Poll<Option<T>> {
        match polled {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if self.ring.is_cancelled(self.id.number) && can_be_dropped() => {
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Tests whether the call that serves a submission can be dropped while it waits.
fn can_be_dropped(process: &Process, served: &Submission) -> bool {
    syscall::can_be_dropped(process, served.call as usize, served.arguments[0] as usize)
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if self.begun.load(Ordering::Relaxed) {
            // Killed in the middle. The call is not there any more when all calls of the process
            // were cancelled.
            self.ring.state.lock().calls.abandon(self.id);
        }
    }
}

/// Serves calls that have to wait, in a coroutine.
pub(super) async fn run(
    process: Arc<Process>,
    under_way: UnderWay,
    first: Submission,
    _charge: Charge,
) {
    under_way.begin();
    let mut served = first;
    loop {
        let result = if process.by_thread.load(Ordering::Relaxed) {
            by_thread(&process, &under_way, &served).await
        } else {
            let [_, address, length] = arguments(&served);
            let mut buffer = UserBuffer { address, length };
            let result = {
                let mut call = pin!(syscall::wait(
                    &process,
                    WaitMode::Block,
                    served.call as usize,
                    arguments(&served),
                    &mut buffer,
                ));
                poll_fn(|context| {
                    stretch::works_on(Work::Submission(served.call as usize));
                    process.step();
                    under_way.unless_cancelled(call.as_mut().poll(context), || {
                        can_be_dropped(&process, &served)
                    })
                })
                .await
            };
            // Cancelled: what worked on the buffer is gone. What it has transferred by then counts
            // as done.
            result.or_else(|| moved(length - buffer.length))
        };
        let result = match result.map(|result| result.or_else(BadAddress::or_failed)) {
            Some(Ok(result)) => Some(result),
            Some(Err(bad)) => return fail_call(&process, served.call, bad),
            None => None,
        };
        process.step();
        match under_way.finish(&process, result) {
            Some(next) => served = next,
            None => break,
        }
        if let Some(this) = corank::current() {
            corank::reprioritize(this, priority(process.allowed(served.level)));
        }
        // Calls that need not wait follow one another without end.
        checkpoint().await;
    }
}

/// Serves a submission by a kernel thread.
///
/// Returns `None` if it was cancelled, and has done nothing.
async fn by_thread(
    process: &Arc<Process>,
    under_way: &UnderWay,
    served: &Submission,
) -> Option<syscall::Result> {
    // Only what has to wait needs a stack. So a close that is linked behind a call does not fail
    // for want of one.
    if let Some(result) = syscall::at_once(process, served.call as usize, arguments(served)) {
        return Some(result);
    }
    let call = Call {
        process: process.clone(),
        mode: WaitMode::Block,
        number: served.call as usize,
        arguments: arguments(served),
    };
    let Ok(mut serving) = KernelThread::new(None, call) else {
        return Some(Ok(FAILED));
    };
    let result = poll_fn(|context| {
        process.step();
        under_way.unless_cancelled(Pin::new(&mut serving).poll(context), || {
            can_be_dropped(process, served)
        })
    });
    match result.await {
        None => moved(serving.cancel()),
        done => done,
    }
}

/// Returns what a cancelled call that has moved so many bytes comes to.
fn moved(bytes: usize) -> Option<syscall::Result> {
    (bytes > 0).then_some(Ok(bytes as isize))
}
