//! Waiting in the kernel: queues of wakers, and the two ways in which a program's threads may wait.
use crate::executor::{current_level, executor, priority};
use crate::lock::Mutex;
use crate::pace;
use alloc::collections::BTreeMap;
use core::future::poll_fn;
use core::task::{Context, Poll, Waker};

/// How the threads of a process wait inside a blocking call; see [`corank_abi::call::WAIT_MODE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitMode {
    /// Sleep in a queue until what the thread waits for has happened.
    Block,
    /// Stay ready, yield, and ask again.
    Yield,
}

/// A waker with the ticket by which it is found again.
pub(crate) type Ticketed = (u64, Waker);

/// The number of waiters beside the first that are woken at once.
///
/// A coroutine wakes the others, in pieces.
const WOKEN_AT_ONCE: usize = pace::OBJECTS;

/// The least urgent level.
const LAST: u8 = 63;

/// The waiters of a queue, by their tickets.
///
/// Most queues never hold more than one: the first has its place without an allocation.
///
/// A program chooses how long a queue is. So the others are in a tree, which never moves all that
/// it holds. What a coroutine costs ([`account`](crate::memory::account)) pays for its place there.
#[derive(Debug)]
struct Entries {
    first: Option<Ticketed>,
    /// By their tickets, which are in the order in which they came.
    others: BTreeMap<u64, Waker>,
    last_ticket: u64,
    /// The most urgent level, when they began to wait, of the waiters that may not be woken at
    /// once.
    ///
    /// It may be that of a waiter that is gone.
    level: u8,
}

impl Entries {
    /// Adds a waker and returns its ticket.
    fn push(&mut self, waker: &Waker) -> u64 {
        self.last_ticket += 1;
        let waker = waker.clone();
        if self.first.is_none() {
            self.first = Some((self.last_ticket, waker));
        } else {
            if self.others.len() >= WOKEN_AT_ONCE {
                self.level = self.level.min(current_level());
            }
            self.others.insert(self.last_ticket, waker);
        }
        self.last_ticket
    }

    fn find(&mut self, ticket: u64) -> Option<&mut Waker> {
        match &mut self.first {
            Some(first) if first.0 == ticket => Some(&mut first.1),
            _ => self.others.get_mut(&ticket),
        }
    }

    fn remove(&mut self, ticket: u64) -> Option<Waker> {
        if self.first.as_ref().is_some_and(|entry| entry.0 == ticket) {
            let first = core::mem::replace(&mut self.first, self.others.pop_first());
            return first.map(|entry| entry.1);
        }
        self.others.remove(&ticket)
    }
}

/// Coroutines that wait for the same thing.
#[derive(Debug)]
pub(crate) struct WaitQueue(Mutex<Entries>);

impl WaitQueue {
    /// Makes a queue without waiters.
    pub(crate) const fn new() -> WaitQueue {
        WaitQueue(Mutex::new(Entries {
            first: None,
            others: BTreeMap::new(),
            last_ticket: 0,
            level: LAST,
        }))
    }

    /// Tests whether there is no waiter.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().first.is_none()
    }

    /// Wakes all waiters, in their order.
    ///
    /// They are out of the queue then. A program chooses how many waiters there are. So no more
    /// than [`WOKEN_AT_ONCE`] and the first are woken here, and a coroutine wakes the others in
    /// pieces. It is as urgent as the caller, and as the most urgent waiter was when that began to
    /// wait. One that begins to wait meanwhile is in the queue, and no part of this.
    pub(crate) fn wake_all(&self) {
        let mut entries = self.0.lock();
        let Some((_, waker)) = entries.first.take() else {
            return;
        };
        waker.wake();
        for _ in 0..WOKEN_AT_ONCE {
            match entries.others.pop_first() {
                Some((_, waker)) => waker.wake(),
                None => return,
            }
        }
        if entries.others.is_empty() {
            return;
        }
        let others = core::mem::take(&mut entries.others);
        let level = core::mem::replace(&mut entries.level, LAST);
        drop(entries);
        wake_in_pieces(others, level);
    }
}

/// Wakes these in a coroutine, at this level or the caller's, if that is more urgent.
///
/// What each of them has paid for what it waits in ([`account`](crate::memory::account)) pays for
/// the coroutine. Without memory for it they are woken here.
#[cold]
#[inline(never)]
fn wake_in_pieces(others: BTreeMap<u64, Waker>, level: u8) {
    let level = priority(level.min(current_level()));
    let mut others = Some(others);
    let spawned = executor().spawn_with(level, || {
        let others = others.take().unwrap_or_default();
        async move {
            for (woken, (_, waker)) in (1..).zip(others) {
                waker.wake();
                if woken % WOKEN_AT_ONCE == 0 {
                    // Whatever else is ready: the executor collects all wakes of one poll before it
                    // checks for more urgent work.
                    corank::yield_now().await;
                }
            }
        }
    });
    if spawned.is_err() {
        for (_, waker) in others.unwrap_or_default() {
            waker.wake();
        }
    }
}

/// One coroutine's turn to check whether it has to wait.
#[derive(Debug)]
pub(crate) struct Turn<'a, 'c, 'w> {
    queue: &'a WaitQueue,
    ticket: &'a mut u64,
    mode: WaitMode,
    context: &'c mut Context<'w>,
}

impl Turn<'_, '_, '_> {
    /// Arranges that the coroutine is woken when the queue is.
    ///
    /// To be called under the lock that guards what the coroutine waits for, before that lock is
    /// released. So no wake comes between checking and waiting. `guarded` is what that lock guards,
    /// or its guard. This parameter exists because it cannot be named where the lock is not held
    /// any more.
    pub(crate) fn wait<T: ?Sized>(&mut self, guarded: &T) {
        let _ = guarded;
        let waker = self.context.waker();
        if self.mode == WaitMode::Yield {
            waker.wake_by_ref();
            return;
        }
        let mut entries = self.queue.0.lock();
        match entries.find(*self.ticket) {
            Some(known) => known.clone_from(waker),
            None => *self.ticket = entries.push(waker),
        }
    }
}

/// A ticket in a queue, which is taken out again when the wait ends, in whichever way.
struct Registration<'a> {
    queue: &'a WaitQueue,
    ticket: u64,
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        if self.ticket != 0 {
            let waker = self.queue.0.lock().remove(self.ticket);
            drop(waker);
        }
    }
}

/// Tries `attempt` until it is ready.
///
/// While it is pending it must have called [`Turn::wait`]. It is tried again when the queue is
/// woken. In [`WaitMode::Yield`] it is tried again whenever the coroutine's turn comes.
pub(crate) async fn until<T>(
    queue: &WaitQueue,
    mode: WaitMode,
    mut attempt: impl FnMut(&mut Turn<'_, '_, '_>) -> Poll<T>,
) -> T {
    let mut registration = Registration { queue, ticket: 0 };
    poll_fn(move |context| {
        let Registration { queue, ticket } = &mut registration;
        attempt(&mut Turn {
            queue,
            ticket,
            mode,
            context,
        })
    })
    .await
}
