//! The state that a participant's workers and its agent share.

use crate::alone_flag::AloneFlags;
use crate::clock;
use crate::membership::{Membership, Timing};
use crate::mode::Mode;
use crate::page::{Doorbells, Page, WORKERS};
use crate::peer::Peer;
use crate::scheduling_class::SchedulingClasses;
use arc_swap::ArcSwap;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The shared state of one participant.
pub(crate) struct Shared {
    pub(crate) page: &'static Page,
    pub(crate) doorbells: &'static Doorbells,
    pub(crate) alone_flags: AloneFlags,
    pub(crate) mode: Mode,
    pub(crate) timing: Timing,
    pub(crate) scheduling_classes: SchedulingClasses,
    /// All participants, the own process first. Only the agent replaces it.
    pub(crate) membership: ArcSwap<Membership<Arc<Peer>>>,
    /// The slots that have a worker.
    taken: AtomicU64,
    /// The workers that a [`caller`](crate::Worker::caller) has called.
    pub(crate) called: [AtomicBool; WORKERS],
    /// The descriptor that ends the agent's sleep.
    pub(crate) wakeup: OwnedFd,
    /// Set while the agent does not tick, because no worker has had anything to do for a while.
    pub(crate) agent_paused: AtomicBool,
    pub(crate) stop: AtomicBool,
    /// The number of times that the agent has checked everything.
    #[cfg(test)]
    pub(crate) turns: AtomicU64,
    /// The number of times that workers that are aside have checked for a processor.
    #[cfg(test)]
    pub(crate) checks_aside: AtomicU64,
}

impl Shared {
    pub(crate) fn new(
        own: Peer,
        page: &'static Page,
        doorbells: &'static Doorbells,
        mode: Mode,
        timing: Timing,
        scheduling_classes: SchedulingClasses,
    ) -> io::Result<Self> {
        Ok(Self {
            page,
            doorbells,
            alone_flags: AloneFlags::default(),
            mode,
            timing,
            scheduling_classes,
            membership: ArcSwap::from_pointee(Membership::new(vec![Arc::new(own)])),
            taken: AtomicU64::new(0),
            called: [const { AtomicBool::new(false) }; WORKERS],
            wakeup: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            agent_paused: AtomicBool::new(true),
            stop: AtomicBool::new(false),
            #[cfg(test)]
            turns: AtomicU64::new(0),
            #[cfg(test)]
            checks_aside: AtomicU64::new(0),
        })
    }

    /// Takes a slot for one more worker.
    pub(crate) fn take_slot(&self) -> Option<usize> {
        let taken = self
            .taken
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| {
                (taken != u64::MAX).then(|| taken | (taken + 1))
            })
            .ok()?;
        let slot = (!taken).trailing_zeros() as usize;
        self.page.use_workers(slot + 1);
        Some(slot)
    }

    pub(crate) fn give_slot_back(&self, slot: usize) {
        self.page.slots[slot].show(None, clock::now());
        self.taken.fetch_and(!(1 << slot), Ordering::AcqRel);
    }

    /// Makes every worker decide anew at its next pick, because the membership has changed.
    pub(crate) fn ring_all(&self) {
        self.alone_flags.clear();
        for doorbell in &self.doorbells.0[..self.page.workers()] {
            doorbell.ring_and_wake();
        }
    }

    /// Makes the agent tick from now on, because there is something to do.
    pub(crate) fn resume_agent(&self) {
        if self.agent_paused.load(Ordering::Relaxed)
            && self.agent_paused.swap(false, Ordering::AcqRel)
        {
            self.wake_agent();
        }
    }

    pub(crate) fn wake_agent(&self) {
        // It fails only if the agent has been woken 2⁶⁴ times already.
        let _ = rustix::io::write(&self.wakeup, &1u64.to_ne_bytes());
    }

    /// Returns how many others take part.
    pub(crate) fn others(&self) -> usize {
        self.membership.load().members.len() - 1
    }
}
