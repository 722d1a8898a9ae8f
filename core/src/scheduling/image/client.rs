//! A client's side: the table that it has found, and the scheduler that is nothing but calls of it.

use core::alloc::Layout;
use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::pin::Pin;
use core::ptr::{self, NonNull};

use super::{ERRORS, Engine, LAYOUT, Setup, View};
use crate::priority::policy::Policy;
use crate::priority::published::Published;
use crate::priority::{Levels, Priority};
use crate::scheduling::config::Interrupted;
use crate::scheduling::config::{Config, SpawnError, Step, SystemView};
use crate::scheduling::table::block::BlockRef;
use crate::scheduling::table::id::CoroutineId;
use crate::scheduling::table::storage::Memory;
use crate::scheduling::table::task::Stage;
use crate::scheduling::time::timers::{Clock, Timer};
use crate::scheduling::wake::stored_waker::WakerCell;
use crate::scheduling::workers::context;
use crate::scheduling::workers::worker_context::WorkerContext;

/// A copy of the image's table: one load less on each call.
struct Attached(UnsafeCell<MaybeUninit<Engine>>);

// SAFETY: written once, before anything else of the crate is used: see `attach`.
unsafe impl Sync for Attached {}

static ATTACHED: Attached = Attached(UnsafeCell::new(MaybeUninit::uninit()));

/// The error for an image that this client cannot use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch;

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its functions or layouts are not those that its version promises")
    }
}

impl core::error::Error for Mismatch {}

/// Takes the image's table into use.
///
/// # Errors
/// [`Mismatch`] if the table is not what this client was built for. Nothing of the crate must be
/// used then.
///
/// # Safety
/// `table` is what an image exports by the symbol and the version that this client was built for,
/// and the image stays. Nothing else of this crate runs before or during the call.
pub unsafe fn attach(table: *const Engine) -> Result<(), Mismatch> {
    // SAFETY: every image's table begins with these two; a table of at least this size is one of
    // ours.
    unsafe {
        if (*table).size < size_of::<Engine>() || (*table).layout != LAYOUT {
            return Err(Mismatch);
        }
        (*ATTACHED.0.get()).write(*table);
    }
    Ok(())
}

#[inline]
fn engine() -> &'static Engine {
    // SAFETY: `attach` has written it, and nothing writes it again.
    unsafe { (*ATTACHED.0.get()).assume_init_ref() }
}

/// A scheduler in the image, as far as it is read here without a call.
///
/// See the engine's own for what its methods do.
#[repr(C)]
pub(crate) struct Scheduler {
    shared: bool,
    live: Cell<usize>,
    serial: usize,
    worker_context: WorkerContext,
    _opaque: PhantomData<UnsafeCell<()>>,
}

const _: () = assert!(
    core::mem::offset_of!(Scheduler, shared) == 0
        && core::mem::offset_of!(Scheduler, live) == super::LIVE
        && core::mem::offset_of!(Scheduler, serial) == super::SERIAL
        && core::mem::offset_of!(Scheduler, worker_context) == super::WORKER_CONTEXT
);

impl Memory {
    /// The global allocator.
    pub(crate) const GLOBAL: Self = Self {
        allocate: global_allocate,
        free: global_free,
    };
}

/// Allocates from the global allocator.
///
/// # Safety
/// A size that is not zero and an alignment, as in a `Layout`.
unsafe extern "C" fn global_allocate(size: usize, align: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe { alloc::alloc::alloc(Layout::from_size_align_unchecked(size, align)) }
}

/// Gives memory back to the global allocator.
///
/// # Safety
/// What [`global_allocate`] gave for this layout; not used again.
unsafe extern "C" fn global_free(memory: *mut u8, size: usize, align: usize) {
    // SAFETY: the caller's promise.
    unsafe { alloc::alloc::dealloc(memory, Layout::from_size_align_unchecked(size, align)) }
}

