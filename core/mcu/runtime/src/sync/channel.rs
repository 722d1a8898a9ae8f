//! A channel of a fixed capacity (rules N9, N10).

use core::cell::{Cell, UnsafeCell};
use core::mem::MaybeUninit;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::queue::{Permits, wake};
use crate::critical;
use crate::waiter::Waiter;

/// A channel for at most `N` messages. It may stand in a `static`, and an interrupt handler may
/// [`try_send`](Self::try_send) and [`try_receive`](Self::try_receive).
pub struct Channel<T, const N: usize> {
    room: Permits,
    messages: Permits,
    ring: UnsafeCell<[MaybeUninit<T>; N]>,
    first: Cell<usize>,
    length: Cell<usize>,
}

// SAFETY: everything is touched with interrupts masked, and messages are `Send`.
unsafe impl<T: Send, const N: usize> Send for Channel<T, N> {}
// SAFETY: as above.
unsafe impl<T: Send, const N: usize> Sync for Channel<T, N> {}

impl<T, const N: usize> core::fmt::Debug for Channel<T, N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Channel").finish_non_exhaustive()
    }
}

impl<T, const N: usize> Default for Channel<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> Channel<T, N> {
    /// Creates an empty channel. A capacity of 0 does not compile.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(N > 0, "a channel has room for a message") };
        Self {
            room: Permits::new(N),
            messages: Permits::new(0),
            ring: UnsafeCell::new([const { MaybeUninit::uninit() }; N]),
            first: Cell::new(0),
            length: Cell::new(0),
        }
    }

    /// Waits for room, and puts the message in.
    pub fn send(&self, message: T) -> ChannelSend<'_, T, N> {
        ChannelSend {
            channel: self,
            waiter: Waiter::new(),
            message: Some(message),
        }
    }

    /// Waits for a message, and takes it out.
    pub fn receive(&self) -> ChannelReceive<'_, T, N> {
        ChannelReceive {
            channel: self,
            waiter: Waiter::new(),
        }
    }

    /// Puts the message in if there is room. From any context.
    ///
    /// # Errors
    /// The message, if there is none.
    pub fn try_send(&self, message: T) -> Result<(), T> {
        let mut message = Some(message);
        wake(critical(|| {
            if !self.room.take() {
                return None;
            }
            self.put(message.take()?);
            self.messages.give(N)
        }));
        message.map_or(Ok(()), Err)
    }

    /// Takes a message out if there is one. From any context.
    pub fn try_receive(&self) -> Option<T> {
        let (message, waker) = critical(|| match self.messages.take() {
            true => (Some(self.get()), self.room.give(N)),
            false => (None, None),
        });
        wake(waker);
        message
    }

    /// Requires masked interrupts, and a permit for room.
    fn put(&self, message: T) {
        let (first, length) = (self.first.get(), self.length.get());
        let mut at = first + length;
        if at >= N {
            at -= N;
        }
        // SAFETY: with interrupts masked nothing else refers to the ring.
        unsafe { (&mut *self.ring.get())[at].write(message) };
        self.length.set(length + 1);
    }

    /// Requires masked interrupts, and a permit for a message.
    fn get(&self) -> T {
        let at = self.first.get();
        self.first.set(if at + 1 == N { 0 } else { at + 1 });
        self.length.set(self.length.get() - 1);
        // SAFETY: as above; the permit stands for a message, and `at` is the first one.
        unsafe { (&*self.ring.get())[at].assume_init_read() }
    }
}

impl<T, const N: usize> Drop for Channel<T, N> {
    fn drop(&mut self) {
        while self.length.get() > 0 {
            drop(self.get());
        }
    }
}

/// Future of [`Channel::send`].
#[must_use = "a future does nothing unless awaited"]
pub struct ChannelSend<'a, T, const N: usize> {
    channel: &'a Channel<T, N>,
    waiter: Waiter,
    message: Option<T>,
}

// SAFETY: the waiter is touched with interrupts masked once others know it.
unsafe impl<T: Send, const N: usize> Send for ChannelSend<'_, T, N> {}

impl<T, const N: usize> core::fmt::Debug for ChannelSend<'_, T, N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ChannelSend").finish_non_exhaustive()
    }
}

impl<T, const N: usize> Future for ChannelSend<'_, T, N> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the waiter, which is pinned, is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        let channel = this.channel;
        let message = &mut this.message;
        let put = || {
            if let Some(message) = message.take() {
                channel.put(message);
            }
            channel.messages.give(N)
        };
        channel.room.poll(&this.waiter, cx, put).map(wake)
    }
}

impl<T, const N: usize> Drop for ChannelSend<'_, T, N> {
    fn drop(&mut self) {
        self.channel.room.leave(&self.waiter, N);
    }
}

/// Future of [`Channel::receive`].
#[must_use = "a future does nothing unless awaited"]
pub struct ChannelReceive<'a, T, const N: usize> {
    channel: &'a Channel<T, N>,
    waiter: Waiter,
}

// SAFETY: the waiter is touched with interrupts masked once others know it.
unsafe impl<T: Send, const N: usize> Send for ChannelReceive<'_, T, N> {}

impl<T, const N: usize> core::fmt::Debug for ChannelReceive<'_, T, N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ChannelReceive").finish_non_exhaustive()
    }
}

impl<T, const N: usize> Future for ChannelReceive<'_, T, N> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let channel = self.channel;
        let get = || (channel.get(), channel.room.give(N));
        channel
            .messages
            .poll(&self.waiter, cx, get)
            .map(|(message, waker)| {
                wake(waker);
                message
            })
    }
}

impl<T, const N: usize> Drop for ChannelReceive<'_, T, N> {
    fn drop(&mut self) {
        self.channel.messages.leave(&self.waiter, N);
    }
}
