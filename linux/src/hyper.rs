//! hyper's runtime traits (feature `hyper`).
//!
//! [`TcpStream`] and [`UnixStream`] implement hyper's I/O. [`Spawner`] is its executor, and
//! [`Timer`] its timer.
//!
//! ```
//! use corank_linux::{Priority, at, net::TcpListener, spawn};
//! use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
//!
//! async fn serve(listener: TcpListener) -> std::io::Result<()> {
//!     loop {
//!         let stream = match listener.accept().await {
//!             Ok((stream, _)) => stream,
//!             Err(error) => {
//!                 eprintln!("accept: {error}");
//!                 continue;
//!             }
//!         };
//!         let answer = service_fn(|request: Request<Incoming>| {
//!             // Reports take long; all other requests go first.
//!             let is_report = request.uri().path().starts_with("/report");
//!             let level = if is_report { Priority::BULK } else { Priority::at::<16>() };
//!             at(level, async move {
//!                 Ok::<_, std::convert::Infallible>(Response::new(format!("hello, {}\n", request.uri())))
//!             })
//!         });
//!         let connection = http1::Builder::new().serve_connection(stream, answer);
//!         spawn(Priority::at::<16>(), connection)?;
//!     }
//! }
//! ```

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use corank::Priority;
use futures_io::AsyncWrite;
use hyper::rt::{Executor, Read, ReadBufCursor, Write};

use crate::handle::spawn;
use crate::net::{TcpStream, UnixStream};
use crate::time;

/// Implements hyper's executor: spawns the further coroutines of a connection, all on one level.
#[derive(Clone, Copy, Debug)]
pub struct Spawner(pub Priority);

impl<F> Executor<F> for Spawner
where
    F: Future<Output: Send> + Send + 'static,
{
    /// # Panics
    /// Panics if nothing can be spawned: hyper's trait has no error.
    fn execute(&self, future: F) {
        drop(spawn(self.0, future).expect("hyper spawns in a runtime that has room"));
    }
}

/// Implements hyper's timer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timer;

/// Implements hyper's sleep.
struct Sleep(time::Sleep);

// SAFETY: a shared reference allows no operation, because polling and dropping need exclusive
// access.
unsafe impl Sync for Sleep {}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the sleep is pinned with its wrapper.
        unsafe { self.map_unchecked_mut(|this| &mut this.0) }.poll(cx)
    }
}

impl hyper::rt::Sleep for Sleep {}

impl hyper::rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(Sleep(time::sleep(duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(Sleep(time::sleep_until(deadline)))
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Resets the sleep in place, without an allocation.
    fn reset(&self, sleep: &mut Pin<Box<dyn hyper::rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(mut sleep) => sleep.set(Sleep(time::sleep_until(deadline))),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

macro_rules! streams {
    ($($stream:ty),*) => {$(
        impl Read for $stream {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                mut buffer: ReadBufCursor<'_>,
            ) -> Poll<io::Result<()>> {
                // SAFETY: the kernel writes into the buffer and does not read it. It makes no byte
                // uninitialised.
                let room = unsafe { buffer.as_mut() };
                self.poll_read_into(cx, room).map_ok(|count| {
                    // SAFETY: the kernel has written this many bytes at the beginning.
                    unsafe { buffer.advance(count) }
                })
            }
        }

        impl Write for $stream {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                AsyncWrite::poll_write(self, cx, bytes)
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                AsyncWrite::poll_flush(self, cx)
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                AsyncWrite::poll_close(self, cx)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buffers: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                AsyncWrite::poll_write_vectored(self, cx, buffers)
            }
        }
    )*};
}

streams!(TcpStream, UnixStream);
