//! The calls of a worker that are under way, found by their key when the process cancels or
//! re-prioritises them.
//!
//! ```text
//!                begin                       finish, nothing linked behind
//!  (submitted) ─────────▶ served by a coroutine ──────────────▶ (gone)
//!      │                   │   ▲    ▲   │ finish: the next one        ▲
//!      │           cancel  │   │    └───┘ of the chain is served      │
//!      │                   ▼   │                                      │
//!      │             to be cancelled ── its coroutine has seen it: finish, as above
//!      │ begin                 │ leave                                │
//!      └────────────▶ waits in its source ───────────────────────────┘
//!                                   finish, or cancel
//! ```
//! A call is cancelled by its own coroutine, between two polls of what serves it, whichever hart
//! that is on. So nothing else ever drops what may be writing to the program's memory, and a
//! canceller waits until that is over. A pending read (see [`crate::pending_read`]) is taken out of
//! its source by the canceller. If another hart has just taken it out, the canceller waits.
mod index;

use crate::file::Source;
use crate::memory::OutOfMemory;
use crate::memory::account::{self, Account, Charge};
use crate::memory::slots::Slots;
use crate::memory::user::UserMemory;
use crate::pending_read::{CallId, PendingRead};
use crate::wait::WaitQueue;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use corank::Remote;
use corank_abi::call::{CLOSE, READ, RING_CANCELLED, RING_COMPLETED, WRITE};
use corank_abi::ring::{CLOSE_FILE, SILENT, Submission};
use core::sync::atomic::{AtomicIsize, Ordering};

/// The table of a worker's calls that are under way.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    calls: Slots<Call>,
    /// First call of each bucket, by a hash of the keys.
    ///
    /// The others follow by `Call::next`. Keys are the program's, so several calls may have the
    /// same. Calls that do not report back are in no bucket. The buckets are empty until a call is
    /// looked for. Then all calls are put in, once, so that processes that never cancel nor
    /// re-prioritise have no work with it.
    buckets: Vec<u32>,
    /// How many buckets there will be when all are made.
    ///
    /// That is as many as `calls` has room for, a power of two, or fewer without memory for that. 0
    /// means that they are made anew.
    buckets_wanted: usize,
    /// What the buckets cost.
    buckets_charge: Charge,
    /// How many submissions that report back wait behind others, or are about to.
    linked: usize,
    /// How many are pending reads.
    pending_reads: usize,
    /// How many are to be cancelled.
    cancels: usize,
    /// How many have ever begun, modulo 2^32.
    begun: u32,
    /// The calls with smaller numbers are in their buckets.
    indexed: usize,
    /// How often a call has been put into a bucket, in front of the others, modulo 2^32.
    entered: u32,
    /// Where [`remove_any`](Self::remove_any) goes on.
    removed: usize,
}

/// How many calls and linked submissions a search visits before other work may go first.
const SEARCHED_AT_ONCE: usize = 1536;

/// All calls are in their buckets, and so is each call that begins.
const ALL: usize = usize::MAX;

/// The end of a bucket.
const NONE: u32 = u32::MAX;

/// Where a search for a key goes on that other work may have interrupted.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// In the key's bucket, at the call that has not been visited; `None` means at the first.
    at: Option<CallId>,
    /// The whole bucket has been visited.
    has_bucket: bool,
    /// [`Calls::entered`] when the visit of the bucket began.
    entered: u32,
    /// Among the linked submissions, at those of the call with this number.
    linked: usize,
}

/// What serves a call.
#[derive(Debug)]
enum Server {
    /// A coroutine that is being made.
    Making,
    Coroutine(Remote),
    /// What brings the bytes or the end that it waits for.
    Pending(Source),
}

/// What one coroutine, or none yet, works on: a submission, and what is linked behind it.
#[derive(Debug)]
struct Call {
    server: Server,
    /// How many calls began before it, modulo 2^32.
    serial: u32,
    /// What is served now.
    served: Tag,
    /// Next in its bucket.
    next: u32,
    /// The one in front of it in its bucket.
    previous: u32,
    /// What is linked behind it.
    ///
    /// It is boxed, because most calls have nothing.
    rest: Option<Box<Linked>>,
    cancel: Option<Arc<Cancel>>,
}

