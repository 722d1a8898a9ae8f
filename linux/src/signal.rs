//! Signals of the operating system, as a stream.
//!
//! ```no_run
//! use corank_linux::signal::{Signal, Signals};
//!
//! # async fn serve() {}
//! #[corank_linux::main]
//! async fn main() -> std::io::Result<()> {
//!     // From here on these signals do not end the program.
//!     let mut signals = Signals::new([Signal::INT, Signal::TERM])?;
//!     let server = corank_linux::spawn(corank_linux::Priority::DEFAULT, serve());
//!     println!("{:?}: the server ends", signals.recv().await);
//!     drop(server);
//!     Ok(())
//! }
//! ```
//!
//! # What is promised
//! - Each [`Signals`] receives each of its signals that comes after [`new`](Signals::new), however
//!   many `Signals` and runtimes there are, and whatever other crates do with the crate
//!   `signal-hook`.
//! - As in the kernel, signals of one kind that come faster than they are received count as one. It
//!   is received at least once after the last of them. No kind displaces another.
//! - A kind of signal that was once listened to has no default action any more in this process,
//!   also when all `Signals` are dropped. Child processes have it again.
//! - Signals that come while a runtime is busy are noticed as other events are (see [the
//!   crate](crate#what-is-promised)).

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
use signal_hook::low_level::{pipe as write_on_signal, unregister};

use crate::async_fd::Async;

/// Names a kind of signal: `Signal::INT`, `Signal::TERM`, …
pub use rustix::process::Signal;

/// Waits for signals of some kinds; also a [`Stream`] of them, which never ends.
///
/// Takes a pipe, and one more descriptor for each kind.
pub struct Signals {
    kinds: Vec<Listener>,
    /// The first kind to test: the one after the kind that was received last, so that many signals
    /// of one kind hide no other.
    next: usize,
    /// Has a byte if a signal has come since it was read.
    wakeups: Async<File>,
}

/// The actions of a signal's handler until this is dropped: set `came`, then write to the pipe.
struct Listener {
    kind: Signal,
    came: Arc<AtomicBool>,
    actions: Vec<SigId>,
}

impl Listener {
    fn new(kind: Signal, wakeups: &OwnedFd) -> io::Result<Self> {
        if FORBIDDEN.contains(&kind.as_raw()) {
            let message = format!("{kind:?} cannot be listened to");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let mut listener = Self {
            kind,
            came: Arc::default(),
            actions: Vec::with_capacity(2),
        };
        let wakeups = wakeups.try_clone()?;
        let set = signal_hook::flag::register(kind.as_raw(), listener.came.clone())?;
        listener.actions.push(set);
        listener
            .actions
            .push(write_on_signal::register(kind.as_raw(), wakeups)?);
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
    /// Fails for `KILL`, `STOP`, `SEGV`, `ILL` and `FPE`, which cannot be listened to
    /// (`InvalidInput`). Also fails without descriptors, and outside of a runtime. Then it listens
    /// to nothing, but the default action of a kind may be off already.
    pub fn new(kinds: impl IntoIterator<Item = Signal>) -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let wakeups = Async::of_non_blocking(File::from(read))?;
        let kinds = kinds.into_iter().map(|kind| Listener::new(kind, &write));
        Ok(Self {
            kinds: kinds.collect::<io::Result<_>>()?,
            next: 0,
            wakeups,
        })
    }

    /// Waits for the next signal. Dropping the future loses none.
    pub async fn recv(&mut self) -> Signal {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls as [`recv`](Self::recv) does, for a future written by hand.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Signal> {
        loop {
            if let Some(kind) = self.take() {
                return Poll::Ready(kind);
            }
            // A byte was written after its flag was set, so the flags are tested again; a flag that
            // is set later is followed by a later byte.
            let read = |mut pipe: &File| pipe.read(&mut [0; 64]);
            let Ok(1..) = ready!(self.wakeups.poll_read_with(cx, read)) else {
                // The other end is closed: there are no kinds, and no signal will come.
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

/// Waits for Ctrl-C in the program's terminal (`SIGINT`).
///
/// It begins to listen when it is first polled. To listen from an earlier moment on, create
/// [`Signals`] then.
///
/// # Errors
/// Fails as [`Signals::new`] does.
pub async fn ctrl_c() -> io::Result<()> {
    Signals::new([Signal::INT])?.recv().await;
    Ok(())
}