/// Makes a scheduler.
///
/// Returns `None` if there is no memory for it.
pub(crate) fn create(config: Config, memory: Memory) -> Option<NonNull<Scheduler>> {
    let notify = WakerCell::new();
    let _none = notify.replace(config.notify);
    let setup = Setup {
        every: match config.policy {
            Policy::Strict => 0,
            Policy::Bounded { every } => every.get(),
        },
        demotion: config.demotion,
        shared: config.shared,
        has_clock: config.clock.is_some(),
        relax: config.relax,
        capacity: config.capacity,
        serial: config.serial,
        published: config.published.map_or(ptr::null(), ptr::from_ref),
        clock: config.clock.unwrap_or(Clock::new(|| 0)),
        deadlines: config.deadlines.map_or(ptr::null(), ptr::from_ref),
        notify,
        memory,
    };
    // SAFETY: the engine's function, by its rules.
    unsafe { (engine().create)(&setup) }
}

/// Builds a future in its memory, for the engine.
///
/// # Safety
/// `make` points to an `Option<M>`, and the memory has room for the future.
unsafe extern "C" fn fill<F, M: FnOnce() -> F>(make: *mut u8, memory: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(make) = (*make.cast::<Option<M>>()).take() {
            memory.cast::<F>().write(make());
        }
    }
}

/// Asks a view, for the engine.
///
/// # Safety
/// `view` is one.
unsafe extern "C" fn ask<V: SystemView>(view: *const ()) -> u8 {
    // SAFETY: the caller's promise.
    let elsewhere = unsafe { &*view.cast::<V>() }.most_urgent_elsewhere();
    elsewhere.map_or(u8::MAX, Priority::level)
}

