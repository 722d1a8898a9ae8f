//! Events of file descriptors: one epoll instance for all workers of a runtime.
//!
//! Descriptors are registered once, for both directions and edge-triggered; a wait needs no system
//! call. Any number of workers check at once: the kernel gives each event to one of them. When a
//! worker checks is decided in [`worker`](crate::worker).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use crate::fork::ForkMark;
use crate::sources::{Source, Sources, Token};

/// Events per system call. If a call returns as many, another one follows at once.
const EVENTS: usize = 256;
/// The token of the descriptor that interrupts the watcher.
const INTERRUPT: u64 = u64::MAX;
/// No worker sleeps with a time limit.
const AWAKE: u64 = 0;

/// Waits for events of registered descriptors, for all workers of a runtime.
pub(crate) struct Reactor {
    epoll: OwnedFd,
    interrupt: OwnedFd,
    fork_mark: ForkMark,
    sources: Sources,
    /// The end of the watcher's sleep, in nanoseconds of the runtime's clock; [`AWAKE`] if no
    /// worker watches.
    until: AtomicU64,
    checks: AtomicU64,
    /// In nanoseconds of the runtime's clock.
    last_check: AtomicU64,
}

/// Holds one worker's buffers for the events of a check.
pub(crate) struct ReadyEvents {
    events: Vec<epoll::Event>,
    woken: Vec<Waker>,
}

// SAFETY: the data of the events are numbers, not pointers.
#[cfg(feature = "tokio")]
unsafe impl Send for ReadyEvents {}

impl ReadyEvents {
    pub(crate) fn new() -> Self {
        Self {
            events: Vec::with_capacity(EVENTS),
            woken: Vec::with_capacity(EVENTS),
        }
    }

    /// Wakes the tasks that waited for the events, in the kernel's order.
    ///
    /// No lock of the runtime may be held.
    pub(crate) fn wake_all(&mut self) {
        wake_all(&mut self.woken);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.woken.is_empty()
    }
}

