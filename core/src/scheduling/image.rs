//! The engine behind an image: the boundary between the scheduler and its users, in C's terms
//! (COPS, section 3.4).
//!
//! A platform may keep the engine, everything below the crate's own `Scheduler`, in one image that
//! all its clients share. The crate is then compiled on both sides. As the image (feature
//! `image-engine`) it exports the [`Engine`] table. As a client (`image-client`) it has a
//! `Scheduler` of a few lines that call through the table. Users of the crate see no difference.
//!
//! ```text
//!   Executor, SharedExecutor, JoinHandle, sync, time, …        the same source on both sides
//!   ───────────────────────── Scheduler ─────────────────────────
//!   engine built in       │  client ── Engine table ──▶ engine in the image
//! ```
//!
//! # What crosses
//! - Calls: `extern "C"`, through the table. Back: a future's [`VTable`] (poll, two destructors), a
//!   waker's calls, a clock, an allocator, a view of the system, a priority listener. Each is a C
//!   function that came with its data.
//! - Memory that both sides touch: control blocks, waiters, timers, worker contexts, [`Published`],
//!   [`Deadlines`]. All are `repr(C)`, made of integers, pointers and cells of them. A scheduler is
//!   opaque to a client, but for its first fields: whether it has several workers, how many
//!   coroutines live, its serial number, and the worker context of its one owner.
//! - Nothing with a layout or calls that are Rust's own: no `Waker`, `Context`, `dyn`, `Result`,
//!   slices.
//!
//! The *context slot*, which says what runs here, is the word at [`CONTEXT_SLOT`] bytes from where
//! the register `tp` points. In a process that is the thread's own block, in a kernel the hart's.
//! The word is null before anything runs, and while an interrupt handler does.
//!
//! # Versions
//! The image's symbol has a version, which a client names when it looks the symbol up. Within a
//! version the table only grows at its end. [`LAYOUT`] is a fingerprint of everything above: a
//! build with a changed layout and the old version is still refused.

#[cfg(all(feature = "image-client", feature = "image-engine"))]
compile_error!("the image and its clients are built apart: one package at a time");

#[cfg(feature = "image-client")]
mod client;
#[cfg(feature = "image-engine")]
mod engine;

use core::mem::offset_of;
use core::ptr::NonNull;

use crate::priority::Priority;
use crate::priority::policy::Demotion;
use crate::priority::published::Published;
use crate::scheduling::config::SpawnError;
#[cfg(feature = "image-engine")]
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::block::{Block, BlockRef};
use crate::scheduling::table::storage::Memory;
use crate::scheduling::table::task::VTable;
use crate::scheduling::time::deadlines::Deadlines;
use crate::scheduling::time::timers::{Clock, Timer};
use crate::scheduling::waiter::Waiter;
use crate::scheduling::wake::stored_waker::WakerCell;
use crate::scheduling::workers::worker_context::WorkerContext;

#[cfg(feature = "image-client")]
pub use client::{Mismatch, attach};
#[cfg(feature = "image-client")]
pub(crate) use client::{Scheduler, create};
#[cfg(feature = "image-engine")]
pub use engine::ENGINE;

/// The offset of the context slot, in bytes from the address in the register `tp`.
pub const CONTEXT_SLOT: usize = 96;

/// The offset of the number of coroutines that live, in bytes from a scheduler's beginning.
pub(crate) const LIVE: usize = 8;
/// The offset of its serial number.
pub(crate) const SERIAL: usize = 16;
/// The offset of its worker context.
pub(crate) const WORKER_CONTEXT: usize = 24;