// SAFETY, of every call below: the engine's function, by its rules (see `engine.rs`). The caller of
// the method has kept those of the method of the same name.
#[expect(clippy::undocumented_unsafe_blocks, reason = "they are all alike")]
impl Scheduler {
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    #[inline]
    pub(crate) fn serial(&self) -> usize {
        self.serial
    }

    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        context::worker_context_of(self).is_some()
    }

    pub(crate) fn close(scheduler: NonNull<Self>) {
        unsafe { (engine().close)(scheduler) }
    }

    pub(crate) fn admit<F: Future + 'static, M: FnOnce() -> F>(
        &self,
        priority: Priority,
        make: &mut Option<M>,
    ) -> Result<BlockRef, SpawnError> {
        let make: *mut Option<M> = make;
        let vtable = Stage::<F>::VTABLE;
        let spawned =
            unsafe { (engine().spawn)(self, priority, vtable, fill::<F, M>, make.cast()) };
        spawned.block.ok_or_else(|| {
            let error = ERRORS.get(spawned.error as usize);
            error.copied().unwrap_or(SpawnError::OutOfMemory)
        })
    }

    fn run<V: SystemView>(
        &self,
        worker: Option<&WorkerContext>,
        view: &V,
        limit: u64,
    ) -> (Step, u64) {
        let view = View {
            ask: if V::NEVER { None } else { Some(ask::<V>) },
            data: ptr::from_ref(view).cast(),
        };
        let ran = unsafe { (engine().run)(self, worker, &view, limit) };
        let step = match ran.step {
            0 => Step::Ran,
            1 => Step::Idle,
            _ => Step::Elsewhere,
        };
        (step, ran.polls)
    }

    #[inline]
    pub(crate) fn run_alone(&self, view: &impl SystemView, limit: u64) -> (Step, u64) {
        self.run(None, view, limit)
    }

    pub(crate) fn run_worker(
        &self,
        worker_context: &WorkerContext,
        view: &impl SystemView,
        limit: u64,
    ) -> (Step, u64) {
        self.run(Some(worker_context), view, limit)
    }

    pub(crate) fn find(&self, id: CoroutineId) -> Option<BlockRef> {
        unsafe { (engine().find)(self, id.to_bits()) }
    }

    #[inline]
    pub(crate) fn wake(&self, block: BlockRef) {
        unsafe { (engine().wake)(block) }
    }

    pub(crate) fn reprioritize(&self, block: BlockRef, priority: Priority) -> bool {
        unsafe { (engine().reprioritize)(block, priority) }
    }

    pub(crate) fn cancel(&self, block: BlockRef) -> bool {
        unsafe { (engine().cancel)(block) }
    }

    pub(crate) fn refresh_level(&self, block: BlockRef) {
        unsafe { (engine().refresh_level)(block) }
    }

    pub(crate) fn set_aside(&self, block: BlockRef, interrupted: Interrupted) -> bool {
        unsafe { (engine().set_aside)(block, interrupted == Interrupted::Blocked) }
    }

    pub(crate) fn take_back(&self, block: BlockRef, paused: bool) {
        unsafe { (engine().take_back)(block, paused) }
    }

    pub(crate) fn forget_handle(&self, block: BlockRef) -> bool {
        unsafe { (engine().forget_handle)(block) }
    }

    pub(crate) fn free_memory(&self, block: BlockRef) {
        unsafe { (engine().free_memory)(block) }
    }

    pub(crate) fn push_inbox(&self, block: BlockRef) {
        unsafe { (engine().push_inbox)(block) }
    }

    pub(crate) fn drain_inbox(&self) {
        unsafe { (engine().drain_inbox)(self) }
    }

    pub(crate) fn anchor(&self) {
        unsafe { (engine().anchor)(self) }
    }

    pub(crate) fn unanchor(scheduler: NonNull<Self>) {
        unsafe { (engine().unanchor)(scheduler) }
    }

    #[inline]
    pub(crate) fn worker_context(&self) -> &WorkerContext {
        &self.worker_context
    }

    pub(crate) fn lock(&self, worker_context: &WorkerContext) {
        unsafe { (engine().lock)(self, worker_context) }
    }

    pub(crate) fn unlock(&self, worker_context: &WorkerContext) {
        unsafe { (engine().unlock)(self, worker_context) }
    }

    pub(crate) unsafe fn unlock_for_good(scheduler: NonNull<Self>, worker_context: &WorkerContext) {
        unsafe { (engine().unlock_for_good)(scheduler, worker_context) }
    }

    pub(crate) fn pass_on(&self, worker_context: &WorkerContext) {
        unsafe { (engine().pass_on)(self, worker_context) }
    }

    pub(crate) fn enter(&self, worker_context: NonNull<WorkerContext>) {
        unsafe { (engine().enter)(self, worker_context.as_ref()) }
    }

    pub(crate) fn leave(&self, worker_context: &WorkerContext) {
        unsafe { (engine().leave)(self, worker_context) }
    }

    pub(crate) fn ready(&self) -> Levels {
        Levels::from_bits(unsafe { (engine().ready)(self) })
    }

    #[inline]
    pub(crate) fn live(&self) -> usize {
        self.live.get()
    }

    pub(crate) fn published(&self) -> &Published {
        unsafe { (engine().published)(self) }
    }

    pub(crate) fn trim(&self) {
        unsafe { (engine().trim)(self) }
    }

    pub(crate) fn now(&self) -> u64 {
        unsafe { (engine().now)(self) }
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let deadline = unsafe { (engine().next_deadline)(self) };
        deadline.is_set.then_some(deadline.at)
    }

    pub(crate) fn fire_timers(&self, now: u64) -> usize {
        unsafe { (engine().fire_timers)(self, now) }
    }

    pub(crate) unsafe fn set_timer(&self, timer: Pin<&Timer>, deadline: u64) {
        unsafe { (engine().set_timer)(self, timer.get_ref(), deadline) }
    }

    pub(crate) fn cancel_timer(&self, timer: &Timer) {
        unsafe { (engine().cancel_timer)(self, timer) }
    }

    pub(crate) fn hand_over_timer(&self, timer: &Timer) {
        unsafe { (engine().hand_over_timer)(self, timer) }
    }
}
