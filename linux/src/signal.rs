//! Signals of the operating system, as a stream.
//!
//! ```no_run
//! use corank_linux::signal::{Signal, Signals};
//!
//! # async fn serve() {}
//! #[corank_linux::main]
//! async fn main() -> std::io::Result<()> {
//!     // From here on they don't end the program any more.
//!     let mut signals = Signals::new([Signal::INT, Signal::TERM])?;
//!     let server = corank_linux::spawn(corank_linux::Priority::DEFAULT, serve());
//!     println!("{:?}: the server ends", signals.recv().await);
//!     drop(server);
//!     Ok(())
//! }
//! ```
//!
//! # What is promised
//! - Each [`Signals`] gets every one of its signals that comes after [`new`](Signals::new), however many there are, in however many
//!   runtimes, and whatever other crates do with the crate `signal-hook`.
//! - As with the kernel itself, signals of one kind that come faster than they are received are one: it is received at least once after the
//!   last of them has come. None displaces one of another kind.
//! - A kind of signal that was once listened to doesn't have its default action any more in this process, also when all `Signals` are
//!   dropped. Child processes have it again.
//! - Signals that come while a runtime is busy are noticed as other events are (see [the crate](crate#what-is-promised)).

use std::future::poll_fn;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::{fmt, fs::File};

use futures_core::Stream;
use rustix::pipe::{PipeFlags, pipe_with};
use signal_hook::SigId;
use signal_hook::consts::FORBIDDEN;
use signal_hook::low_level::{pipe as tell, unregister};

use crate::async_fd::Async;

/// The kind of a signal: `Signal::INT`, `Signal::TERM`, …
pub use rustix::process::Signal;

/// Waits for signals of some kinds. Also a [`Stream`] of them, which never ends.
///
/// Costs a pipe, and a descriptor more for each kind.
pub struct Signals {
    kinds: Vec<Listener>,
    /// Where to look first: after the kind that was received last, so that a storm of one hides no other.
    next: usize,
    /// Has a byte when a signal has come since it was read.
    news: Async<File>,
}

/// What a signal's handler does, until this is dropped: first sets `came`, then writes to the pipe.
struct Listener {
    kind: Signal,
    came: Arc<AtomicBool>,
    actions: Vec<SigId>,
}

impl Listener {
    fn new(kind: Signal, news: &OwnedFd) -> io::Result<Self> {
        if FORBIDDEN.contains(&kind.as_raw()) {
            let message = format!("{kind:?} cannot be listened to");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let mut listener = Self {
            kind,
            came: Arc::default(),
            actions: Vec::with_capacity(2),
        };
        let news = news.try_clone()?;
        let set = signal_hook::flag::register(kind.as_raw(), listener.came.clone())?;
        listener.actions.push(set);
        listener.actions.push(tell::register(kind.as_raw(), news)?);
        Ok(listener)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        for &action in &self.actions {
            unregister(action);
        }
    }
}

impl Signals {
    /// Listens to signals of these kinds from now on.
    ///
    /// # Errors
    /// `KILL`, `STOP`, `SEGV`, `ILL` and `FPE` cannot be listened to (`InvalidInput`); no descriptors; outside a runtime. Nothing is listened
    /// to then, but a kind's default action may be off already.
    pub fn new(kinds: impl IntoIterator<Item = Signal>) -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let news = Async::of_non_blocking(File::from(read))?;
        let kinds = kinds.into_iter().map(|kind| Listener::new(kind, &write));
        Ok(Self {
            kinds: kinds.collect::<io::Result<_>>()?,
            next: 0,
            news,
        })
    }

    /// The next signal. Dropping the future loses none.
    pub async fn recv(&mut self) -> Signal {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// As [`recv`](Self::recv), for a future written by hand.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Signal> {
        loop {
            if let Some(kind) = self.take() {
                return Poll::Ready(kind);
            }
            // What is read here was written after a flag was set, so the flags are asked again; and what is set later is written later.
            let read = |mut pipe: &File| pipe.read(&mut [0; 64]);
            let Ok(1..) = ready!(self.news.poll_read_with(cx, read)) else {
                // The other end is closed: there are no kinds, and nothing will come.
                return Poll::Pending;
            };
        }
    }

    fn take(&mut self) -> Option<Signal> {
        let count = self.kinds.len();
        let at = (self.next..self.next + count)
            .map(|at| at % count)
            .find(|&at| self.kinds[at].came.swap(false, Ordering::SeqCst))?;
        self.next = at + 1;
        Some(self.kinds[at].kind)
    }
}

impl Stream for Signals {
    type Item = Signal;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Signal>> {
        self.poll_recv(cx).map(Some)
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.kinds.iter().map(|listener| listener.kind);
        f.debug_set().entries(kinds).finish()
    }
}

/// Waits for Ctrl-C in the program's terminal (`SIGINT`). To be notified from a certain moment on, make [`Signals`] then: this begins to listen when
/// it is first polled.
///
/// # Errors
/// As [`Signals::new`].
pub async fn ctrl_c() -> io::Result<()> {
    Signals::new([Signal::INT])?.recv().await;
    Ok(())
}
