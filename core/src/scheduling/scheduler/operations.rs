//! The operations of the contract, for the owner: spawn, wake, re-prioritise, cancel.

use super::Scheduler;
use crate::priority::Priority;
use crate::scheduling::config::SpawnError;
use crate::scheduling::table::block::{BaseState, BlockRef, Flags, State};
use crate::scheduling::table::id::CoroutineId;
use crate::scheduling::table::task::{Stage, VTable};

impl Scheduler {
    /// Returns the live coroutine with this identifier.
    pub(crate) fn find(&self, id: CoroutineId) -> Option<BlockRef> {
        // SAFETY: only the owner uses the storage.
        if id.index >= unsafe { (*self.storage.get()).slots() } {
            return None;
        }
        let block = self.block(id.index);
        (block.vtable.get().is_some() && block.generation.get() == id.generation).then_some(block)
    }

    /// Takes `make`, unless the coroutine is refused, and builds the future where it will stay.
    #[inline]
    pub(crate) fn admit<F: Future + 'static>(
        &self,
        priority: Priority,
        make: &mut Option<impl FnOnce() -> F>,
    ) -> Result<BlockRef, SpawnError> {
        self.admit_with(priority, Stage::<F>::VTABLE, |memory| {
            if let Some(make) = make.take() {
                // SAFETY: the memory fits the layout of the stage, and nothing else refers to it.
                unsafe { memory.cast::<F>().write(make()) };
            }
        })
    }

    /// Admits a coroutine as [`admit`](Self::admit), where the future's type is not known.
    ///
    /// `fill` builds the future in the memory.
    #[inline]
    pub(crate) fn admit_with(
        &self,
        priority: Priority,
        vtable: &'static VTable,
        fill: impl FnOnce(*mut u8),
    ) -> Result<BlockRef, SpawnError> {
        if self.refusing.get() {
            return Err(SpawnError::Closed);
        }
        if self.live.get() >= self.capacity {
            return Err(SpawnError::TableFull);
        }
        let block = self.take_slot()?;
        // SAFETY: only the owner uses the storage.
        let memory = match unsafe { &*self.storage.get() }.allocate(vtable.layout(), block.index())
        {
            Ok(memory) => memory,
            Err(error) => {
                self.give_slot(block);
                return Err(error);
            }
        };
        fill(memory);
        block.occupy(priority, memory, vtable);
        self.handles.set(self.handles.get() + 1);
        self.live.set(self.live.get() + 1);
        self.enqueue(block);
        self.record_spawned(block);
        Ok(block)
    }

    /// Wakes a coroutine (*wake*, rules W1 to W3).
    #[inline]
    pub(crate) fn wake(&self, block: BlockRef) {
        let state = block.state.get();
        if state != State::Exited {
            self.record_wake(block);
        }
        match state {
            State::Blocked => {
                self.enqueue(block);
                self.record_woken(block);
            }
            State::Running | State::ReadyWithStack | State::BlockedWithStack => {
                block.insert(Flags::WOKEN)
            }
            State::Ready | State::Exited => {}
        }
    }

    pub(crate) fn reprioritize(&self, block: BlockRef, priority: Priority) -> bool {
        if block.state.get() == State::Exited {
            return false;
        }
        self.record_base(block, priority);
        if !block.base_state.get().is_plain() {
            return self.reprioritize_demoted(block, priority);
        }
        block.base_state.set(BaseState::new(priority));
        self.refresh_plain_level(block, priority);
        true
    }

    /// Re-prioritises a coroutine that may be demoted, which ends that (rule B7).
    #[cold]
    fn reprioritize_demoted(&self, block: BlockRef, priority: Priority) -> bool {
        self.leave_second(block);
        block.base_state.set(BaseState::new(priority));
        self.refresh_level(block);
        true
    }

    /// Cancels a coroutine (*cancel*, rules X1 to X4).
    pub(crate) fn cancel(&self, block: BlockRef) -> bool {
        match block.state.get() {
            State::Running | State::ReadyWithStack | State::BlockedWithStack => {
                let first = !block.has(Flags::CANCELLED);
                block.insert(Flags::CANCELLED);
                return first;
            }
            State::Exited => return false,
            State::Ready => self.dequeue(block),
            State::Blocked => {}
        }
        self.drop_future(block);
        true
    }
}
