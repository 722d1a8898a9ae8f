//! Engines of other images, for tests of a platform: they schedule in another way.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::super::{Engine, Setup};
use super::config;
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::storage::heap_scheduler;

impl Engine {
    /// Returns the table of an engine that treats all levels alike.
    ///
    /// A scheduler that asks for the strict policy gets the bounded one, with every pick reserved.
    /// It is for tests that boot a system with another scheduler.
    #[must_use]
    pub const fn alike(self) -> Self {
        Self {
            create: create_alike,
            ..self
        }
    }

    /// Returns the table of an engine that treats all levels alike in every second scheduler that
    /// it makes.
    ///
    /// It counts the schedulers. It is for tests of a platform's images: the only engine with a
    /// variable, of which each address space has its own.
    #[must_use]
    pub const fn alternating(self) -> Self {
        Self {
            create: create_alternating,
            ..self
        }
    }
}

unsafe extern "C" fn create_alike(setup: &Setup) -> Option<NonNull<Scheduler>> {
    heap_scheduler(config(setup, setup.every.max(1)), setup.memory)
}

/// The number of the next scheduler that [`Engine::alternating`] makes in this address space.
///
/// It does not start at 0. Otherwise an address space that begins with zeros instead of the image's
/// contents could not be told apart from a correct one.
static NEXT: AtomicUsize = AtomicUsize::new(1);

unsafe extern "C" fn create_alternating(setup: &Setup) -> Option<NonNull<Scheduler>> {
    let is_second = NEXT.fetch_add(1, Ordering::Relaxed) % 2 == 0;
    let every = if is_second {
        setup.every.max(1)
    } else {
        setup.every
    };
    heap_scheduler(config(setup, every), setup.memory)
}
