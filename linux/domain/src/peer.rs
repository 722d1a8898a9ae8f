//! A participant seen through its memory, the own process or another.

use crate::admission_queue::Processors;
use crate::claim::Nanoseconds;
use crate::doorbell::Doorbell;
use crate::handshake::Introduced;
use crate::membership::{Member, Slot};
use crate::memory::Mapping;
use crate::page::{Doorbells, Identity, Page};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A participant and its mapped memory.
pub(crate) struct Peer {
    pub(crate) identity: Identity,
    page: Memory<Page>,
    doorbells: Memory<Doorbells>,
    /// Something in its page made no sense.
    damaged: AtomicBool,
    warned: AtomicBool,
}

enum Memory<T: crate::memory::Shareable + 'static> {
    Own(&'static T),
    Theirs(Mapping<T>),
}

impl<T: crate::memory::Shareable> Deref for Memory<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Own(memory) => memory,
            Self::Theirs(mapping) => mapping,
        }
    }
}

impl Peer {
    pub(crate) fn own(
        identity: Identity,
        page: &'static Page,
        doorbells: &'static Doorbells,
    ) -> Self {
        Self {
            identity,
            page: Memory::Own(page),
            doorbells: Memory::Own(doorbells),
            damaged: AtomicBool::new(false),
            warned: AtomicBool::new(false),
        }
    }

    pub(crate) fn page(&self) -> &Page {
        &self.page
    }

    /// Tests whether its page was found damaged for the first time.
    pub(crate) fn warn_of_damage(&self) -> bool {
        self.damaged.load(Ordering::Relaxed) && !self.warned.swap(true, Ordering::Relaxed)
    }
}

impl From<Introduced> for Peer {
    fn from(introduced: Introduced) -> Self {
        Self {
            identity: introduced.identity,
            page: Memory::Theirs(introduced.page),
            doorbells: Memory::Theirs(introduced.doorbells),
            damaged: AtomicBool::new(false),
            warned: AtomicBool::new(false),
        }
    }
}

impl Member for Arc<Peer> {
    fn id(&self) -> u64 {
        self.identity.id
    }

    fn processors(&self) -> Processors {
        self.identity.processors
    }

    fn workers(&self) -> usize {
        self.page.workers()
    }

    fn slot(&self, worker: usize) -> &Slot {
        &self.page.slots[worker]
    }

    fn doorbell(&self, worker: usize) -> &Doorbell {
        &self.doorbells.0[worker]
    }

    fn heartbeat(&self) -> Nanoseconds {
        self.page.last_heartbeat()
    }

    fn found_damage(&self) {
        self.damaged.store(true, Ordering::Relaxed);
    }
}
