//! The bounds of the agent's work for others, however often they connect and whatever they send.

use crate::claim::Nanoseconds;
use crate::handshake::Refusal;
use std::io;
use std::time::Duration;

/// The number of connections that are accepted in each [`PAUSE`], whether they come together or one
/// by one.
pub(crate) const CONNECTIONS: usize = 32;
/// The time for which no connection is accepted after [`CONNECTIONS`] of them, and after an error.
///
/// After an error, descriptors or memory have run out, and the socket stays readable.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);
/// The number of refused processes for which there is a warning in a period.
///
/// For more than that, only their number is reported.
const WARNINGS: u32 = 8;

/// Decides when connections are accepted, and what is warned of.
#[derive(Default)]
pub(crate) struct Throttle {
    /// The time until which no connection is accepted.
    paused_until: Nanoseconds,
    /// The time when counting of connections began, and how many there were since.
    counted_from: Nanoseconds,
    connections: usize,
    /// The number of refusals since the period began.
    refusals: u32,
    warned_of_connections: bool,
    warned_of_shortage: bool,
}

impl Throttle {
    /// Accepts nothing for [`PAUSE`].
    pub(crate) fn pause(&mut self, now: Nanoseconds) {
        self.paused_until = now + PAUSE.as_nanos() as Nanoseconds;
    }

    /// Returns how long the pause still lasts; `None` if connections are accepted.
    pub(crate) fn pause_left(&self, now: Nanoseconds) -> Option<Duration> {
        let left = self.paused_until.saturating_sub(now);
        (left > 0).then(|| Duration::from_nanos(left))
    }

    /// Tests whether another connection may be accepted before the next pause.
    pub(crate) fn accepts(&mut self, now: Nanoseconds) -> bool {
        if now.saturating_sub(self.counted_from) >= PAUSE.as_nanos() as Nanoseconds {
            (self.counted_from, self.connections) = (now, 0);
        }
        self.connections < CONNECTIONS
    }

    /// Counts a connection, whatever becomes of it.
    pub(crate) fn connected(&mut self) {
        self.connections += 1;
    }

    /// Notes that descriptors and memory are available again.
    pub(crate) fn accepted(&mut self) {
        self.warned_of_shortage = false;
    }

    /// Begins another period of warnings.
    pub(crate) fn begin_period(&mut self) {
        let unsaid = self.refusals.saturating_sub(WARNINGS);
        if unsaid > 0 {
            tracing::warn!("{unsaid} more processes in the domain were ignored within a second");
        }
        self.refusals = 0;
    }

    /// Warns of a process that is not let in.
    pub(crate) fn warn(&mut self, process: u32, refusal: &Refusal) {
        match refusal {
            Refusal::Gone => {}
            Refusal::System(error) => {
                self.warn_of_shortage(io::Error::new(error.kind(), error.to_string()))
            }
            Refusal::TooManyConnections { .. } if self.warned_of_connections => {}
            refusal => {
                self.warned_of_connections |= matches!(refusal, Refusal::TooManyConnections { .. });
                self.refusals = self.refusals.saturating_add(1);
                if self.refusals <= WARNINGS {
                    tracing::warn!("process {process} in the domain is ignored: {refusal}");
                }
            }
        }
    }

    /// Warns once that processes have to wait, until one is accepted.
    pub(crate) fn warn_of_shortage(&mut self, error: io::Error) {
        if !self.warned_of_shortage {
            tracing::warn!("processes that join the domain wait: {error}");
            self.warned_of_shortage = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_accepted_during_a_pause() {
        let mut throttle = Throttle::default();
        assert_eq!(throttle.pause_left(7), None);
        throttle.pause(7);
        assert_eq!(throttle.pause_left(7), Some(PAUSE));
        assert_eq!(throttle.pause_left(7 + PAUSE.as_nanos() as u64), None);
    }

    #[test]
    fn connections_that_come_one_by_one_count() {
        let mut throttle = Throttle::default();
        let pause = PAUSE.as_nanos() as Nanoseconds;
        for _ in 0..CONNECTIONS {
            assert!(throttle.accepts(pause));
            throttle.connected();
        }
        assert!(!throttle.accepts(2 * pause - 1));
        assert!(throttle.accepts(2 * pause));
    }
}
