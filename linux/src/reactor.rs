//! What the kernel tells of file descriptors: one epoll instance for all workers of a runtime.
//!
//! Descriptors are registered once, for both directions and edge-triggered; no system call is made per wait. Any number of workers
//! look at once: the kernel gives each event to one of them. When each looks is the [worker's](crate::worker) business.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use crate::sources::{Source, Sources, Token};

/// Events that one system call brings. When it brings as many, there is another call at once.
const EVENTS: usize = 256;
/// The token of the descriptor that interrupts whoever watches.
const INTERRUPT: u64 = u64::MAX;
/// Nobody sleeps with a time limit.
const AWAKE: u64 = 0;

/// See the module's documentation.
pub(crate) struct Reactor {
    epoll: OwnedFd,
    interrupt: OwnedFd,
    sources: Sources,
    /// Until when whoever watches sleeps, in nanoseconds of the runtime's clock; [`AWAKE`] if nobody does.
    until: AtomicU64,
    checks: AtomicU64,
    /// In nanoseconds of the runtime's clock.
    last_check: AtomicU64,
}

/// One worker's room for what a look brings.
pub(crate) struct ReadyEvents {
    events: Vec<epoll::Event>,
    woken: Vec<Waker>,
}

impl ReadyEvents {
    pub(crate) fn new() -> Self {
        Self {
            events: Vec::with_capacity(EVENTS),
            woken: Vec::with_capacity(EVENTS),
        }
    }

    /// Wakes those who waited for what was found, in the kernel's order. No lock of the runtime's may be held.
    pub(crate) fn wake_all(&mut self) {
        wake_all(&mut self.woken);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.woken.is_empty()
    }
}

fn wake_all(woken: &mut Vec<Waker>) {
    for waker in woken.drain(..) {
        // Whose waker it is, is not known: one that panics shall not end the worker. The hook has told of it.
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}

impl Reactor {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let interrupt = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // Not edge-triggered: it is for whoever watches, and a worker that only looks must not take it away.
        let token = EventData::new_u64(INTERRUPT);
        epoll::add(&epoll, &interrupt, token, EventFlags::IN)?;
        Ok(Self {
            epoll,
            interrupt,
            sources: Sources::new(),
            until: AtomicU64::new(AWAKE),
            checks: AtomicU64::new(0),
            last_check: AtomicU64::new(0),
        })
    }

    /// Registers a descriptor, which stays open until [`deregister`](Self::deregister). `ready`: whether to try before anything was announced.
    ///
    /// # Errors
    /// What epoll says: files and directories cannot be waited for (`EPERM`); too many watches (`ENOSPC`); no memory, the kernel's or this process's.
    pub(crate) fn register(&self, descriptor: impl AsFd, ready: bool) -> io::Result<Token> {
        let token = self.sources.insert(ready)?;
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        if let Err(error) = epoll::add(&self.epoll, descriptor, EventData::new_u64(token.0), flags)
        {
            self.sources.remove(token);
            return Err(error.into());
        }
        Ok(token)
    }

    /// A registered descriptor's directions.
    pub(crate) fn source(&self, token: Token) -> &Source {
        self.sources.get(token).expect("it is registered")
    }

    /// Ends a registration. To be called once, before the descriptor is closed.
    pub(crate) fn deregister(&self, token: Token, descriptor: impl AsFd) {
        // The error would say that the descriptor was closed behind our back: then it is not registered any more.
        let _ = epoll::delete(&self.epoll, descriptor);
        self.sources.remove(token);
    }

    /// When somebody [looked](Self::look) last, without waiting; 0 if nobody did.
    pub(crate) fn last_check(&self) -> u64 {
        self.last_check.load(Ordering::Relaxed)
    }

    /// Takes in all events that there are, without waiting; it is `now`.
    pub(crate) fn check(&self, ready_events: &mut ReadyEvents, now: u64) {
        self.last_check.store(now, Ordering::Relaxed);
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        self.wait(ready_events, Some(&none));
    }

    /// Sleeps until there is an event, somebody [interrupts](Self::interrupt), or `limit` nanoseconds have passed by; and takes in all
    /// events that there are. `until` is when that limit is reached.
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
            // Before somebody else watches.
            let _ = rustix::io::read(&self.interrupt, &mut [0_u8; 8]);
        }
    }

    /// Somebody is going to [watch](Self::watch) until then. To be told before the deadline is asked for the last time.
    pub(crate) fn announce_watch(&self, until: Option<u64>) {
        self.until
            .store(until.unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// A timer is due at `deadline`: whoever watches shall not sleep longer.
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
            // An error here is `EINTR`, which counts as a look that found nothing: the worker comes again.
            let _ = epoll::wait(&self.epoll, spare_capacity(&mut ready_events.events), limit);
            self.announce(ready_events);
            if ready_events.events.len() < ready_events.events.capacity() {
                break;
            }
            limit = Some(&none);
        }
    }

    /// Tells the sources what has happened.
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
                        // There is no memory to wake them all at once.
                        wake_all(woken);
                    }
                }
            }
        }
    }

    /// Ends the sleep of whoever watches, or is about to.
    pub(crate) fn interrupt(&self) {
        // The only error is a counter that is full, and then it is not zero.
        let _ = rustix::io::write(&self.interrupt, &1_u64.to_ne_bytes());
    }

    /// How often it has been asked for events so far.
    pub(crate) fn checks(&self) -> u64 {
        self.checks.load(Ordering::Relaxed)
    }
}