/// What is linked behind a call, in order.
#[derive(Debug)]
struct Linked {
    submissions: Vec<Submission>,
    /// How many of them were served or are.
    taken: usize,
    _charge: Charge,
}

/// The call of a submission that was cancelled before it began.
const REMOVED: u32 = u32::MAX;

impl Linked {
    /// Makes an empty list with room for so many.
    fn new(account: &Arc<Account>, count: usize) -> Result<Linked, OutOfMemory> {
        let bytes = count * size_of::<Submission>() + account::of::<Linked>();
        let charge = account::charge(account, bytes)?;
        let mut submissions = Vec::new();
        account::make_room(&mut submissions, count)?;
        Ok(Linked {
            submissions,
            taken: 0,
            _charge: charge,
        })
    }

    /// Returns the submissions that have not begun.
    fn left(&self) -> &[Submission] {
        &self.submissions[self.taken..]
    }

    /// Takes out the first submission that has not begun.
    fn pop(&mut self) -> Option<Submission> {
        let index = self.left().iter().position(|next| next.call != REMOVED);
        let next = self.taken + index?;
        self.taken = next + 1;
        Some(self.submissions[next])
    }

    /// Returns how many of the submissions that have not begun report back.
    fn reporting(&self) -> usize {
        self.left().iter().filter(|next| reports(next)).count()
    }
}

/// What is kept of a submission that is served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag {
    pub(crate) key: u64,
    /// The live level: it changes while the call is served.
    pub(crate) level: u8,
    flags: u8,
    /// The file that it takes along, if its flags say so.
    file: u32,
}

impl Tag {
    pub(crate) fn of(submission: &Submission) -> Tag {
        let takes_file = matches!(submission.call as usize, READ | WRITE);
        Tag {
            key: submission.key,
            level: submission.level,
            flags: if takes_file {
                submission.flags
            } else {
                submission.flags & !CLOSE_FILE
            },
            file: submission.arguments[0] as u32,
        }
    }

    /// Returns the submission that closes the file that it takes along, if it takes one along.
    pub(crate) fn close(self) -> Option<Submission> {
        (self.flags & CLOSE_FILE != 0).then(|| Submission {
            call: CLOSE as u32,
            level: self.level,
            flags: SILENT,
            arguments: [self.file.into(), 0, 0],
            ..Submission::default()
        })
    }

    /// Tests whether the process wants a completion for it.
    pub(crate) fn reports(self) -> bool {
        self.flags & SILENT == 0
    }
}

/// What a canceller of a call waits on.
#[derive(Debug)]
pub(crate) struct Cancel {
    /// What [`RING_CANCEL`](corank_abi::call::RING_CANCEL) returns, or [`Cancel::PENDING`].
    outcome: AtomicIsize,
    pub(crate) queue: WaitQueue,
}

impl Cancel {
    const PENDING: isize = -1;

    fn new() -> Cancel {
        Cancel {
            outcome: AtomicIsize::new(Cancel::PENDING),
            queue: WaitQueue::new(),
        }
    }

    /// Returns the outcome, once that is known.
    pub(crate) fn outcome(&self) -> Option<isize> {
        let outcome = self.outcome.load(Ordering::Acquire);
        (outcome != Cancel::PENDING).then_some(outcome)
    }

    /// Sets the outcome and wakes the waiters.
    ///
    /// Called after the completion, if there is one, has been put into the ring.
    pub(crate) fn resolve(&self, completed: bool) {
        let outcome = if completed {
            RING_COMPLETED
        } else {
            RING_CANCELLED
        };
        self.outcome.store(outcome, Ordering::Release);
        self.queue.wake_all();
    }
}

/// What [`Calls::cancel`] found.
pub(crate) enum Found {
    /// No such call.
    Nothing,
    /// Not found yet: the search goes on.
    Nowhere,
    /// It had not begun, and was removed.
    Removed,
    /// It was pending, and has ended.
    ///
    /// The caller drops what it had when it holds no lock.
    Ended(PendingRead, Finished),
    /// Its coroutine will end it.
    ///
    /// The caller wakes that coroutine and waits.
    Served(Arc<Cancel>, Option<Remote>),
}

