//! Hosts the runtime on the threads of a tokio runtime (feature `tokio`), so that whatever needs
//! tokio finds it.
//!
//! ```text
//!   thread of tokio ── its queues ──┬── task of a library (`tokio::spawn`)
//!        │                          ├── task of a library
//!        └── tokio's driver         └── host ── Corank's queues ──┬── coroutine, level 0
//!            (I/O, timers, signals)                               └── coroutine, level 48
//! ```
//!
//! Each worker is a *host*: a task of tokio that polls coroutines in batches. Between two batches
//! tokio's threads check for events and poll other tasks. A host without work is a task that waits;
//! Corank's calls wake it. There is one thread for each worker, and tokio's threads steal tasks
//! from each other, so that tasks of libraries and coroutines both have all threads.
//!
//! # Order between coroutines and tokio's tasks
//! tokio's own tasks have one level together, which [`Builder::tokio`](crate::Builder::tokio) sets.
//! - Coroutines of that level or of a more urgent one: a host polls them until nothing is ready or
//!   the batch ends. Then the thread polls at most [`EVENT_INTERVAL`] of tokio's tasks, and the
//!   host continues.
//! - Less urgent coroutines: a host polls a batch only if its thread found no task of tokio, its
//!   own or another thread's, in its last turn. It tells that from the turn's time, because tokio
//!   does not say it. After sixteen turns with tasks it polls a batch.
//! - A host that is woken is polled next, or by an idle thread. Tasks that are woken after it may
//!   displace it to the tail of its thread's queue. If it is still there at the second tick of the
//!   [watchdog](crate::watchdog), the watchdog wakes another host from outside, which a thread
//!   polls after at most [`GLOBAL_QUEUE_INTERVAL`] tasks.
//!
//! # Events of Corank's own descriptors
//! The reactor's epoll instance is a descriptor in tokio's driver, and so is a timer of the kernel
//! that is set for the next sleeper: see [`events`].

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::time::Instant;

use corank::Priority;

use crate::handle::{self, Handle};
use crate::shared::{Shared, TokioLink};

mod events;
mod host;

use events::Timer;

/// Limits the tasks of tokio that a busy thread polls between two checks for events.
const EVENT_INTERVAL: u32 = 16;
/// Limits the tasks of its own queue that a thread polls before it takes one that came from outside
/// of tokio's threads.
const GLOBAL_QUEUE_INTERVAL: u32 = 2;
/// Bounds the hosts: coroutines in tokio's `block_in_place` keep theirs, and others take their
/// place.
const MAX_HOSTS: usize = 512;

/// What the hosts of one runtime share.
struct Hosting {
    shared: Arc<Shared>,
    timer: Arc<Timer>,
    /// The level of tokio's tasks.
    level: Priority,
    /// Counts the tasks of this module.
    own_tasks: AtomicUsize,
    metrics: ::tokio::runtime::RuntimeMetrics,
}

impl Hosting {
    /// Tests whether tokio has tasks that are not of this module.
    fn has_other_tasks(&self) -> bool {
        self.metrics.num_alive_tasks() > self.own_tasks.load(Ordering::Relaxed)
    }

    /// Adds a host.
    fn spawn<E: Send + 'static>(self: &Arc<Self>, end: E) {
        self.own_tasks.fetch_add(2, Ordering::Relaxed);
        let kick = host::Kick::new();
        if let Some(tokio) = self.shared.tokio.get() {
            tokio.handle.spawn(kick.clone().run());
            tokio.handle.spawn(host::run(self.clone(), kick, end));
        }
    }

    /// Wakes a host that waits; adds one if all are busy or stand behind tokio's tasks.
    fn wake_another(self: &Arc<Self>) {
        let parked = {
            let entries = self.shared.entries();
            let parked = entries.iter().find(|entry| entry.parker.is_parked());
            if parked.is_none() && entries.len() >= MAX_HOSTS {
                return;
            }
            parked.cloned()
        };
        match parked {
            Some(entry) => entry.wake(&self.shared.reactor),
            None => self.spawn(()),
        }
    }
}

