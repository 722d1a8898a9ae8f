//! The end of the system: what programs have written goes out first.
use super::service::leads;
use super::socket::{Endpoint, Kind, Way};
use super::table::{Cursor, TABLE};
use crate::clock;
use crate::pace::checkpoint;
use alloc::sync::Arc;
use smoltcp::socket::tcp::State as Phase;

/// How long the other sides have to take what is left, in milliseconds.
const LIMIT: u64 = 2000;
/// How long the resets have to go out after that, in milliseconds.
const RESETS: u64 = 100;

/// Waits until the other sides have taken what was written and, of the connections that are closed,
/// the end.
///
/// Waits at most [`LIMIT`]. Then resets the connections that have something left. Called for the
/// end of the system, when no process is left.
pub(crate) async fn shut_down() {
    if !leads(Way::Card) {
        return;
    }
    wait_while_any(LIMIT, has_something_left).await;
    let mut next = Some(Cursor::default());
    while let Some(from) = next {
        let (some, behind) = TABLE.lock().some_from(from);
        for socket in &some {
            if has_something_left(socket) && matches!(socket.kind, Kind::Tcp { .. }) {
                let mut state = socket.state.lock();
                state.tcp().abort();
                socket.mark(&mut state);
            }
        }
        next = behind;
        checkpoint().await;
    }
    wait_while_any(RESETS, |socket| socket.state.lock().marked).await;
}

/// Waits, at most so many milliseconds, while `is_so` holds for a socket whose frames leave the
/// machine.
async fn wait_while_any(limit: u64, is_so: impl Fn(&Endpoint) -> bool) {
    let until = clock::milliseconds() + limit;
    while is_any(&is_so).await && clock::milliseconds() < until {
        clock::sleep_until(clock::after(1)).await;
    }
}

async fn is_any(is_so: impl Fn(&Endpoint) -> bool) -> bool {
    let mut next = Some(Cursor::default());
    while let Some(from) = next {
        let (some, behind) = TABLE.lock().some_from(from);
        let is_it = |socket: &Arc<Endpoint>| socket.way == Way::Card && is_so(socket);
        if some.iter().any(is_it) {
            return true;
        }
        next = behind;
        checkpoint().await;
    }
    false
}

/// Tests whether there is something of the socket that the other side has not taken: bytes, or the
/// end.
fn has_something_left(socket: &Endpoint) -> bool {
    if socket.way != Way::Card {
        return false;
    }
    let mut state = socket.state.lock();
    match socket.kind {
        Kind::Tcp { .. } => {
            let tcp = state.tcp();
            let end_is_under_way = matches!(
                tcp.state(),
                Phase::FinWait1 | Phase::Closing | Phase::LastAck
            );
            end_is_under_way || tcp.send_queue() > 0
        }
        Kind::Udp => state.udp().send_queue() > 0,
    }
}