/// What [`Calls::set_level`] found.
pub(crate) enum Levelled {
    /// No such call.
    Nothing,
    /// Not found yet: the search goes on.
    Nowhere,
    /// A call, with its coroutine if it has one.
    Found(Option<Remote>),
}

/// A call that is to be cancelled and is in no table any more.
pub(crate) struct Removed {
    call: Call,
    number: usize,
}

impl Removed {
    /// Ends the call, with no lock held.
    pub(crate) fn cancel(self, memory: &UserMemory) {
        match &self.call.server {
            Server::Pending(source) => {
                drop(source.take_pending_read(memory, self.call.id(self.number)));
            }
            Server::Coroutine(coroutine) => {
                coroutine.cancel();
            }
            Server::Making => {}
        }
    }
}

/// What [`Calls::finish`] found.
pub(crate) struct Finished {
    pub(crate) served: Tag,
    /// What the coroutine serves next.
    ///
    /// Without it the call is gone.
    pub(crate) next: Option<Submission>,
    /// What cancellers wait on for the end of what was served.
    pub(crate) cancel: Option<Arc<Cancel>>,
    /// What a pending call has had open.
    ///
    /// It is to be dropped without a lock.
    pub(crate) file: Option<Source>,
}

impl Calls {
    /// Returns how many are under way.
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns how many completions they will give at most.
    #[inline]
    pub(crate) fn owed(&self) -> usize {
        self.calls.len() + self.linked
    }

    /// Counts so many submissions that report back.
    ///
    /// They were taken, and are about to be linked behind another.
    pub(crate) fn add_linked(&mut self, reporting: usize) {
        self.linked += reporting;
    }

    /// Counts so many fewer of them, because they were served otherwise.
    ///
    /// If all calls were cancelled meanwhile, none is counted any more.
    pub(crate) fn remove_linked(&mut self, reporting: usize) {
        self.linked = self.linked.saturating_sub(reporting);
    }

    /// Tests whether no coroutine serves any.
    pub(crate) fn all_pending_reads(&self) -> bool {
        self.calls.len() == self.pending_reads
    }

    /// Returns how many are to be cancelled.
    pub(crate) fn cancels(&self) -> usize {
        self.cancels
    }

    /// Begins a call that a coroutine will serve, with so many submissions behind it.
    ///
    /// Those are [linked](Self::link) to it next.
    ///
    /// # Errors
    /// Without memory for it.
    pub(crate) fn begin(
        &mut self,
        account: &Arc<Account>,
        first: &Submission,
        linked: usize,
    ) -> Result<CallId, OutOfMemory> {
        self.calls.reserve(account)?;
        let rest = match linked {
            0 => None,
            count => Some(Box::new(Linked::new(account, count)?)),
        };
        Ok(self.insert(account, first, rest))
    }

    /// Links the next submission behind a call that began with room for it.
    ///
    /// Returns false if there is no such call any more.
    pub(crate) fn link(&mut self, id: CallId, next: Submission) -> bool {
        let Some(rest) = self.at(id).and_then(|call| call.rest.as_mut()) else {
            return false;
        };
        rest.submissions.push(next);
        self.linked += usize::from(reports(&next));
        true
    }

    /// Begins a call whose read, which `make` makes, waits in this source.
    ///
    /// The read comes back if it cannot wait there.
    ///
    /// # Errors
    /// Without memory for it the source comes back.
    pub(crate) fn begin_pending_read(
        &mut self,
        account: &Arc<Account>,
        first: &Submission,
        source: Source,
        make: impl FnOnce(CallId) -> PendingRead,
    ) -> Result<Option<PendingRead>, Source> {
        if self.calls.reserve(account).is_err() {
            return Err(source);
        }
        let id = self.insert(account, first, None);
        let refused = source.put_pending(make(id));
        self.calls[id.number].server = Server::Pending(source);
        self.pending_reads += 1;
        Ok(refused)
    }

