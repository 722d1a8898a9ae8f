//! A bounded channel: a queue between two semaphores, one for room and one for messages (rules N9,
//! N10).

use core::cell::{Cell, RefCell};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};

use heapless::Deque;

#[cfg(feature = "alloc")]
use crate::ownership::Shared;
use crate::ownership::{Local, Ownership};
use crate::sync::permits::Permits;
use crate::sync::queue::{Entry, EntryState};

/// A bounded first-in, first-out channel of at most `CAPACITY` messages.
///
/// Any number of coroutines send and receive.
///
/// The messages lie in the channel itself. A message is put in or taken out when its coroutine
/// runs. Until then the room or the message that the coroutine was woken for is reserved for it.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use std::rc::Rc;
/// use corank::{Priority, coroutine_run, spawn, sync::Channel};
///
/// coroutine_run(async {
///     let channel = Rc::new(Channel::<u32, 2>::new());
///     let sender = channel.clone();
///     spawn(Priority::DEFAULT, async move {
///         for n in 1..=5 {
///             sender.send(n).await.unwrap();
///         }
///         sender.close();
///     }).unwrap();
///     let mut sum = 0;
///     while let Some(n) = channel.receive().await {
///         sum += n;
///     }
///     assert_eq!(sum, 15);
/// }, Priority::DEFAULT).unwrap();
/// # }
/// ```
pub struct Channel<T, const CAPACITY: usize, O: Ownership = Local> {
    owner: O,
    messages: RefCell<Deque<T, CAPACITY>>,
    /// A permit for each free place that no sender has been given.
    room: Permits<O>,
    /// A permit for each message that no receiver has been given.
    there: Permits<O>,
    closed: Cell<bool>,
}

// SAFETY: what it is made of is touched in the owner's turns only, and the messages go from thread
// to thread.
#[cfg(feature = "alloc")]
unsafe impl<T: Send, const CAPACITY: usize> Send for Channel<T, CAPACITY, Shared> {}
// SAFETY: as above.
#[cfg(feature = "alloc")]
unsafe impl<T: Send, const CAPACITY: usize> Sync for Channel<T, CAPACITY, Shared> {}

impl<T, const CAPACITY: usize> Channel<T, CAPACITY> {
    /// Creates an empty channel, for one thread.
    ///
    /// A capacity of 0 does not compile.
    #[must_use]
    pub const fn new() -> Self {
        Self::at(Local::HERE)
    }
}

#[cfg(feature = "alloc")]
impl<T, const CAPACITY: usize> Channel<T, CAPACITY, Shared> {
    /// Creates an empty channel, for the coroutines of a [`SharedExecutor`](crate::SharedExecutor).
    ///
    /// A capacity of 0 does not compile.
    #[must_use]
    pub fn new_in(owner: impl Into<Shared>) -> Self {
        Self::at(owner.into())
    }
}

impl<T, const CAPACITY: usize, O: Ownership> Channel<T, CAPACITY, O> {
    const fn at(owner: O) -> Self {
        const { assert!(CAPACITY > 0, "a channel holds at least one message") };
        Self {
            owner,
            messages: RefCell::new(Deque::new()),
            room: Permits::new(CAPACITY),
            there: Permits::new(0),
            closed: Cell::new(false),
        }
    }

    /// Puts a message in, once there is room.
    ///
    /// # Errors
    /// The message comes back if the channel is closed before it was put in. Dropping the future
    /// before that drops the message.
    pub fn send(&self, message: T) -> ChannelSend<'_, T, CAPACITY, O> {
        ChannelSend {
            channel: self,
            message: Cell::new(Some(message)),
            entry: Entry::new(),
        }
    }

    /// Takes the oldest message out, once there is one.
    ///
    /// The future yields `None` when the channel is closed and empty. Dropping it loses no message.
    pub fn receive(&self) -> ChannelReceive<'_, T, CAPACITY, O> {
        ChannelReceive {
            channel: self,
            entry: Entry::new(),
        }
    }

    /// Puts a message in if there is room.
    ///
    /// # Errors
    /// The message comes back if the channel is full or closed.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.owner.hold(|| {
            if self.closed().get() {
                return Err(TrySendError::Closed(message));
            }
            if !self.room.take() {
                return Err(TrySendError::Full(message));
            }
            self.put(message);
            Ok(())
        })
    }

    /// Takes the oldest message that no receiver has been given.
    ///
    /// # Errors
    /// There is none now, or there will be none any more.
    pub fn try_receive(&self) -> Result<T, TryReceiveError> {
        self.owner.hold(|| {
            self.owner.assert_held();
            if self.there.take()
                && let Some(message) = self.take()
            {
                return Ok(message);
            }
            Err(if self.closed().get() {
                TryReceiveError::Closed
            } else {
                TryReceiveError::Empty
            })
        })
    }

    /// Closes the channel, so that no message is put in any more.
    ///
    /// Messages in it can still be taken out. Every waiter that waits in vain is woken.
    pub fn close(&self) {
        self.owner.hold(|| {
            self.closed().set(true);
            self.room.refuse(&self.owner);
            self.there.refuse(&self.owner);
        });
    }

    /// Tests whether [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.owner.hold(|| self.closed().get())
    }

    /// Returns the number of messages in the channel.
    pub fn len(&self) -> usize {
        self.owner.hold(|| self.messages().borrow().len())
    }

    /// Tests whether no message is in the channel.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the closed flag.
    ///
    /// Requires the owner's turn.
    fn closed(&self) -> &Cell<bool> {
        self.owner.assert_held();
        &self.closed
    }

    /// Returns the messages.
    ///
    /// Requires the owner's turn.
    fn messages(&self) -> &RefCell<Deque<T, CAPACITY>> {
        self.owner.assert_held();
        &self.messages
    }

    /// Ends the wait of a future that is dropped and that may have waited for one of `permits`.
    fn leave(&self, permits: &Permits<O>, entry: &Entry<O>) {
        if entry.is_known() {
            self.owner.hold(|| {
                let next = permits.leave(&self.owner, entry, CAPACITY);
                next.wake(self.owner.scheduler());
            });
        }
    }

    /// Uses a permit of `room`.
    fn put(&self, message: T) {
        if self.messages().borrow_mut().push_back(message).is_err() {
            unreachable!("a permit stands for room");
        }
        self.there.release(&self.owner);
    }

    /// Uses a permit of `there`, so there is a message.
    fn take(&self) -> Option<T> {
        let message = self.messages().borrow_mut().pop_front();
        self.room.release(&self.owner);
        message
    }
}

