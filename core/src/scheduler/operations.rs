//! The operations of the contract, for the owner: spawn, wake, re-prioritise, cancel.

use super::Scheduler;
use crate::block::{BlockRef, Flags, State};
use crate::executor::SpawnError;
use crate::id::CoroutineId;
use crate::priority::Priority;
use crate::task::Stage;

impl Scheduler {
    /// Acts on the live coroutine with this identifier; `None` for a stale one (rule C2).
    pub(crate) fn on<R>(&self, id: CoroutineId, act: impl FnOnce(BlockRef) -> R) -> Option<R> {
        self.find(id).map(act)
    }

    /// The live coroutine with this identifier.
    fn find(&self, id: CoroutineId) -> Option<BlockRef> {
        // SAFETY: only the owner uses the storage.
        if id.index >= unsafe { (*self.storage.get()).slots() } {
            return None;
        }
        let block = self.block(id.index);
        (block.vtable.get().is_some() && block.generation.get() == id.generation).then_some(block)
    }

    /// *create*: a new coroutine, ready at the tail of its level. `make` builds its future where it will stay, so that it is never
    /// moved; it calls nothing of the scheduler's, and is dropped if there is no place. Of a shared scheduler, the future and
    /// its output are `Send`; the caller sees to that.
    #[inline]
    pub(crate) fn spawn<F: Future + 'static, const SHARED: bool>(
        &self,
        priority: Priority,
        make: impl FnOnce() -> F,
    ) -> Result<BlockRef, SpawnError> {
        let mut make = Some(make);
        let spawned = self.owned::<SHARED, _>(|| self.admit(priority, &mut make));
        // Now that nothing is held: if it is still there, its destructor is the user's code.
        drop(make);
        spawned
    }

    /// Takes `make`, unless the coroutine is refused.
    #[inline]
    fn admit<F: Future + 'static>(
        &self,
        priority: Priority,
        make: &mut Option<impl FnOnce() -> F>,
    ) -> Result<BlockRef, SpawnError> {
        if self.closing.get() {
            return Err(SpawnError::Closed);
        }
        if self.live.get() >= self.capacity {
            return Err(SpawnError::TableFull);
        }
        let block = self.take_slot()?;
        // SAFETY: only the owner uses the storage.
        let memory = match unsafe { &*self.storage.get() }
            .allocate(Stage::<F>::VTABLE.layout, block.index())
        {
            Ok(memory) => memory,
            Err(error) => {
                self.give_slot(block);
                return Err(error);
            }
        };
        if let Some(make) = make.take() {
            // SAFETY: the memory fits the layout of the stage, and nobody else knows of it.
            unsafe { memory.cast::<Stage<F>>().write(Stage::new(make())) };
        }
        block.occupy(priority, memory, Stage::<F>::VTABLE);
        self.handles.set(self.handles.get() + 1);
        self.live.set(self.live.get() + 1);
        self.enqueue(block);
        self.note_spawned(block);
        Ok(block)
    }

    /// *wake* (rules W1 to W3).
    #[inline]
    pub(crate) fn wake(&self, block: BlockRef) {
        match block.state.get() {
            State::Blocked => {
                self.enqueue(block);
                self.note_woken(block);
            }
            State::Running | State::ReadyWithStack | State::BlockedWithStack => {
                block.insert(Flags::WOKEN)
            }
            State::Ready | State::Exited => {}
        }
    }

    /// As [`wake`](Self::wake). False if the identifier is stale, or the coroutine has exited.
    pub(crate) fn wake_by_id(&self, id: CoroutineId) -> bool {
        let woken = self.on(id, |block| {
            self.wake(block);
            block.state.get() != State::Exited
        });
        woken.unwrap_or(false)
    }

    pub(crate) fn reprioritize(&self, block: BlockRef, priority: Priority) -> bool {
        if block.state.get() == State::Exited {
            return false;
        }
        block.set_base(priority);
        self.refresh_level(block);
        true
    }

    /// *cancel* (rules X1 to X4).
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
