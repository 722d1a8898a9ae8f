//! A bounded channel: a queue between two semaphores, one for room and one for messages (rules N9,
//! N10).

use core::cell::{Cell, RefCell};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};

use heapless::Deque;

#[cfg(feature = "alloc")]
use crate::place::Shared;
use crate::place::{OneThread, Place};
use crate::sync::permits::Permits;
use crate::sync::queue::{Entry, Standing};

/// At most `CAPACITY` messages on their way, first in, first out. Any number of coroutines send and
/// receive.
///
/// The messages lie in the channel itself. A message is put in or taken out when its coroutine
/// runs; the room or the message that it was woken for is reserved for it until then.
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
pub struct Channel<T, const CAPACITY: usize, P: Place = OneThread> {
    place: P,
    messages: RefCell<Deque<T, CAPACITY>>,
    /// A permit for each place that is free and that nobody has been given.
    room: Permits<P>,
    /// A permit for each message that nobody has been given.
    there: Permits<P>,
    closed: Cell<bool>,
}

// SAFETY: what it is made of is touched in the place's turns only, and the messages go from thread
// to thread.
#[cfg(feature = "alloc")]
unsafe impl<T: Send, const CAPACITY: usize> Send for Channel<T, CAPACITY, Shared> {}
// SAFETY: as above.
#[cfg(feature = "alloc")]
unsafe impl<T: Send, const CAPACITY: usize> Sync for Channel<T, CAPACITY, Shared> {}

impl<T, const CAPACITY: usize> Channel<T, CAPACITY> {
    /// An empty channel, for one thread. A capacity of 0 does not compile.
    #[must_use]
    pub const fn new() -> Self {
        Self::at(OneThread::HERE)
    }
}

#[cfg(feature = "alloc")]
impl<T, const CAPACITY: usize> Channel<T, CAPACITY, Shared> {
    /// An empty channel, for the coroutines of a [`SharedExecutor`](crate::SharedExecutor). A
    /// capacity of 0 does not compile.
    #[must_use]
    pub fn new_in(place: impl Into<Shared>) -> Self {
        Self::at(place.into())
    }
}

impl<T, const CAPACITY: usize, P: Place> Channel<T, CAPACITY, P> {
    const fn at(place: P) -> Self {
        const { assert!(CAPACITY > 0, "a channel holds at least one message") };
        Self {
            place,
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
    pub fn send(&self, message: T) -> ChannelSend<'_, T, CAPACITY, P> {
        ChannelSend {
            channel: self,
            message: Cell::new(Some(message)),
            entry: Entry::new(),
        }
    }

    /// Takes the oldest message out, once there is one; `None` when the channel is closed and
    /// empty. Dropping the future loses no message.
    pub fn receive(&self) -> ChannelReceive<'_, T, CAPACITY, P> {
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
        self.place.hold(|| {
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

    /// Takes the oldest message that is there and that nobody has been given.
    ///
    /// # Errors
    /// There is none now, or there will be none any more.
    pub fn try_receive(&self) -> Result<T, TryReceiveError> {
        self.place.hold(|| {
            self.place.assert_held();
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

    /// No message is put in any more. Those in it can still be taken out; everybody who waits in
    /// vain is woken.
    pub fn close(&self) {
        self.place.hold(|| {
            self.closed().set(true);
            self.room.refuse(&self.place);
            self.there.refuse(&self.place);
        });
    }

    /// Whether [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.place.hold(|| self.closed().get())
    }

    /// How many messages are in the channel.
    pub fn len(&self) -> usize {
        self.place.hold(|| self.messages().borrow().len())
    }

    /// Whether no message is in the channel.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// In the place's turn.
    fn closed(&self) -> &Cell<bool> {
        self.place.assert_held();
        &self.closed
    }

    /// In the place's turn.
    fn messages(&self) -> &RefCell<Deque<T, CAPACITY>> {
        self.place.assert_held();
        &self.messages
    }

    /// A future is dropped that may have waited for one of `permits`.
    fn leave(&self, permits: &Permits<P>, entry: &Entry<P>) {
        if entry.is_known() {
            self.place.hold(|| {
                let next = permits.leave(&self.place, entry, CAPACITY);
                next.wake(self.place.scheduler());
            });
        }
    }

    /// Uses a permit of `room`.
    fn put(&self, message: T) {
        if self.messages().borrow_mut().push_back(message).is_err() {
            unreachable!("a permit stands for room");
        }
        self.there.release(&self.place);
    }

    /// Uses a permit of `there`, so there is a message.
    fn take(&self) -> Option<T> {
        let message = self.messages().borrow_mut().pop_front();
        self.room.release(&self.place);
        message
    }
}

impl<T, const CAPACITY: usize> Default for Channel<T, CAPACITY> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const CAPACITY: usize, P: Place> fmt::Debug for Channel<T, CAPACITY, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("len", &self.len())
            .field("capacity", &CAPACITY)
            .field("closed", &self.is_closed())
            .finish()
    }
}

/// The channel is closed; the message comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendError<T>(pub T);

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the channel is closed")
    }
}

impl<T: fmt::Debug> core::error::Error for SendError<T> {}

/// Why [`Channel::try_send`] did not; the message comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// No room now.
    Full(T),
    /// Nor ever again.
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

/// Why [`Channel::try_receive`] has nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryReceiveError {
    /// No message now.
    Empty,
    /// Nor ever again.
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
pub struct ChannelSend<'a, T, const CAPACITY: usize, P: Place = OneThread> {
    channel: &'a Channel<T, CAPACITY, P>,
    /// Until it is put in.
    message: Cell<Option<T>>,
    entry: Entry<P>,
}

