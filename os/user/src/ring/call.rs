//! The future of an asynchronous call (`AsyncCall` of COPS, section 4.3.1).
//!
//! ```text
//!        first poll            the kernel completes it          poll
//!   new ───────────▶ under way ──────────────────────▶ done ─────────▶ over
//!                        │                               │               ▲
//!                        └──── dropped or cancelled ─────┴───────────────┘
//! ```
//! From its first poll on the future is pinned, and so is what it owns. Its memory, and that of its
//! buffer, stays its own until its destructor has run, and that ends the call. A future that is
//! leaked keeps both for ever.
use core::marker::PhantomPinned;
use core::pin::Pin;
use core::task::{Context, Poll};

use corank::CoroutineId;
use corank_abi::call::FAILED;

use super::node::Node;
use super::payload::Payload;
use super::shared::Ring;
use crate::io::OwnedFd;

/// The operation for the kernel: the number of a call, and its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) call: u32,
    pub(crate) arguments: [usize; 3],
}

/// How a cancelled call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Nothing has happened: the kernel has not seen it.
    Unseen,
    /// The kernel has begun to serve it and has taken everything back.
    Cancelled,
    /// The kernel has done it, or a part of it.
    Completed(isize),
}

/// The future of one asynchronous call.
///
/// Nothing happens before its first poll, which submits the call; the executor enters the kernel
/// once for all that its coroutines have submitted by then.
///
/// Dropping it cancels the call: when the drop returns, the kernel does not touch the buffer any
/// more, and the call has either been completed or has done nothing (see [`crate::ring`]).
#[derive(Debug)]
#[must_use = "a call is made when its future is first polled"]
pub struct AsyncCall<P: Payload> {
    // Small, because futures are moved before they are pinned: eight words are moved without a call
    // of `memcpy`.
    arguments: [usize; 3],
    call: u16,
    /// How many times the call is made: see [`AsyncCall::repeated`].
    times: u16,
    /// Takes the file along that is its first argument: it is closed when the call is over.
    closes: bool,
    /// While it is under way or done.
    node: Option<&'static Node>,
    /// What the call works on. `None` when it is over.
    payload: Option<P>,
    _pinned: PhantomPinned,
}

const _: () = assert!(size_of::<AsyncCall<super::Fill>>() == 64);

/// A key of the program's for a call, and the coroutine that is to be woken.
#[derive(Clone, Copy, Debug)]
struct Name {
    key: u64,
    waits: CoroutineId,
}

impl<P: Payload> AsyncCall<P> {
    /// Creates the call with this number.
    ///
    /// `payload` puts the memory that it works on into the arguments.
    #[inline]
    pub(crate) fn new(call: usize, arguments: [usize; 3], payload: P) -> Self {
        Self {
            arguments,
            call: call as u16,
            times: 1,
            closes: false,
            node: None,
            payload: Some(payload),
            _pinned: PhantomPinned,
        }
    }

    /// Returns the same call made `times` times, from 1 to [`ENTRIES`](super::ENTRIES), with memory
    /// of [`STRIDE`](super::shared::STRIDE) bytes each, one behind the other.
    ///
    /// Completes when all have; the result is the last one's.
    pub(super) fn repeated(mut self, times: u32) -> Self {
        self.times = times as u16;
        self
    }

    /// Closes the file with which the call works when that is done, however it ends.
    #[inline]
    pub(super) fn then_close(mut self) -> Self {
        self.closes = true;
        self
    }

    /// Returns the call under a key of the program's own, for the coroutine `waits`: see
    /// [`crate::calls`].
    ///
    /// A key that another call has makes this one fail.
    ///
    /// # Panics
    /// If the key is 2⁶³ or more.
    pub fn named(self, key: u64, waits: CoroutineId) -> NamedCall<P> {
        assert!(key >> 63 == 0, "a key is below 2⁶³");
        NamedCall {
            call: self,
            name: Name { key, waits },
        }
    }

