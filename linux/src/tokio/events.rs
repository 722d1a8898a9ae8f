//! Events of Corank's reactor and its timers, as tokio's driver announces them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

use ::tokio::io::Interest;
use ::tokio::io::unix::AsyncFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::Hosting;
use crate::reactor::ReadyEvents;
use crate::shared::Shared;
use crate::time;

/// The reactor, as a descriptor in tokio's driver.
pub(super) struct Events(AsyncFd<Reactor>);

struct Reactor(Arc<Shared>);

impl AsRawFd for Reactor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.reactor.descriptor()
    }
}

impl Events {
    /// # Errors
    /// Fails if the kernel does not watch one more descriptor.
    pub(super) fn new(shared: Arc<Shared>) -> io::Result<Self> {
        // SAFETY: the reactor keeps its descriptor, and `Shared` keeps the reactor.
        let descriptor =
            unsafe { AsyncFd::register_with_interest(Reactor(shared), Interest::READABLE) }?;
        Ok(Self(descriptor))
    }

    /// Wakes the coroutines whose descriptors have events, until tokio's driver is gone.
    pub(super) async fn run(self) {
        let mut ready_events = ReadyEvents::new();
        while let Ok(mut guard) = self.0.readable().await {
            (self.0.get_ref().0.reactor).check(&mut ready_events, time::clock());
            guard.clear_ready();
            ready_events.wake_all();
        }
    }
}

/// A timer of the kernel, set for the next sleeping coroutine.
pub(super) struct Timer {
    descriptor: AsyncFd<OwnedFd>,
    /// In nanoseconds of the runtime's clock; `u64::MAX` if it is not set.
    set: Mutex<u64>,
}

impl Timer {
    /// # Errors
    /// Fails if there is no descriptor.
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // SAFETY: it owns the descriptor, and no code takes that out.
        let descriptor =
            unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }?;
        Ok(Self {
            descriptor,
            set: Mutex::new(u64::MAX),
        })
    }

    /// Sets the timer for `deadline`, unless it fires before.
    pub(super) fn set(&self, deadline: Option<u64>) {
        let Some(deadline) = deadline else {
            return;
        };
        let now = time::clock();
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        // One that has fired, or does now, is of no use any more: the caller has read the clock.
        if deadline >= *set && *set > now {
            return;
        }
        *set = deadline;
        // A value of 0 would disarm it.
        let left = deadline.saturating_sub(now).max(1);
        let value = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: (left / 1_000_000_000).cast_signed(),
                tv_nsec: (left % 1_000_000_000) as _,
            },
        };
        let result = timerfd_settime(
            self.descriptor.get_ref(),
            TimerfdTimerFlags::empty(),
            &value,
        );
        debug_assert!(result.is_ok(), "the value is valid");
    }

    async fn fired(&self) -> io::Result<()> {
        let mut guard = self.descriptor.readable().await?;
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        // There is nothing to read if it has been set again since.
        if rustix::io::read(self.descriptor.get_ref(), &mut [0_u8; 8]).is_ok() {
            *set = u64::MAX;
        }
        drop(set);
        guard.clear_ready();
        Ok(())
    }
}

/// Lets a host fire the timers that are due, until tokio's driver is gone.
pub(super) async fn fire_timers(hosting: Arc<Hosting>) {
    while hosting.timer.fired().await.is_ok() {
        // A host reads the clock whenever it runs. If none waits, one runs soon.
        let entries = hosting.shared.entries();
        let parked = entries.iter().find(|entry| entry.parker.is_parked());
        if let Some(entry) = parked {
            entry.wake(&hosting.shared.reactor);
        }
        if let Some(pause) = hosting.shared.pause.get() {
            pause.note_awake();
        }
    }
}
