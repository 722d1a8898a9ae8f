//! One connection: one request after another.
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::time::Duration;

use corank_http::answer::Status;
use corank_http::request::{self, HEAD_LIMIT, Refusal, Scanned, Scanner};
use corank_user::corank::{self, time};
use corank_user::net::TcpStream;
use corank_user::{Priority, println};

use crate::answer::{self, Answered};
use crate::server::{Permit, Server};
use crate::wire::{Broken, Came, Wire};

/// A client's connection.
struct Connection {
    permit: Permit,
    wire: Wire,
    /// Bytes that have arrived and were not served yet.
    input: Vec<u8>,
    /// Tells whether the connection has got no answer yet.
    is_new: bool,
}

/// Result of waiting for a request.
enum Awaited {
    /// The request's head has this many bytes.
    Head(usize),
    Refused(Status),
    /// There will be no request.
    Nothing,
}

/// Serves a connection to its end.
pub(crate) async fn run(permit: Permit, stream: TcpStream) {
    let server = permit.server().clone();
    let mut input = Vec::new();
    let wire = Wire::new(stream, server.options.send_limit);
    let (Ok(wire), Ok(())) = (wire, input.try_reserve_exact(HEAD_LIMIT)) else {
        return;
    };
    let mut connection = Connection {
        permit,
        wire,
        input,
        is_new: true,
    };
    if connection.serve(&server).await.is_err() {
        connection.wire.reset();
    }
}

/// Sets the level of this coroutine from now on.
fn set_level(level: Priority) {
    if let Some(this) = corank::current() {
        corank::reprioritize(this, level);
    }
}

impl Connection {
    async fn serve(&mut self, server: &Rc<Server>) -> Result<(), Broken> {
        loop {
            set_level(server.intake);
            let length = match self.next_head(server).await {
                Awaited::Nothing => return Ok(()),
                Awaited::Refused(status) => return self.refuse(server, status.into(), "-").await,
                Awaited::Head(length) => length,
            };
            let request = match request::parse(&self.input[..length]) {
                Ok(request) => request,
                Err(refusal) => return self.refuse(server, refusal, "-").await,
            };
            let level = Priority::new(server.options.levels.of(&request.path));
            set_level(level.unwrap_or(Priority::LEAST_URGENT));
            server.pass().await;
            let goes_on = request.keep_alive && !server.is_short_of_room();
            let Answered { status, keep_alive } =
                answer::answer(&mut self.wire, server, &request, goes_on).await?;
            self.is_new = false;
            note(server, status, &request.path);
            let body = request.body;
            if !keep_alive {
                self.wire.linger().await;
                return Ok(());
            }
            self.input.drain(..length);
            self.discard(server, body).await?;
        }
    }

    /// Waits for a whole head.
    async fn next_head(&mut self, server: &Server) -> Awaited {
        let mut scanner = Scanner::new();
        let mut deadline = None;
        loop {
            match scanner.scan(&self.input) {
                Scanned::Complete(length) => return Awaited::Head(length),
                Scanned::Refused(status) => return Awaited::Refused(status),
                Scanned::Incomplete => {}
            }
            // A connection is idle if it has been served and has sent nothing of another request. A
            // new connection has the time of a request.
            let is_idle = !self.is_new && !scanner.has_begun();
            let came = if is_idle {
                let idle = self.permit.idle();
                let limit = server.options.idle_limit;
                self.wire.receive(limit, Some(&idle.unwanted)).await
            } else {
                let deadline = *deadline
                    .get_or_insert_with(|| time::now() + nanoseconds(server.options.request_limit));
                let left = Duration::from_nanos(deadline.saturating_sub(time::now()));
                self.wire.receive(left, None).await
            };
            match came {
                Came::More => self.input.extend_from_slice(self.wire.bytes()),
                Came::Late if scanner.has_begun() => {
                    return Awaited::Refused(Status::REQUEST_TIMEOUT);
                }
                Came::End | Came::Late | Came::Unwanted => return Awaited::Nothing,
            }
        }
    }

    /// Answers input that is no request, and ends the connection.
    async fn refuse(
        &mut self,
        server: &Server,
        refusal: Refusal,
        path: &str,
    ) -> Result<(), Broken> {
        answer::refuse(&mut self.wire, refusal).await?;
        note(server, refusal.status, path);
        self.wire.linger().await;
        Ok(())
    }

    /// Throws away the body of the request that was answered.
    async fn discard(&mut self, server: &Server, body: u64) -> Result<(), Broken> {
        let deadline = time::now() + nanoseconds(server.options.request_limit);
        let mut left = body;
        loop {
            let here = self
                .input
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            self.input.drain(..here);
            left -= here as u64;
            if left == 0 {
                return Ok(());
            }
            let time = Duration::from_nanos(deadline.saturating_sub(time::now()));
            match self.wire.receive(time, None).await {
                Came::More => self.input.extend_from_slice(self.wire.bytes()),
                _ => return Err(Broken),
            }
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Notes that an answer is done.
fn note(server: &Server, status: Status, path: &str) {
    server.answered.set(server.answered.get() + 1);
    if server.options.log {
        println!("{} {}", status.number(), path.escape_debug());
    }
}
