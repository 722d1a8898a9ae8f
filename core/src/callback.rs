//! The callbacks of the core: a list of all that it calls of its users, and C's calling convention
//! for them.
//!
//! # What may call back, and what then
//! Every callback that safe code can write may call the crate again, on the same thread, with any
//! operation of any executor. The core keeps no reference, and trusts nothing that it read before,
//! across such a call. `core/tests/hostile` tries each.
//!
//! | what is called | when | scheduler lock | what it may do |
//! |---|---|---|---|
//! | a future's `poll` | the coroutine is *running* | unlocked | everything |
//! | destructors of futures, outputs, panics' payloads | exit, cancellation, drop of a handle or an executor | unlocked | everything; its own coroutine counts as running and cancelled, or as exited |
//! | wakers of others: `wake`, `drop`, and `clone` where unsafe code made them | last in each operation, when no list refers to what they may drop | unlocked | everything |
//! | `Config::notify`, a worker's `call` | after a wake from outside; after the lock is free | unlocked | everything |
//! | `SystemView` | before each pick | locked | every operation, and run the worker that asks it |
//! | `Config::clock` | before polls; in `now` and `sleep`; with `stats` at each transition | locked, if a worker reads it | as a view |
//! | the closure of `spawn_with` | when there is a slot and memory | locked | as a view |
//! | `Config::relax` | while a thread spins for the lock | not this thread's | every operation |
//! | the panic hook | at a panic of the core's own, such as a handle that is polled again | locked, perhaps | as a view |
//! | a `PriorityListener`'s `changed`, an `Observer` | in the middle of an operation, while its lists are read | locked | **nothing**: both need `unsafe` to write |
//! | the global allocator, a `ContextSlot` | when memory is needed; on each wake | locked, perhaps | **nothing**: both need `unsafe` to write |
//!
//! A callback under the lock must not wait for another worker, nor run another one. Doing so is a
//! deadlock, and nothing worse.
//!
//! # The calling convention
//! Where panics unwind (`std`), they may pass through such a call. Elsewhere a panic never unwinds,
//! and the compiler need not guard the calls against one.

/// Names the type of a C-ABI callback (`C-unwind` with `std`).
#[cfg(feature = "std")]
macro_rules! c_fn {
    (($($argument:ty),*) $(-> $result:ty)?) => { unsafe extern "C-unwind" fn($($argument),*) $(-> $result)? };
}

/// Names the type of a C-ABI callback (`C-unwind` with `std`).
#[cfg(not(feature = "std"))]
macro_rules! c_fn {
    (($($argument:ty),*) $(-> $result:ty)?) => { unsafe extern "C" fn($($argument),*) $(-> $result)? };
}

/// Defines a C-ABI callback (`C-unwind` with `std`).
#[cfg(feature = "std")]
macro_rules! define_c_fn {
    ($(#[$about:meta])* fn $name:ident$([$($generic:ident),+])?($($argument:ident: $type:ty),*) $(-> $result:ty)? $body:block) => {
        $(#[$about])*
        unsafe extern "C-unwind" fn $name$(<$($generic),+>)?($($argument: $type),*) $(-> $result)? $body
    };
}

/// Defines a C-ABI callback (`C-unwind` with `std`).
#[cfg(not(feature = "std"))]
macro_rules! define_c_fn {
    ($(#[$about:meta])* fn $name:ident$([$($generic:ident),+])?($($argument:ident: $type:ty),*) $(-> $result:ty)? $body:block) => {
        $(#[$about])*
        unsafe extern "C" fn $name$(<$($generic),+>)?($($argument: $type),*) $(-> $result)? $body
    };
}

pub(crate) use {c_fn, define_c_fn};
