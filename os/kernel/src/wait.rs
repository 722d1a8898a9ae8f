//! Waiting in the kernel: queues of wakers, and the two ways in which a program's threads may wait.
use crate::lock::Mutex;
use alloc::collections::VecDeque;
use core::future::poll_fn;
use core::task::{Context, Poll, Waker};

/// How the threads of a process wait inside a blocking call; see [`corank_abi::call::WAIT_MODE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitMode {
    /// Sleep in a queue until what one waits for has happened.
    Block,
    /// Stay ready, give way, and ask again.
    Yield,
}

/// A waker with the ticket by which it is found again.
pub(crate) type Ticketed = (u64, Waker);

/// Most queues never hold more than one: the first has its place without an allocation.
#[derive(Debug)]
struct Entries {
    first: Option<Ticketed>,
    others: VecDeque<Ticketed>,
    last_ticket: u64,
}

impl Entries {
    /// Adds a waker and returns its ticket; `None` without memory for it.
    fn push(&mut self, waker: &Waker) -> Option<u64> {
        if self.first.is_some() {
            self.others.try_reserve(1).ok()?;
        }
        self.last_ticket += 1;
        let entry = (self.last_ticket, waker.clone());
        match &self.first {
            None => self.first = Some(entry),
            Some(_) => self.others.push_back(entry),
        }
        Some(self.last_ticket)
    }

    fn find(&mut self, ticket: u64) -> Option<&mut Ticketed> {
        match &mut self.first {
            Some(first) if first.0 == ticket => self.first.as_mut(),
            _ => {
                let place = self.place(ticket)?;
                self.others.get_mut(place)
            }
        }
    }

    /// Where a ticket stands among the others, which are in the order of their tickets.
    fn place(&self, ticket: u64) -> Option<usize> {
        self.others
            .binary_search_by_key(&ticket, |entry| entry.0)
            .ok()
    }

    fn remove(&mut self, ticket: u64) -> Option<Waker> {
        if self.first.as_ref().is_some_and(|entry| entry.0 == ticket) {
            let first = core::mem::replace(&mut self.first, self.others.pop_front());
            return first.map(|entry| entry.1);
        }
        let place = self.place(ticket)?;
        self.others.remove(place).map(|entry| entry.1)
    }
}

/// Coroutines that wait for the same thing.
#[derive(Debug)]
pub(crate) struct WaitQueue(Mutex<Entries>);

impl WaitQueue {
    /// A queue in which nobody waits.
    pub(crate) const fn new() -> WaitQueue {
        WaitQueue(Mutex::new(Entries {
            first: None,
            others: VecDeque::new(),
            last_ticket: 0,
        }))
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().first.is_none()
    }

    /// Wakes all who wait. They are out of the queue then.
    pub(crate) fn wake_all(&self) {
        let mut entries = self.0.lock();
        if entries.first.is_none() {
            return;
        }
        if let Some((_, waker)) = entries.first.take() {
            waker.wake();
            for (_, waker) in entries.others.drain(..) {
                waker.wake();
            }
        }
    }
}

/// One coroutine's turn to look whether it has to wait.
#[derive(Debug)]
pub(crate) struct Turn<'a, 'c, 'w> {
    queue: &'a WaitQueue,
    ticket: &'a mut u64,
    mode: WaitMode,
    context: &'c mut Context<'w>,
}

impl Turn<'_, '_, '_> {
    /// Arranges that the coroutine is woken when the queue is. To be called under the lock that guards what one waits
    /// for, before it is given free: so no wake comes between looking and waiting.
    pub(crate) fn wait(&mut self) {
        let waker = self.context.waker();
        if self.mode == WaitMode::Yield {
            waker.wake_by_ref();
            return;
        }
        let mut entries = self.queue.0.lock();
        match entries.find(*self.ticket) {
            Some(entry) => entry.1.clone_from(waker),
            None => match entries.push(waker) {
                Some(ticket) => *self.ticket = ticket,
                // Asks again when its turn comes, until there is room in the queue.
                None => waker.wake_by_ref(),
            },
        }
    }
}

/// Takes the ticket out of the queue again when the wait ends, in whichever way.
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

/// Tries `attempt` until it is ready. While it is pending it must have called [`Turn::wait`]; it is tried again when
/// the queue is woken (or, in [`WaitMode::Yield`], whenever the coroutine's turn comes).
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
