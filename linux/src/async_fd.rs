//! Any file descriptor that can be waited for, as a source of readiness.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::io::ioctl_fionbio;

use crate::handle;
use crate::reactor::Reactor;
use crate::readiness::{Readiness, Seen};
use crate::sources::{Source, Token};

/// Registers a non-blocking descriptor with the current runtime; it may be used and dropped on any
/// thread.
///
/// The sockets and pipes of this crate are built on it. Use it for descriptors of other kinds: a
/// device, an inotify instance, the socket of a library.
///
/// Any number of coroutines may wait for one descriptor. Each event wakes all that wait in its
/// direction.
pub struct Async<T: AsFd> {
    /// Taken out by `into_inner`.
    io: ManuallyDrop<T>,
    registration: Registration,
}

/// The registration of a descriptor, in both directions.
struct Registration {
    reactor: Arc<Reactor>,
    token: Token,
}

impl<T: AsFd> Async<T> {
    /// Makes the descriptor non-blocking, and registers it.
    ///
    /// # Errors
    /// Fails outside of a runtime, and without memory or watches. Also fails for descriptors that
    /// cannot be waited for, such as files (`EPERM`).
    pub fn new(io: T) -> io::Result<Self> {
        ioctl_fionbio(&io, true)?;
        Self::of_non_blocking(io)
    }

    /// Registers a descriptor that is known not to block.
    pub(crate) fn of_non_blocking(io: T) -> io::Result<Self> {
        // Tried at once: a connection that has just been accepted mostly has data to read, and can
        // be written to.
        Self::register(io, true)
    }

    /// Registers a socket that is being connected: it is neither readable nor writable before the
    /// kernel reports that.
    pub(crate) fn of_connecting(io: T) -> io::Result<Self> {
        Self::register(io, false)
    }

    fn register(io: T, ready: bool) -> io::Result<Self> {
        let reactor = handle::reactor()?;
        let token = reactor.register(&io, ready)?;
        Ok(Self {
            io: ManuallyDrop::new(io),
            registration: Registration { reactor, token },
        })
    }

    fn source(&self) -> &Source {
        self.registration.reactor.source(self.registration.token)
    }

    /// Returns the descriptor.
    ///
    /// Keep it non-blocking: otherwise it blocks the worker and its other coroutines.
    pub fn get_ref(&self) -> &T {
        &self.io
    }

    /// Returns the descriptor and ends its registration. It is still non-blocking.
    pub fn into_inner(self) -> T {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped and not used again, so both are taken once.
        let io = unsafe { ManuallyDrop::take(&mut this.io) };
        // SAFETY: as above. The registration has no destructor that would end it.
        let registration = unsafe { std::ptr::read(&this.registration) };
        registration.end(&io);
        io
    }

    /// Calls `attempt` until it does not return `WouldBlock`; waits for data to read in between.
    ///
    /// # Errors
    /// Returns the errors of `attempt`; [`OutOfMemory`](io::ErrorKind::OutOfMemory) if other
    /// coroutines wait too and there is no memory.
    pub async fn read_with<R>(
        &self,
        mut attempt: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        poll_fn(|cx| self.poll_read_with(cx, &mut attempt)).await
    }

    /// Calls `attempt` as [`read_with`](Self::read_with) does, for writing.
    ///
    /// # Errors
    /// Returns the errors of `attempt`.
    pub async fn write_with<R>(
        &self,
        mut attempt: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        poll_fn(|cx| self.poll_write_with(cx, &mut attempt)).await
    }

    /// Polls as [`read_with`](Self::read_with) does, for a future written by hand.
    ///
    /// # Errors
    /// Returns the errors of `attempt`.
    pub fn poll_read_with<R>(
        &self,
        cx: &mut Context<'_>,
        attempt: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_with(&self.source().read, cx, attempt)
    }

    /// Polls as [`write_with`](Self::write_with) does, for a future written by hand.
    ///
    /// # Errors
    /// Returns the errors of `attempt`.
    pub fn poll_write_with<R>(
        &self,
        cx: &mut Context<'_>,
        attempt: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_with(&self.source().write, cx, attempt)
    }

    fn poll_with<R>(
        &self,
        direction: &Readiness,
        cx: &mut Context<'_>,
        mut attempt: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        loop {
            let seen = ready!(poll_attempt(direction, cx))?;
            match attempt(&self.io) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => direction.clear(seen),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return Poll::Ready(result),
            }
        }
    }

    /// Reads from a TCP stream.
    ///
    /// A read that does not fill the buffer has taken all data, so the next one waits for an event
    /// without a system call that would find nothing.
    pub(crate) fn poll_read_stream(
        &self,
        cx: &mut Context<'_>,
        room: usize,
        mut read: impl FnMut(&T) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let direction = &self.source().read;
        loop {
            let seen = ready!(poll_attempt(direction, cx))?;
            match read(&self.io) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => direction.clear(seen),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => {
                    if matches!(result, Ok(count) if count > 0 && count < room) {
                        direction.suppose_clear(seen);
                    }
                    return Poll::Ready(result);
                }
            }
        }
    }

    /// Waits until an attempt to read may succeed.
    ///
    /// It may find nothing: then use [`read_with`](Self::read_with).
    ///
    /// # Errors
    /// Fails if other coroutines wait too and there is no memory for one more.
    pub async fn readable(&self) -> io::Result<()> {
        let ready = poll_fn(|cx| self.source().read.poll_ready(cx)).await;
        ready.map(drop)
    }

    /// Waits as [`readable`](Self::readable) does, for writing.
    ///
    /// # Errors
    /// Fails as [`readable`](Self::readable) does.
    pub async fn writable(&self) -> io::Result<()> {
        let ready = poll_fn(|cx| self.source().write.poll_ready(cx)).await;
        ready.map(drop)
    }
}

/// Returns ready if an attempt may succeed and the coroutine has budget left.
fn poll_attempt(direction: &Readiness, cx: &Context<'_>) -> Poll<io::Result<Seen>> {
    let seen = ready!(direction.poll_ready(cx));
    corank::poll_proceed(cx).map(|()| seen)
}

impl Registration {
    fn end(&self, descriptor: impl AsFd) {
        self.reactor.deregister(self.token, descriptor);
    }
}

impl<T: AsFd> Drop for Async<T> {
    fn drop(&mut self) {
        self.registration.end(&*self.io);
        // SAFETY: dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.io) }
    }
}

impl<T: AsFd> AsFd for Async<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

impl<T: AsFd + fmt::Debug> fmt::Debug for Async<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Async").field(&*self.io).finish()
    }
}
