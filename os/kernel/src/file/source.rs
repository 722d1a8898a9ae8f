//! What an asynchronous read can wait in.
use super::pipe::{self, ReadEnd};
use crate::failure::Transferred;
use crate::memory::user::{UserBuffer, UserMemory};
use crate::net::Connection;
use crate::pending_read::{CallId, PendingRead, Slot};
use crate::wait::WaitMode;
use alloc::sync::Arc;

/// What a read can wait in.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Pipe(ReadEnd),
    Connection(Arc<Connection>),
}

impl Source {
    /// Tests whether a read of so many bytes can wait here.
    ///
    /// While it waits it must not take some of them.
    pub(crate) fn can_wait(&self, length: usize) -> bool {
        match self {
            Source::Pipe(_) => length <= pipe::CAPACITY,
            // A read takes what there is, at once.
            Source::Connection(_) => true,
        }
    }

    /// Leaves a read pending.
    ///
    /// It comes back if it need not wait, or if other reads wait already.
    pub(crate) fn put_pending(&self, pending: PendingRead) -> Option<PendingRead> {
        match self {
            Source::Pipe(end) => end.put_pending(pending),
            Source::Connection(connection) => connection.put_pending(pending),
        }
    }

    /// Takes out the read that is pending for the call `id` of the process with this memory,
    /// if it still is.
    pub(crate) fn take_pending_read(&self, memory: &UserMemory, id: CallId) -> Option<PendingRead> {
        self.with_slot(|slot| slot.take_call(memory, id))
    }

    /// Sets the level of the read that is pending for the call `id` of the process with this
    /// memory, if it still is.
    pub(crate) fn set_pending_level(&self, memory: &UserMemory, id: CallId, level: u8) {
        self.with_slot(|slot| slot.set_level(memory, id, level));
    }

    fn with_slot<T>(&self, use_it: impl FnOnce(&mut Slot) -> T) -> T {
        match self {
            Source::Pipe(end) => end.with_slot(use_it),
            Source::Connection(connection) => connection.with_slot(use_it),
        }
    }

    /// Reads as [`File::read`](super::File::read) does.
    ///
    /// # Errors
    /// As that.
    pub(crate) async fn read(&self, memory: &UserMemory, buffer: &mut UserBuffer) -> Transferred {
        match self {
            Source::Pipe(end) => end.read(memory, WaitMode::Block, buffer).await.map(Ok),
            Source::Connection(connection) => {
                connection.read(memory, WaitMode::Block, buffer).await
            }
        }
    }

    /// Reads if that is done without waiting, as
    /// [`File::read_at_once`](super::File::read_at_once).
    pub(crate) fn read_at_once(
        &self,
        memory: &UserMemory,
        mut buffer: UserBuffer,
    ) -> Option<Transferred> {
        match self {
            Source::Pipe(end) => end
                .read_at_once(memory, buffer)
                .map(|result| result.map(Ok)),
            Source::Connection(connection) => connection.read_now(memory, &mut buffer),
        }
    }
}