    /// Inserts a call; there is room for it.
    fn insert(
        &mut self,
        account: &Arc<Account>,
        first: &Submission,
        rest: Option<Box<Linked>>,
    ) -> CallId {
        let call = Call {
            server: Server::Making,
            serial: self.begun,
            served: Tag::of(first),
            next: NONE,
            previous: NONE,
            rest,
            cancel: None,
        };
        let number = self.calls.insert(account, call);
        let number = number.expect("room was made");
        if self.calls.len() > self.buckets_wanted {
            // They are made anew when a call is looked for.
            self.buckets_wanted = 0;
            self.indexed = 0;
        }
        self.enter(number);
        let serial = self.begun;
        self.begun = serial.wrapping_add(1);
        CallId { number, serial }
    }

    fn at(&mut self, id: CallId) -> Option<&mut Call> {
        let call = self.calls.get_mut(id.number)?;
        (call.serial == id.serial).then_some(call)
    }

    /// Returns the level at which a call is served.
    ///
    /// Returns `None` if there is no such call any more.
    pub(crate) fn level_of(&mut self, id: CallId) -> Option<u8> {
        self.at(id).map(|call| call.served.level)
    }

    /// Notes the coroutine that serves a call.
    ///
    /// It has been made under the same lock as the call's beginning.
    pub(crate) fn made(&mut self, id: CallId, coroutine: Remote) {
        self.calls[id.number].server = Server::Coroutine(coroutine);
    }

    /// Hands a pending call on to a coroutine, which is made next.
    ///
    /// The coroutine gets the source and the level that are returned. Returns `None` if there is no
    /// such call any more.
    pub(crate) fn leave_pending_read(&mut self, id: CallId) -> Option<(Source, u8)> {
        let call = self.at(id)?;
        match core::mem::replace(&mut call.server, Server::Making) {
            Server::Pending(source) => {
                let level = call.served.level;
                self.pending_reads -= 1;
                Some((source, level))
            }
            server => {
                call.server = server;
                None
            }
        }
    }

    /// Calls [`finish`](Self::finish), if there still is such a call.
    pub(crate) fn finish_at(&mut self, id: CallId) -> Option<Finished> {
        self.at(id)?;
        self.finish(id.number)
    }

    /// Tests whether a canceller waits for the end of what the call serves now.
    pub(crate) fn is_cancelled(&self, number: usize) -> bool {
        let call = self.calls.get(number);
        call.is_some_and(|call| call.cancel.is_some())
    }

    /// Ends what the call served, which is done or was cancelled.
    ///
    /// Returns `None` when all calls of the process were cancelled.
    pub(crate) fn finish(&mut self, number: usize) -> Option<Finished> {
        self.leave(number);
        let call = self.calls.get_mut(number)?;
        let served = call.served;
        let cancel = call.cancel.take();
        let mut file = None;
        // A pending call has nothing behind it, and its file with it.
        let next = match call.server {
            Server::Pending(_) => None,
            _ => served.close().or_else(|| {
                let next = call.rest.as_mut()?.pop()?;
                self.linked -= usize::from(reports(&next));
                Some(next)
            }),
        };
        match &next {
            Some(next) => {
                call.served = Tag::of(next);
                self.enter(number);
            }
            None => {
                if let Server::Pending(source) = self.calls.remove(number).server {
                    self.pending_reads -= 1;
                    file = Some(source);
                }
            }
        }
        self.cancels -= usize::from(cancel.is_some());
        Some(Finished {
            served,
            next,
            cancel,
            file,
        })
    }

    /// Removes a call whose coroutine is gone before it was done.
    ///
    /// What is linked behind the call is removed with it.
    pub(crate) fn abandon(&mut self, id: CallId) {
        if self.at(id).is_none() {
            return;
        }
        self.leave(id.number);
        let call = self.calls.remove(id.number);
        self.cancels -= usize::from(call.cancel.is_some());
        let linked = call.rest.map_or(0, |rest| rest.reporting());
        self.linked = self.linked.saturating_sub(linked);
    }

    /// Makes a call fail whose coroutine could not be made.
    ///
    /// Returns what waits for its end, and whether something is linked behind it, which is
    /// [taken](Self::take_linked) next. If nothing is, the call is gone.
    pub(crate) fn fail(&mut self, id: CallId) -> (Option<Arc<Cancel>>, bool) {
        if self.at(id).is_none() {
            return (None, false);
        }
        self.leave(id.number);
        let call = &mut self.calls[id.number];
        // Nothing finds it from now on.
        call.served.flags = SILENT;
        let cancel = call.cancel.take();
        let has_rest = call.rest.is_some();
        self.cancels -= usize::from(cancel.is_some());
        if !has_rest {
            self.calls.remove(id.number);
        }
        (cancel, has_rest)
    }