/// Owns tokio's threads, on which the hosts run.
///
/// Dropping it waits for them and, as tokio does, for blocking calls that have begun. Inside of a
/// coroutine it does not wait.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// `None` once it is shut down.
    runtime: Option<::tokio::runtime::Runtime>,
    /// By number, those that have not ended.
    left: BTreeMap<usize, String>,
    /// Receives the number of each host that ends.
    ended: Mutex<mpsc::Receiver<usize>>,
}

/// Notifies that a host ends, also if it is dropped.
struct EndNotice(usize, mpsc::Sender<usize>);

impl Drop for EndNotice {
    fn drop(&mut self) {
        let _ = self.1.send(self.0);
    }
}

impl Hosts {
    /// Waits until `end` for the hosts, which the runtime has stopped, and ends tokio's threads.
    ///
    /// Returns the names of the hosts that are left behind inside a poll.
    pub(crate) fn shut_down(mut self, end: Instant) -> Vec<String> {
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        while !self.left.is_empty() {
            match ended.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(number) => drop(self.left.remove(&number)),
                Err(_) => break,
            }
        }
        if let Some(runtime) = self.runtime.take() {
            if ::tokio::runtime::Handle::try_current().is_ok() {
                runtime.shutdown_background();
            } else {
                runtime.shutdown_timeout(end.saturating_duration_since(Instant::now()));
            }
        }
        std::mem::take(&mut self.left).into_values().collect()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take()
            && ::tokio::runtime::Handle::try_current().is_ok()
        {
            // Here tokio allows no waiting.
            runtime.shutdown_background();
        }
    }
}

/// Starts tokio's threads and a host for each.
///
/// # Errors
/// Fails if there are no descriptors, or if a thread cannot be started.
pub(crate) fn start(
    shared: &Arc<Shared>,
    workers: usize,
    name: &str,
    level: Priority,
) -> io::Result<Hosts> {
    let (started, prefix) = (AtomicUsize::new(0), name.to_string());
    let weak = Arc::downgrade(shared);
    let runtime = ::tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .event_interval(EVENT_INTERVAL)
        .global_queue_interval(GLOBAL_QUEUE_INTERVAL)
        .thread_name_fn(move || format!("{prefix}-{}", started.fetch_add(1, Ordering::Relaxed)))
        .on_thread_start(move || {
            if let Some(shared) = weak.upgrade() {
                // Current as long as the thread exists.
                std::mem::forget(handle::enter(Handle(shared)));
            }
        })
        .enable_all()
        .build()?;
    let entered = runtime.enter();
    let hosting = Arc::new(Hosting {
        shared: shared.clone(),
        timer: Arc::new(Timer::new()?),
        level,
        own_tasks: AtomicUsize::new(2),
        metrics: runtime.metrics(),
    });
    let events = events::Events::new(shared.clone())?;
    let link = TokioLink {
        handle: runtime.handle().clone(),
        rescue: Box::new(rescue(Arc::downgrade(&hosting))),
    };
    let is_new = shared.tokio.set(link).is_ok();
    debug_assert!(is_new, "a runtime starts once");
    runtime.spawn(events.run());
    runtime.spawn(events::fire_timers(hosting.clone()));
    let (ends, ended) = mpsc::channel();
    for number in 0..workers {
        hosting.spawn(EndNotice(number, ends.clone()));
    }
    drop(entered);
    Ok(Hosts {
        runtime: Some(runtime),
        left: (0..workers)
            .map(|number| (number, format!("{name}-{number}")))
            .collect(),
        ended: Mutex::new(ended),
    })
}

/// Returns what the watchdog does each tick: if something is ready and no host has polled since the
/// last tick, it wakes another one.
fn rescue(hosting: Weak<Hosting>) -> impl Fn() + Send + Sync {
    let last = AtomicU64::new(u64::MAX);
    move || {
        let Some(hosting) = hosting.upgrade() else {
            return;
        };
        let shared = &hosting.shared;
        let waits = !shared.has_nothing_ready();
        let polls = (shared.entries().iter())
            .fold(0, |sum: u64, entry| sum.wrapping_add(entry.parker.polls()));
        if waits && last.swap(polls, Ordering::Relaxed) == polls {
            hosting.wake_another();
        }
        if !waits {
            last.store(u64::MAX, Ordering::Relaxed);
        }
    }
}
