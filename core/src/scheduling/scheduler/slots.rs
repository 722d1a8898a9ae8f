//! The table's slots: taken by a spawn, given back when coroutine, handle and wakers are gone.

use super::Scheduler;
use crate::scheduling::config::SpawnError;
use crate::scheduling::table::block::{BlockRef, Flags};
use crate::scheduling::table::link::Link;
use crate::scheduling::table::task::contain;
#[cfg(feature = "std")]
use crate::scheduling::table::task::{Panic, dispose};

impl Scheduler {
    pub(super) fn take_slot(&self) -> Result<BlockRef, SpawnError> {
        self.assert_owned();
        if self.free.get() == Link::NONE {
            // SAFETY: only the owner uses the storage, and growing it calls nothing of ours.
            let grown = unsafe { (*self.storage.get()).grow(self.pointer()) };
            // Even if it failed: the directory may have moved before memory ran out.
            self.directory.set(self.storage().directory());
            let (first, slots) = grown?;
            // Lowest index first, so that neighbours in the queue tend to be neighbours in memory.
            let (first_generation, _) = self.generations();
            for index in (first..first + slots).rev() {
                let block = self.block(index);
                block.generation.set(first_generation);
                self.push_free(block);
            }
        }
        let block = self.follow(self.free.get());
        self.free.set(block.next.get());
        Ok(block)
    }

    /// Returns the first and the last generation of a slot.
    #[inline]
    fn generations(&self) -> (u32, u32) {
        #[cfg(all(feature = "std", target_has_atomic = "64"))]
        if let Some(post) = &self.post {
            return post.generations();
        }
        (0, u32::MAX)
    }

    pub(super) fn push_free(&self, block: BlockRef) {
        block.next.set(self.free.get());
        self.free.set(Link::to(block));
    }

    /// Gives back the slot of a coroutine that is over, as is its handle.
    ///
    /// The identifier becomes stale, and the slot is used again as soon as no waker refers to it.
    pub(super) fn give_slot(&self, block: BlockRef) {
        block.vtable.set(None);
        let generation = block.generation.get();
        if generation == self.generations().1 {
            // Four thousand million coroutines have lived here, or a shard's part of that. Another
            // one would bear the name of the first, or of another shard's.
            return;
        }
        block.generation.set(generation + 1);
        if block.signals.retire() {
            self.push_free(block);
        }
    }

    /// Forgets the handle of `block`, which is gone.
    ///
    /// Returns true if it was what kept the table.
    #[inline]
    pub(crate) fn forget_handle(&self, block: BlockRef) -> bool {
        if block.has(Flags::DISCARDABLE) {
            self.discard(block);
        } else {
            block.remove(Flags::HANDLE);
        }
        self.handles.set(self.handles.get() - 1);
        self.closing.get() && self.handles.get() == 0
    }

    /// Discards an exited coroutine and any result that was not taken.
    pub(super) fn discard(&self, block: BlockRef) {
        self.assert_owned();
        let result = block.result();
        if result == Flags::OUTPUT
            && let Some(vtable) = block.vtable.get()
        {
            // SAFETY: the result says that the output is there, and it is dropped once.
            self.unlocked(|| contain(|| unsafe { (vtable.drop_output)(block.memory.get()) }));
            self.free_memory(block);
        }
        #[cfg(feature = "std")]
        if result == Flags::PANIC {
            let panic = self.take_panic(block);
            self.unlocked(|| dispose(panic));
        }
        self.give_slot(block);
    }

    /// Takes what the coroutine's panic carried, once.
    #[cfg(feature = "std")]
    pub(crate) fn take_panic(&self, block: BlockRef) -> Panic {
        let memory = block.memory.replace(core::ptr::null_mut());
        // SAFETY: `exit_panicked` made the box, and the flag said that it is still there.
        *unsafe { std::boxed::Box::from_raw(memory.cast::<Panic>()) }
    }

    pub(crate) fn free_memory(&self, block: BlockRef) {
        if let Some(vtable) = block.vtable.get() {
            let memory = block.memory.replace(core::ptr::null_mut());
            // SAFETY: only the owner uses the storage, which allocated this memory with this
            // layout, and the caller has moved or dropped what was in it.
            unsafe { (*self.storage.get()).free(memory, vtable.layout()) };
        }
    }
}