impl<T, const CAPACITY: usize> Default for Channel<T, CAPACITY> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const CAPACITY: usize, O: Ownership> fmt::Debug for Channel<T, CAPACITY, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("len", &self.len())
            .field("capacity", &CAPACITY)
            .field("closed", &self.is_closed())
            .finish()
    }
}

/// The error of a send to a closed channel.
///
/// It gives the message back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendError<T>(pub T);

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the channel is closed")
    }
}

impl<T: fmt::Debug> core::error::Error for SendError<T> {}

/// The reason why [`Channel::try_send`] failed.
///
/// It gives the message back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// There is no room now.
    Full(T),
    /// The channel is closed and takes no message again.
    Closed(T),
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "the channel is full",
            Self::Closed(_) => "the channel is closed",
        })
    }
}

impl<T: fmt::Debug> core::error::Error for TrySendError<T> {}

/// The reason why [`Channel::try_receive`] returned no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryReceiveError {
    /// There is no message now.
    Empty,
    /// The channel is closed, and no message comes any more.
    Closed,
}

impl fmt::Display for TryReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the channel is empty",
            Self::Closed => "the channel is empty and closed",
        })
    }
}

impl core::error::Error for TryReceiveError {}

/// Future of [`Channel::send`].
#[must_use = "a future does nothing unless awaited"]
pub struct ChannelSend<'a, T, const CAPACITY: usize, O: Ownership = Local> {
    channel: &'a Channel<T, CAPACITY, O>,
    /// The message, until it is put in.
    message: Cell<Option<T>>,
    entry: Entry<O>,
}

impl<T, const CAPACITY: usize, O: Ownership> Future for ChannelSend<'_, T, CAPACITY, O> {
    type Output = Result<(), SendError<T>>;

    /// # Panics
    /// If it is polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.as_ref().get_ref();
        let channel = this.channel;
        // SAFETY: the entry is part of the pinned future, whose `drop` lets it leave.
        let entry = unsafe { Pin::new_unchecked(&this.entry) };
        channel.owner.hold(|| {
            if !channel.closed().get() {
                // SAFETY: as above.
                let room = unsafe { channel.room.poll(&channel.owner, entry, cx) };
                if room.is_pending() {
                    return Poll::Pending;
                }
            }
            let Some(message) = this.message.take() else {
                panic!("a ChannelSend was polled after it had put its message in");
            };
            Poll::Ready(if channel.closed().get() {
                Err(SendError(message))
            } else {
                channel.put(message);
                Ok(())
            })
        })
    }
}

impl<T, const CAPACITY: usize, O: Ownership> Drop for ChannelSend<'_, T, CAPACITY, O> {
    fn drop(&mut self) {
        self.channel.leave(&self.channel.room, &self.entry);
    }
}

impl<T, const CAPACITY: usize, O: Ownership> fmt::Debug for ChannelSend<'_, T, CAPACITY, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelSend").finish_non_exhaustive()
    }
}

/// Future of [`Channel::receive`].
#[must_use = "a future does nothing unless awaited"]
pub struct ChannelReceive<'a, T, const CAPACITY: usize, O: Ownership = Local> {
    channel: &'a Channel<T, CAPACITY, O>,
    entry: Entry<O>,
}

impl<T, const CAPACITY: usize, O: Ownership> Future for ChannelReceive<'_, T, CAPACITY, O> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let this = self.as_ref().get_ref();
        let channel = this.channel;
        // SAFETY: the entry is part of the pinned future, whose `drop` lets it leave.
        let entry = unsafe { Pin::new_unchecked(&this.entry) };
        channel.owner.hold(|| {
            if entry.state() == EntryState::Out && channel.closed().get() {
                return Poll::Ready(channel.try_receive().ok());
            }
            // SAFETY: as above.
            let there = unsafe { channel.there.poll(&channel.owner, entry, cx) };
            there.map(|permit| permit.ok().and_then(|()| channel.take()))
        })
    }
}

impl<T, const CAPACITY: usize, O: Ownership> Drop for ChannelReceive<'_, T, CAPACITY, O> {
    fn drop(&mut self) {
        self.channel.leave(&self.channel.there, &self.entry);
    }
}

impl<T, const CAPACITY: usize, O: Ownership> fmt::Debug for ChannelReceive<'_, T, CAPACITY, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelReceive").finish_non_exhaustive()
    }
}
