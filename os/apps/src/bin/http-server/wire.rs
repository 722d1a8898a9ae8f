//! Bytes to a client and from it, within time limits.
use alloc::vec::Vec;
use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

use corank_user::corank::sync::Event;
use corank_user::corank::time::timeout;
use corank_user::net::{self, TcpStream};

/// Bytes of a file that are in memory at a time.
pub(crate) const PIECE: usize = 16 << 10;
/// Room for the head of an answer.
const HEAD: usize = 2 << 10;
/// Bytes that are read of a request at a time.
const READ: usize = 2 << 10;

/// Error: nothing more can be sent to this client, or read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// Result of waiting for bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// Bytes.
    More,
    /// The client will send nothing more, or the connection is broken.
    End,
    /// Nothing within the time limit.
    Late,
    /// Nothing, and the wait is not wanted any more.
    Unwanted,
}

/// One client's connection.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    send_limit: Duration,
    /// Bytes that are to be sent next.
    pub(crate) out: Vec<u8>,
    /// Bytes that were read last.
    ///
    /// It has no capacity if a read was given up, because the memory went with it.
    read: Vec<u8>,
}

/// Returns a buffer of this size: the old one if it has it.
fn sized(buffer: Vec<u8>, size: usize) -> Result<Vec<u8>, Broken> {
    if buffer.capacity() == size {
        return Ok(buffer);
    }
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(size).map_err(|_| Broken)?;
    Ok(buffer)
}

/// Waits for `wanted`, unless the event comes first.
async fn unless<T>(event: Option<&Event>, wanted: impl Future<Output = T>) -> Option<T> {
    let Some(event) = event else {
        return Some(wanted.await);
    };
    let mut wanted = pin!(wanted);
    let mut comes = pin!(event.wait());
    poll_fn(|context| {
        if let Poll::Ready(output) = wanted.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        comes.as_mut().poll(context).map(|()| None)
    })
    .await
}

impl Wire {
    /// Creates a connection, each [`PIECE`] of which must be taken within `send_limit`.
    ///
    /// # Errors
    /// There is no memory for its buffers.
    pub(crate) fn new(stream: TcpStream, send_limit: Duration) -> Result<Self, Broken> {
        Ok(Self {
            stream,
            send_limit,
            out: sized(Vec::new(), HEAD + PIECE)?,
            read: sized(Vec::new(), READ)?,
        })
    }

    /// Waits for bytes, for at most `limit`, and until `unwanted` happens.
    ///
    /// Then they are in [`bytes`](Self::bytes).
    pub(crate) async fn receive(&mut self, limit: Duration, unwanted: Option<&Event>) -> Came {
        let Ok(buffer) = sized(core::mem::take(&mut self.read), READ) else {
            return Came::End;
        };
        let read = unless(unwanted, self.stream.read(buffer));
        match timeout(limit, read).await {
            Err(_) => Came::Late,
            Ok(None) if self.has_more() => Came::More,
            Ok(None) => Came::Unwanted,
            Ok(Some((count, buffer))) => {
                self.read = buffer;
                match count {
                    Ok(1..) => Came::More,
                    _ => Came::End,
                }
            }
        }
    }

    /// Tests whether bytes wait in the kernel.
    fn has_more(&self) -> bool {
        net::status_of(**self.stream).is_ok_and(|status| status.waiting > 0)
    }

    /// Returns what has come last; nothing if it still waits in the kernel.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.read
    }

    /// Sends all of [`out`](Self::out), and empties it.
    ///
    /// # Errors
    /// The client is gone, or too slow.
    pub(crate) async fn flush(&mut self) -> Result<(), Broken> {
        let out = core::mem::take(&mut self.out);
        self.out = self.send(out).await?;
        self.out.clear();
        Ok(())
    }

    /// Sends `data`, and gives the buffer back.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub(crate) async fn send(&self, data: Vec<u8>) -> Result<Vec<u8>, Broken> {
        let sent = timeout(self.send_limit, self.stream.write_all(data)).await;
        sent.ok().and_then(Result::ok).ok_or(Broken)
    }

    /// Ends the connection at once: nothing of it stays in the kernel.
    pub(crate) fn reset(self) {
        self.stream.reset();
    }

    /// Ends the connection so that the client can read all of the last answer.
    ///
    /// If it were closed with bytes unread, it would be reset, and the reset may overtake the
    /// answer. A client that goes on sending has a bounded time, and a bounded number of bytes.
    pub(crate) async fn linger(&mut self) {
        const ROUNDS: usize = 64;
        const LIMIT: Duration = Duration::from_secs(2);
        if self.stream.shutdown().is_err() {
            return;
        }
        let rounds = async {
            for _ in 0..ROUNDS {
                if self.receive(LIMIT, None).await != Came::More {
                    return;
                }
            }
        };
        let _ = timeout(LIMIT, rounds).await;
    }
}