    /// Takes the next submission that is linked behind a call that has [failed](Self::fail).
    ///
    /// Without one the call is gone.
    pub(crate) fn take_linked(&mut self, id: CallId) -> Option<Submission> {
        let call = self.at(id)?;
        let next = call.rest.as_mut().and_then(|rest| rest.pop());
        match &next {
            Some(next) => self.linked -= usize::from(reports(next)),
            None => drop(self.calls.remove(id.number)),
        }
        next
    }

    /// Cancels the call with this key, of the process with this memory.
    ///
    /// Takes bounded time, and advances `search`, which begins with its default value.
    pub(crate) fn cancel(&mut self, memory: &UserMemory, key: u64, search: &mut Search) -> Found {
        if !self.index_some(&memory.account) {
            return Found::Nowhere;
        }
        if let Some(number) = self.find(key, search) {
            let call = &mut self.calls[number];
            if let Server::Pending(source) = &call.server
                && let Some(pending) = source.take_pending_read(memory, call.id(number))
                && let Some(finished) = self.finish(number)
            {
                return Found::Ended(pending, finished);
            }
            let call = &mut self.calls[number];
            let cancel = call.cancel.get_or_insert_with(|| {
                self.cancels += 1;
                Arc::new(Cancel::new())
            });
            let cancel = cancel.clone();
            return Found::Served(cancel, call.coroutine().cloned());
        }
        let Some((number, index)) = self.find_linked(key, search) else {
            return match self.has_ended(search) {
                true => Found::Nothing,
                false => Found::Nowhere,
            };
        };
        if let Some(rest) = &mut self.calls[number].rest {
            rest.submissions[index].call = REMOVED;
            rest.submissions[index].flags = SILENT;
            self.linked -= 1;
        }
        Found::Removed
    }

    /// Sets the level at which the call with this key, of the process with this memory, is served.
    ///
    /// Returns its coroutine, if it has one. Searches as [`cancel`](Self::cancel) does.
    pub(crate) fn set_level(
        &mut self,
        memory: &UserMemory,
        key: u64,
        level: u8,
        search: &mut Search,
    ) -> Levelled {
        if !self.index_some(&memory.account) {
            return Levelled::Nowhere;
        }
        if let Some(number) = self.find(key, search) {
            let call = &mut self.calls[number];
            call.served.level = level;
            if let Server::Pending(source) = &call.server {
                source.set_pending_level(memory, call.id(number), level);
            }
            return Levelled::Found(call.coroutine().cloned());
        }
        let Some((number, index)) = self.find_linked(key, search) else {
            return match self.has_ended(search) {
                true => Levelled::Nothing,
                false => Levelled::Nowhere,
            };
        };
        if let Some(rest) = &mut self.calls[number].rest {
            rest.submissions[index].level = level;
        }
        Levelled::Found(None)
    }

    /// Removes one call, if there is one among the next slots.
    ///
    /// Returns `None` when none is left. No call is looked for or begins from the first time on.
    pub(crate) fn remove_any(&mut self) -> Option<Option<Removed>> {
        // So the others need not be found in them.
        self.buckets = Vec::new();
        self.buckets_wanted = 0;
        self.indexed = 0;
        if self.calls.len() == 0 {
            let is_more = self.calls.drop_slots(SEARCHED_AT_ONCE / 4);
            return is_more.then_some(None);
        }
        let numbers = self.removed..self.calls.capacity();
        for number in numbers.take(SEARCHED_AT_ONCE) {
            self.removed = number + 1;
            if let Some(call) = self.calls.try_remove(number) {
                return Some(Some(Removed { call, number }));
            }
        }
        Some(None)
    }
}

impl Call {
    fn id(&self, number: usize) -> CallId {
        CallId {
            number,
            serial: self.serial,
        }
    }

    fn coroutine(&self) -> Option<&Remote> {
        match &self.server {
            Server::Coroutine(coroutine) => Some(coroutine),
            _ => None,
        }
    }
}

fn reports(submission: &Submission) -> bool {
    submission.flags & SILENT == 0
}