fn wake_all(woken: &mut Vec<Waker>) {
    for waker in woken.drain(..) {
        // A waker is foreign code: one that panics must not end the worker. The panic hook has
        // reported it.
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}

impl Reactor {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let interrupt = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // Not edge-triggered: it is for the watcher, and a worker that only checks must not consume
        // it.
        let token = EventData::new_u64(INTERRUPT);
        epoll::add(&epoll, &interrupt, token, EventFlags::IN)?;
        Ok(Self {
            epoll,
            interrupt,
            fork_mark: ForkMark::new()?,
            sources: Sources::new(),
            until: AtomicU64::new(AWAKE),
            checks: AtomicU64::new(0),
            last_check: AtomicU64::new(0),
        })
    }

    /// Registers a descriptor, which stays open until [`deregister`](Self::deregister).
    ///
    /// `ready` is whether to try before an event was announced.
    ///
    /// # Errors
    /// Returns the error of epoll. Files and directories cannot be waited for (`EPERM`). There may
    /// be too many watches (`ENOSPC`), or no memory, the kernel's or this process's. Fails in a
    /// child process that was forked from the runtime's.
    pub(crate) fn register(&self, descriptor: impl AsFd, ready: bool) -> io::Result<Token> {
        if self.is_in_child() {
            return Err(io::Error::other(
                "the runtime belongs to the process from which this one was forked",
            ));
        }
        let token = self.sources.insert(ready)?;
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        if let Err(error) = epoll::add(&self.epoll, descriptor, EventData::new_u64(token.0), flags)
        {
            self.sources.remove(token);
            return Err(error.into());
        }
        Ok(token)
    }

    /// Tests whether this process was forked from the runtime's.
    #[inline]
    pub(crate) fn is_in_child(&self) -> bool {
        self.fork_mark.is_in_child()
    }

    /// Returns the directions of a registered descriptor.
    pub(crate) fn source(&self, token: Token) -> &Source {
        self.sources.get(token).expect("it is registered")
    }

    /// Ends a registration; to be called once, before the descriptor is closed.
    pub(crate) fn deregister(&self, token: Token, descriptor: impl AsFd) {
        if self.is_in_child() {
            // The registration is the parent's, and a thread of the parent may have held a lock of
            // the table when the child was forked.
            return;
        }
        // An error means that foreign code closed the descriptor: then it is not registered any
        // more.
        let _ = epoll::delete(&self.epoll, descriptor);
        self.sources.remove(token);
    }

    /// Returns the time of the last [check](Self::check), in nanoseconds of the runtime's clock; 0
    /// if there was none.
    pub(crate) fn last_check(&self) -> u64 {
        self.last_check.load(Ordering::Relaxed)
    }

    /// Takes all pending events without waiting; the time is `now`.
    pub(crate) fn check(&self, ready_events: &mut ReadyEvents, now: u64) {
        self.last_check.store(now, Ordering::Relaxed);
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        self.wait(ready_events, Some(&none));
    }

    /// Sleeps until there is an event, an [interrupt](Self::interrupt), or the time is `until`;
    /// then takes all pending events.
    pub(crate) fn watch(
        &self,
        ready_events: &mut ReadyEvents,
        until: Option<u64>,
        now: fn() -> u64,
    ) {
        let limit = until.map(|until| {
            let nanoseconds = until.saturating_sub(now());
            Timespec {
                tv_sec: (nanoseconds / 1_000_000_000).cast_signed(),
                tv_nsec: (nanoseconds % 1_000_000_000) as _,
            }
        });
        self.wait(ready_events, limit.as_ref());
        self.until.store(AWAKE, Ordering::SeqCst);
        let is_interrupt = |event: &epoll::Event| { event.data }.u64() == INTERRUPT;
        if ready_events.events.iter().any(is_interrupt) {
            // Consumed before another worker watches.
            let _ = rustix::io::read(&self.interrupt, &mut [0_u8; 8]);
        }
    }

    /// Announces that a worker is going to [watch](Self::watch) until then; to be called before the
    /// deadline is read for the last time.
    pub(crate) fn announce_watch(&self, until: Option<u64>) {
        self.until
            .store(until.unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Interrupts the watcher if it sleeps beyond `deadline`, when a timer is due.
    pub(crate) fn limit_watch(&self, deadline: u64) {
        if deadline < self.until.load(Ordering::SeqCst) {
            self.interrupt();
        }
    }

    fn wait(&self, ready_events: &mut ReadyEvents, limit: Option<&Timespec>) {
        self.checks.fetch_add(1, Ordering::Relaxed);
        let mut limit = limit;
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        loop {
            ready_events.events.clear();
            // An error here is `EINTR`, which counts as a check that found nothing: the worker
            // checks again.
            let _ = epoll::wait(&self.epoll, spare_capacity(&mut ready_events.events), limit);
            self.announce(ready_events);
            if ready_events.events.len() < ready_events.events.capacity() {
                break;
            }
            limit = Some(&none);
        }
    }

    /// Announces the events to their sources.
    fn announce(&self, ready_events: &mut ReadyEvents) {
        let readable = EventFlags::IN
            | EventFlags::PRI
            | EventFlags::RDHUP
            | EventFlags::HUP
            | EventFlags::ERR;
        let writable = EventFlags::OUT | EventFlags::HUP | EventFlags::ERR;
        let read_over = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        let write_over = EventFlags::HUP | EventFlags::ERR;
        let ReadyEvents { events, woken } = ready_events;
        for event in events {
            // Copied: the structure is packed.
            let (flags, token) = (event.flags, Token(event.data.u64()));
            let Some(source) = self.sources.get(token) else {
                continue;
            };
            for (direction, happens, over) in [
                (&source.read, readable, read_over),
                (&source.write, writable, write_over),
            ] {
                if flags.intersects(happens) {
                    let over = flags.intersects(over);
                    while !direction.announce(token.number(), over, woken) {
                        // There is no memory to collect all wakers first.
                        wake_all(woken);
                    }
                }
            }
        }
    }

    /// Ends the sleep of the worker that watches or is about to.
    pub(crate) fn interrupt(&self) {
        // The only error is a full counter, and that is not zero.
        let _ = rustix::io::write(&self.interrupt, &1_u64.to_ne_bytes());
    }

    /// Returns the descriptor that is readable when there are events.
    #[cfg(feature = "tokio")]
    pub(crate) fn descriptor(&self) -> std::os::fd::RawFd {
        std::os::fd::AsRawFd::as_raw_fd(&self.epoll)
    }

    /// Returns how many system calls have asked for events.
    pub(crate) fn checks(&self) -> u64 {
        self.checks.load(Ordering::Relaxed)
    }
}