impl<T, const CAPACITY: usize, P: Place> Future for ChannelSend<'_, T, CAPACITY, P> {
    type Output = Result<(), SendError<T>>;

    /// # Panics
    /// After it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.as_ref().get_ref();
        let channel = this.channel;
        // SAFETY: the entry is part of the pinned future, whose `drop` lets it leave.
        let entry = unsafe { Pin::new_unchecked(&this.entry) };
        channel.place.hold(|| {
            if !channel.closed().get() {
                // SAFETY: as above.
                let room = unsafe { channel.room.poll(&channel.place, entry, cx) };
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

impl<T, const CAPACITY: usize, P: Place> Drop for ChannelSend<'_, T, CAPACITY, P> {
    fn drop(&mut self) {
        self.channel.leave(&self.channel.room, &self.entry);
    }
}

impl<T, const CAPACITY: usize, P: Place> fmt::Debug for ChannelSend<'_, T, CAPACITY, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelSend").finish_non_exhaustive()
    }
}

/// Future of [`Channel::receive`].
#[must_use = "a future does nothing unless awaited"]
pub struct ChannelReceive<'a, T, const CAPACITY: usize, P: Place = OneThread> {
    channel: &'a Channel<T, CAPACITY, P>,
    entry: Entry<P>,
}

impl<T, const CAPACITY: usize, P: Place> Future for ChannelReceive<'_, T, CAPACITY, P> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let this = self.as_ref().get_ref();
        let channel = this.channel;
        // SAFETY: the entry is part of the pinned future, whose `drop` lets it leave.
        let entry = unsafe { Pin::new_unchecked(&this.entry) };
        channel.place.hold(|| {
            if entry.standing() == Standing::Out && channel.closed().get() {
                return Poll::Ready(channel.try_receive().ok());
            }
            // SAFETY: as above.
            let there = unsafe { channel.there.poll(&channel.place, entry, cx) };
            there.map(|permit| permit.ok().and_then(|()| channel.take()))
        })
    }
}

impl<T, const CAPACITY: usize, P: Place> Drop for ChannelReceive<'_, T, CAPACITY, P> {
    fn drop(&mut self) {
        self.channel.leave(&self.channel.there, &self.entry);
    }
}

impl<T, const CAPACITY: usize, P: Place> fmt::Debug for ChannelReceive<'_, T, CAPACITY, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelReceive").finish_non_exhaustive()
    }
}