    /// Ends the call.
    ///
    /// Returns its output if it had been done by then, or in part. `None` means that it has done
    /// nothing.
    ///
    /// Dropping the future ends the call as well, but loses what a call had done unseen.
    pub fn cancel(self: Pin<&mut Self>) -> Option<P::Output> {
        // SAFETY: nothing is moved that has to stay: the payload may lie elsewhere once its call is
        // over.
        let this = unsafe { self.get_unchecked_mut() };
        match this.end() {
            Ended::Completed(result) => Some(this.payload.take()?.finish(result)),
            ended => {
                if let Some(payload) = this.payload.take() {
                    payload.undo(&this.arguments, ended);
                }
                None
            }
        }
    }

    /// Ends the call for us.
    fn end(&mut self) -> Ended {
        let Some(node) = self.node.take() else {
            return Ended::Unseen;
        };
        // A child of the process has other rings, or none: its parent's calls are not its own.
        match Ring::of(node) {
            None => Ended::Unseen,
            Some(ring) => {
                let ended = match node.result() {
                    Some(result) => Ended::Completed(result),
                    None => ring.withdraw(node, self.times.into()),
                };
                ring.forget(node);
                ended
            }
        }
    }

    #[inline]
    fn poll_as(&mut self, context: &Context<'_>, name: Option<Name>) -> Poll<P::Output> {
        let Some(node) = self.node else {
            return self.submit(context, name);
        };
        match node.result() {
            None => {
                wait(node, context, name);
                Poll::Pending
            }
            Some(result) => {
                self.end();
                self.give_back(result)
            }
        }
    }

    fn submit(&mut self, context: &Context<'_>, name: Option<Name>) -> Poll<P::Output> {
        let payload = self.payload.as_mut();
        let payload = payload.expect("an asynchronous call was polled after it was over");
        let mut request = Request {
            call: self.call.into(),
            arguments: self.arguments,
        };
        payload.place(&mut request.arguments);
        let ring = Ring::here();
        let Some(node) = ring.node(name.map(|name| name.key)) else {
            return self.give_back(FAILED);
        };
        wait(node, context, name);
        ring.submit(node, request, self.times.into(), self.closes);
        self.node = Some(node);
        Poll::Pending
    }

    fn give_back(&mut self, result: isize) -> Poll<P::Output> {
        let payload = self.payload.take().expect("it is given back once");
        Poll::Ready(payload.finish(result))
    }
}

/// Registers the coroutine that waits from now on.
#[inline]
fn wait(node: &'static Node, context: &Context<'_>, name: Option<Name>) {
    match name {
        None => node.listener().wait(context),
        // If that coroutine has exited, no waiter is left to be woken.
        Some(name) => drop(node.listener().wait_as(name.waits)),
    }
}

impl<P: Payload> Future for AsyncCall<P> {
    type Output = P::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: nothing is moved that has to stay (see `cancel`).
        unsafe { self.get_unchecked_mut() }.poll_as(context, None)
    }
}

impl<P: Payload> Drop for AsyncCall<P> {
    #[inline]
    fn drop(&mut self) {
        // Without it the call is over.
        if let Some(payload) = self.payload.take() {
            self.give_up(payload);
        }
    }
}

impl<P: Payload> AsyncCall<P> {
    #[cold]
    fn give_up(&mut self, payload: P) {
        if self.node.is_some() {
            let ended = self.end();
            payload.undo(&self.arguments, ended);
        } else if self.closes {
            // Never submitted.
            drop(OwnedFd::from_number(self.arguments[0]));
        }
    }
}

/// An [`AsyncCall`] under a key of the program's own: `read!(file, buffer, key, cid)`.
#[derive(Debug)]
#[must_use = "a call is made when its future is first polled"]
pub struct NamedCall<P: Payload> {
    call: AsyncCall<P>,
    name: Name,
}

impl<P: Payload> NamedCall<P> {
    /// Cancels the call, as [`AsyncCall::cancel`] does.
    pub fn cancel(self: Pin<&mut Self>) -> Option<P::Output> {
        // SAFETY: pinned with the value.
        unsafe { self.map_unchecked_mut(|named| &mut named.call) }.cancel()
    }
}

impl<P: Payload> Future for NamedCall<P> {
    type Output = P::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: as in `AsyncCall::poll`.
        let this = unsafe { self.get_unchecked_mut() };
        this.call.poll_as(context, Some(this.name))
    }
}
