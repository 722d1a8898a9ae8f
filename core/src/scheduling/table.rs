//! The table of coroutines: their control blocks, and the memory that holds them.

pub(crate) mod block;
pub(crate) mod id;
pub(crate) mod link;
#[cfg(feature = "heap")]
pub(crate) mod memory;
#[cfg(not(feature = "image-client"))]
pub(crate) mod storage;
pub(crate) mod task;

/// The client's part of storage: its allocator.
#[cfg(feature = "image-client")]
pub(crate) mod storage {
    pub(crate) use super::memory::Memory;
    pub(crate) use crate::scheduling::image::create as heap_scheduler;
}
