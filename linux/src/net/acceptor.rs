//! Accepts connections, also if peers give up early or descriptors run out.
//!
//! A connection that ends before it is accepted is passed over. When descriptors or memory have run
//! out, the connection waits in the kernel and the listener stays readable: a caller that only
//! tries again would spin. So the next attempt waits for [`PAUSE`], as after any other error.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags, acceptfrom_with};

use crate::async_fd::Async;
use crate::{handle, time};

/// Delays the next attempt after one that failed, such as for lack of descriptors or memory.
pub(super) const PAUSE: Duration = Duration::from_millis(10);
/// No pause.
const NONE: u64 = 0;

/// Accepts connections of one listener, with a pause after an error.
#[derive(Debug, Default)]
pub(super) struct Acceptor {
    /// In nanoseconds of the runtimes' clock.
    paused_until: AtomicU64,
}

impl Acceptor {
    /// Accepts the next connection; returns its address, if that is known.
    pub(super) async fn accept<L: AsFd>(
        &self,
        listener: &Async<L>,
    ) -> io::Result<(OwnedFd, Option<SocketAddrAny>)> {
        if self.paused_until.load(Ordering::Relaxed) != NONE {
            self.wait().await;
        }
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let accepted = listener.read_with(|listener| match acceptfrom_with(listener, flags) {
            Err(error) if is_of_one_connection(error) => Err(io::ErrorKind::Interrupted.into()),
            result => Ok(result?),
        });
        self.pause_after(accepted.await)
    }

    /// Pauses after an error that the next attempt would find again.
    pub(super) fn pause_after<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if result.is_err() {
            let until = time::clock().saturating_add(PAUSE.as_nanos() as u64);
            self.paused_until.store(until, Ordering::Relaxed);
        }
        result
    }

    #[cold]
    async fn wait(&self) {
        let until = self.paused_until.swap(NONE, Ordering::Relaxed);
        // Outside of coroutines nothing can sleep, and another executor has its own order.
        if handle::own_priority().is_some() {
            corank::workers::sleep_until(until).await;
        }
    }
}

/// Tests for errors of a connection that has already failed, which Linux reports in place of the
/// connection:
/// accept(2), "Error handling".
fn is_of_one_connection(error: Errno) -> bool {
    [
        Errno::CONNABORTED,
        Errno::PROTO,
        Errno::NETDOWN,
        Errno::NETUNREACH,
        Errno::HOSTDOWN,
        Errno::HOSTUNREACH,
        Errno::NONET,
        Errno::NOPROTOOPT,
        // The rules of a firewall forbid it.
        Errno::PERM,
    ]
    .contains(&error)
}
