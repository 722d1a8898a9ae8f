//! Reads from pipes and connections that wait without a coroutine.
//!
//! ```text
//!  submitted ──▶ waits in its source ┬── bytes or the end come from something of its level or less urgent: served there and
//!                                     │   then, *done*
//!                                     ├── they come from something more urgent, which must not wait for it: *left* to a coroutine of
//!                                     │   its own level
//!                                     └── cancelled, or the process ends: taken out of its source
//! ```
//! So a read is never served ahead of what is more urgent (rule I9). Where it would have come next
//! anyway, making, waking and polling a coroutine for it is saved. The network's service brings
//! what comes for a connection. It inspects frames before it can determine for which socket they
//! are. There the read is the last part of inspecting its frame, whatever its level, and as bounded
//! as that. While it waits there its call is in the table of its ring's calls as any other.
use crate::failure::Transferred;
use crate::memory::user::{UserBuffer, UserMemory};
use alloc::sync::Arc;
use core::any::Any;
use core::fmt;

/// Where a call is in the table of its ring's calls.
///
/// It consists of the call's number, which another call may have after this one, and of a second
/// number that no other call has for a long time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallId {
    pub number: usize,
    pub serial: u32,
}

/// What a read waits for: a process, as far as pipes and connections know it.
pub(crate) trait Reader: Send + Sync {
    /// Returns the memory that the read's buffer lies in.
    fn memory(&self) -> &UserMemory;

    /// Returns the most urgent level that the reader may claim and that is not more urgent than
    /// `level`.
    fn allowed(&self, level: u8) -> u8;

    /// Completes the call with this result, or makes a coroutine that serves it if there is none.
    ///
    /// Called without any lock.
    fn go_on(self: Arc<Self>, call: PendingCall, result: Option<Transferred>);
}

// Not a function of the trait: its table would hold all that prints a process.
impl fmt::Debug for dyn Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reader")
    }
}

/// The call of a pending read.
#[derive(Debug)]
pub(crate) struct PendingCall {
    /// The ring that the call came from.
    pub ring: Arc<dyn Any + Send + Sync>,
    pub id: CallId,
    /// Where the bytes go; none has come yet.
    pub buffer: UserBuffer,
}

/// A read that waits without a coroutine.
#[derive(Debug)]
pub(crate) struct PendingRead {
    /// What the buffer belongs to.
    pub reader: Arc<dyn Reader>,
    /// The live level at which it is to be served.
    pub level: u8,
    pub call: PendingCall,
}

/// Where a read waits.
///
/// It is a part of what the read waits for, under the same lock.
#[derive(Debug)]
pub(crate) struct Slot(Option<PendingRead>);

impl Slot {
    /// Makes a slot without a read.
    pub(crate) const fn new() -> Slot {
        Slot(None)
    }

    /// Returns the read, if one waits.
    #[inline]
    pub(crate) fn get(&self) -> Option<&PendingRead> {
        self.0.as_ref()
    }

    /// Takes the read out.
    ///
    /// The caller decides what becomes of it.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<PendingRead> {
        self.0.take()
    }

    /// Takes the read out if it is that of the call `id` of the process with this memory.
    pub(crate) fn take_call(&mut self, memory: &UserMemory, id: CallId) -> Option<PendingRead> {
        self.0.take_if(|pending| pending.is(memory, id))
    }

    /// Sets the level of the read if it is that of the call `id` of the process with this
    /// memory.
    pub(crate) fn set_level(&mut self, memory: &UserMemory, id: CallId, level: u8) {
        let pending = self.0.as_mut();
        if let Some(pending) = pending.filter(|pending| pending.is(memory, id)) {
            pending.level = level;
        }
    }

    /// Puts a read into the empty slot.
    pub(crate) fn put(&mut self, pending: PendingRead) {
        self.0 = Some(pending);
    }
}

/// A read that was pending until now.
///
/// The code that holds it [finishes](Self::finish) it when it holds no lock.
#[derive(Debug)]
#[must_use = "a read that is not finished never ends"]
pub(crate) struct EndedRead {
    pending: PendingRead,
    /// `None` if it is left to a coroutine.
    result: Option<Transferred>,
}

impl PendingRead {
    fn is(&self, memory: &UserMemory, id: CallId) -> bool {
        self.call.id == id && core::ptr::eq(self.reader.memory(), memory)
    }

    /// Returns the level at which it is to be served, as far as its process was granted that.
    pub(crate) fn allowed_level(&self) -> u8 {
        self.reader.allowed(self.level)
    }

    /// Tests whether it is at least as urgent as this level.
    pub(crate) fn is_as_urgent_as(&self, level: u8) -> bool {
        self.allowed_level() <= level
    }

    /// Returns the read as served, with this result.
    pub(crate) fn done(self, result: Transferred) -> EndedRead {
        EndedRead {
            pending: self,
            result: Some(result),
        }
    }

    /// Leaves the read to a coroutine.
    pub(crate) fn leave(self) -> EndedRead {
        EndedRead {
            pending: self,
            result: None,
        }
    }
}

impl EndedRead {
    /// Completes the call, or makes its coroutine.
    #[inline]
    pub(crate) fn finish(ended_read: Option<EndedRead>) {
        if let Some(EndedRead { pending, result }) = ended_read {
            pending.reader.go_on(pending.call, result);
        }
    }
}