/// The engine's functions, and what clients check before they use any.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    /// The size of the image's table in bytes.
    size: usize,
    /// [`LAYOUT`] of the image.
    layout: u64,
    create: unsafe extern "C" fn(&Setup) -> Option<NonNull<Scheduler>>,
    close: unsafe extern "C" fn(NonNull<Scheduler>),
    spawn: unsafe extern "C" fn(&Scheduler, Priority, &'static VTable, Fill, *mut u8) -> Spawned,
    run: unsafe extern "C" fn(&Scheduler, Option<&WorkerContext>, &View, u64) -> Ran,
    find: unsafe extern "C" fn(&Scheduler, u64) -> Option<BlockRef>,
    wake: unsafe extern "C" fn(BlockRef),
    reprioritize: unsafe extern "C" fn(BlockRef, Priority) -> bool,
    cancel: unsafe extern "C" fn(BlockRef) -> bool,
    refresh_level: unsafe extern "C" fn(BlockRef),
    /// Sets aside the coroutine that is polled, *blocked with stack* or ready.
    ///
    /// Returns whether picks were strict already.
    set_aside: unsafe extern "C" fn(BlockRef, bool) -> bool,
    take_back: unsafe extern "C" fn(BlockRef, bool),
    forget_handle: unsafe extern "C" fn(BlockRef) -> bool,
    free_memory: unsafe extern "C" fn(BlockRef),
    push_inbox: unsafe extern "C" fn(BlockRef),
    drain_inbox: unsafe extern "C" fn(&Scheduler),
    anchor: unsafe extern "C" fn(&Scheduler),
    unanchor: unsafe extern "C" fn(NonNull<Scheduler>),
    lock: unsafe extern "C" fn(&Scheduler, &WorkerContext),
    unlock: unsafe extern "C" fn(&Scheduler, &WorkerContext),
    pass_on: unsafe extern "C" fn(&Scheduler, &WorkerContext),
    enter: unsafe extern "C" fn(&Scheduler, &WorkerContext),
    leave: unsafe extern "C" fn(&Scheduler, &WorkerContext),
    ready: unsafe extern "C" fn(&Scheduler) -> u64,
    published: unsafe extern "C" fn(&Scheduler) -> &Published,
    trim: unsafe extern "C" fn(&Scheduler),
    now: unsafe extern "C" fn(&Scheduler) -> u64,
    next_deadline: unsafe extern "C" fn(&Scheduler) -> Deadline,
    fire_timers: unsafe extern "C" fn(&Scheduler, u64) -> usize,
    set_timer: unsafe extern "C" fn(&Scheduler, &Timer, u64),
    cancel_timer: unsafe extern "C" fn(&Scheduler, &Timer),
    hand_over_timer: unsafe extern "C" fn(&Scheduler, &Timer),
    unlock_for_good: unsafe extern "C" fn(NonNull<Scheduler>, &WorkerContext),
}

/// The parameters that a scheduler is made from.
#[repr(C)]
struct Setup {
    /// [`Policy::Bounded`]'s distance, 0 for strict.
    every: u32,
    demotion: Demotion,
    shared: bool,
    has_clock: bool,
    relax: Option<extern "C" fn()>,
    capacity: usize,
    serial: usize,
    /// Null for none.
    published: *const Published,
    /// Valid only if `has_clock`.
    clock: Clock,
    /// Null for none.
    deadlines: *const Deadlines,
    notify: WakerCell,
    memory: Memory,
}

/// A function that builds a future in its memory, with what the client has given for that.
type Fill = unsafe extern "C" fn(make: *mut u8, memory: *mut u8);

/// A view of what is more urgent elsewhere.
#[repr(C)]
struct View {
    /// Returns the most urgent level elsewhere, from 64 on for none. `None` if there never is one.
    ask: Option<unsafe extern "C" fn(*const ()) -> u8>,
    data: *const (),
}

/// The result of a spawn: a block, or the reason why there is none.
#[repr(C)]
struct Spawned {
    block: Option<BlockRef>,
    /// [`SpawnError`] by number, if there is no block.
    error: u64,
}

/// The result of running.
#[repr(C)]
struct Ran {
    /// [`Step`](crate::Step) by number.
    step: u64,
    polls: u64,
}

/// The time at which something is due, if anything is.
#[repr(C)]
struct Deadline {
    is_set: bool,
    at: u64,
}

/// A fingerprint of what both sides touch: sizes and offsets.
pub const LAYOUT: u64 = fingerprint(&[
    size_of::<Engine>(),
    size_of::<Setup>(),
    size_of::<Block>(),
    offset_of!(Block, memory),
    offset_of!(Block, vtable),
    offset_of!(Block, state),
    offset_of!(Block, flags),
    offset_of!(Block, waiters),
    offset_of!(Block, generation),
    offset_of!(Block, signals),
    offset_of!(Block, future_gone),
    offset_of!(Block, base_state),
    size_of::<Waiter>(),
    size_of::<Timer>(),
    size_of::<Deadlines>(),
    size_of::<WorkerContext>(),
    offset_of!(WorkerContext, current),
    offset_of!(WorkerContext, holds),
    size_of::<VTable>(),
    offset_of!(VTable, poll),
    size_of::<Published>(),
    LIVE,
    SERIAL,
    WORKER_CONTEXT,
    CONTEXT_SLOT,
]);

/// Returns the FNV-1a hash of the numbers.
const fn fingerprint(numbers: &[usize]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut at = 0;
    while at < numbers.len() {
        hash = (hash ^ numbers[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

/// The errors that cross, by number.
const ERRORS: [SpawnError; 3] = [
    SpawnError::TableFull,
    SpawnError::OutOfMemory,
    SpawnError::Closed,
];
