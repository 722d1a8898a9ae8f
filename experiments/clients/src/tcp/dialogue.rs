//! One connection's requests and answers.
//!
//! As in COPS, section 5, a connection sends a request, waits for the answer, and sends the next
//! one when the period is over, counted from the request before. An answer that is late delays the
//! next request. Under overload there is no period, and a connection may have several requests
//! under way. It sends the next one when the oldest is answered, and for all answers that have come
//! at once the next ones in one piece. So the client, which has to share this computer with the
//! machine, takes as little of it as it can. For the same reason it knows all [problems](Problems)
//! and their solutions before it begins.

use crate::problems::Problems;
use crate::stamped::Room;
use anyhow::{Context, Result, ensure};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Answers that are read at once.
const AT_ONCE: usize = 16;
/// Parts of the time in which requests are sent, in each of which answers are counted.
pub(crate) const QUARTERS: usize = 4;

/// Behaviour of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) level: u8,
    /// Time from one request to the next.
    pub(crate) period: Duration,
    /// Requests that are under way at once, at least 1.
    pub(crate) window: usize,
}

impl Kind {
    /// Creates a kind of connection; the period is in milliseconds.
    pub(crate) fn new(level: u8, period: u64, window: usize) -> Self {
        Self {
            level,
            period: Duration::from_millis(period),
            window,
        }
    }
}

/// Time for which a connection goes on asking. It asks at least once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// Until this much time has passed.
    Over(Duration),
    /// Until this many requests are sent.
    Sent(u64),
}

/// Results of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    pub(crate) level: u8,
    /// Answers that came while requests were sent, in each quarter of that time.
    ///
    /// All are in the first one where no time is set.
    pub(crate) quarters: [u64; QUARTERS],
    /// Answers that came when the next request was already due.
    ///
    /// Where a connection has no period, these are the answers after the time in which requests are
    /// sent.
    pub(crate) late: u64,
    /// Times from each request to its answer.
    pub(crate) latencies: Vec<Duration>,
    /// Times from each request to when its answer had come to this computer, where that is known.
    ///
    /// They do not include the time for which the client's thread waited for a processor.
    pub(crate) wire_latencies: Vec<Duration>,
    /// Answers with wrong bytes, and answers, or beginnings of one, without a request.
    pub(crate) wrong: u64,
    /// Requests without an answer.
    pub(crate) lost: u64,
}

impl Answers {
    /// Returns the number of answers that came while requests were sent.
    pub(crate) fn in_time(&self) -> u64 {
        self.quarters.iter().sum()
    }

    /// Counts answers of a quarter, if it is one.
    fn count(&mut self, answers: u64, quarter: usize) {
        if let Some(count) = self.quarters.get_mut(quarter) {
            *count += answers;
        }
    }
}

/// A connection to a server that is ready for requests.
#[derive(Debug)]
pub(crate) struct Dialogue {
    stream: TcpStream,
    problems: Arc<Problems>,
    answers: Answers,
    /// The last request's number.
    ///
    /// Its upper half is the connection's. An answer to another number is wrong.
    number: u64,
    /// The requests that are not answered yet, oldest first.
    under_way: VecDeque<Asked>,
    /// Requests that are not sent yet.
    outgoing: Vec<u8>,
    /// Bytes that have come and were not checked yet: as many as [`arrived`](Self::arrived) says.
    incoming: Vec<u8>,
    arrived: usize,
    /// Time at which the last of them came to this computer, where that is known.
    came: Option<SystemTime>,
    room: Room,
    /// Tells whether the connection was broken off.
    is_broken: bool,
}

/// A request that was sent.
#[derive(Debug)]
struct Asked {
    /// Time by this program's clock, and by the one with which Linux stamps what comes.
    sent: (Instant, SystemTime),
    /// Time after which an answer is late.
    deadline: Option<Instant>,
    number: u64,
}

impl Dialogue {
    /// Creates a dialogue on a connection that has greeted.
    ///
    /// The connection's number is no other one's of the server.
    pub(crate) fn new(stream: TcpStream, connection: u32, problems: Arc<Problems>) -> Result<Self> {
        Ok(Self {
            room: Room::new(&stream)?,
            stream,
            answers: Answers::default(),
            number: u64::from(connection) << 32,
            under_way: VecDeque::new(),
            outgoing: Vec::new(),
            incoming: vec![0; problems.message() * AT_ONCE],
            problems,
            arrived: 0,
            came: None,
            is_broken: false,
        })
    }

    /// Asks once: an answer shows that the connection's tasks exist.
    ///
    /// The answer counts nowhere.
    ///
    /// # Errors
    /// When it is wrong or does not come.
    pub(crate) fn begin(&mut self) -> Result<()> {
        self.ask(1, None)?;
        self.check()?;
        ensure!(self.answers.wrong == 0, "a wrong answer");
        self.answers = Answers::default();
        Ok(())
    }

    /// Sends requests until `until`, and receives the answers to all of them.
    ///
    /// Returns what came since the last call. If the connection breaks, the requests under way stay
    /// without an answer and count as lost.
    pub(crate) fn converse(&mut self, kind: Kind, until: Until) -> Answers {
        if self.run(kind, until).is_err() {
            self.answers.lost += self.under_way.len() as u64;
            self.under_way.clear();
            self.is_broken = true;
        }
        self.answers.level = kind.level;
        std::mem::take(&mut self.answers)
    }

    fn run(&mut self, kind: Kind, until: Until) -> Result<()> {
        let start = Instant::now();
        let (end, most) = match until {
            Until::Over(duration) => (Some(start + duration), u64::MAX),
            Until::Sent(count) => (None, count),
        };
        // The last one is followed by the end.
        let quarter = || match until {
            Until::Over(duration) if start.elapsed() >= duration => QUARTERS,
            Until::Over(duration) => {
                let share = start.elapsed().as_secs_f64() / duration.as_secs_f64();
                ((share * QUARTERS as f64) as usize).min(QUARTERS - 1)
            }
            Until::Sent(_) => 0,
        };
        let mut due = start;
        let mut sent = 0;
        let mut wanted = kind.window as u64;
        loop {
            wanted = wanted.min(most - sent);
            let deadline = match kind.period {
                Duration::ZERO => end,
                period => Some(Instant::now() + period),
            };
            self.ask(wanted as usize, deadline)?;
            sent += wanted;
            wanted = self.check()?;
            self.answers.count(wanted, quarter());
            if sent == most {
                break;
            }
            due = (due + kind.period).max(Instant::now());
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if quarter() == QUARTERS {
                break;
            }
        }
        while !self.under_way.is_empty() {
            let count = self.check()?;
            self.answers.count(count, quarter());
        }
        Ok(())
    }

    /// Sends this many requests, in one piece.
    fn ask(&mut self, count: usize, deadline: Option<Instant>) -> Result<()> {
        let numbers = self.number + 1..=self.number + count as u64;
        self.number += count as u64;
        for number in numbers.clone() {
            self.problems.write_request(number, &mut self.outgoing);
        }
        let sent = (Instant::now(), SystemTime::now());
        let asked = numbers.map(|number| Asked {
            sent,
            deadline,
            number,
        });
        self.under_way.extend(asked);
        self.stream.write_all(&self.outgoing)?;
        self.outgoing.clear();
        Ok(())
    }

    /// Waits for the answer to the oldest request, and checks all answers that have come by then.
    ///
    /// Returns how many requests they answer.
    fn check(&mut self) -> Result<u64> {
        let length = self.problems.message();
        while self.arrived < length {
            let free = &mut self.incoming[self.arrived..];
            let (count, came) = self.room.read(&self.stream, free)?;
            self.came = came;
            self.arrived += count;
        }
        let whole = self.arrived - self.arrived % length;
        let (now, came) = (Instant::now(), self.came);
        let mut count = 0;
        for answer in self.incoming[..whole].chunks_exact(length) {
            let Some(asked) = self.under_way.pop_front() else {
                // No request is under way.
                self.answers.wrong += 1;
                continue;
            };
            count += 1;
            self.answers.latencies.push(now - asked.sent.0);
            let on_the_wire = came.and_then(|came| came.duration_since(asked.sent.1).ok());
            self.answers.wire_latencies.extend(on_the_wire);
            self.answers.late += u64::from(asked.deadline.is_some_and(|deadline| now > deadline));
            self.answers.wrong += u64::from(!self.problems.is_answer(asked.number, answer));
        }
        self.incoming.copy_within(whole..self.arrived, 0);
        self.arrived -= whole;
        Ok(count)
    }

    /// Ends the connection, when all requests are answered.
    ///
    /// Returns how many answers came without a request; the last may be incomplete.
    ///
    /// # Errors
    /// When the server does not end it too.
    pub(crate) fn end(mut self) -> Result<u64> {
        if self.is_broken {
            // Its last bytes belong to an answer that is lost.
            return Ok(0);
        }
        let mut more = self.arrived;
        self.stream.shutdown(Shutdown::Write)?;
        loop {
            let read = self.stream.read(&mut self.incoming);
            match read.context("the server does not end the connection in order")? {
                0 => break,
                count => more += count,
            }
        }
        Ok(more.div_ceil(self.problems.message()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};
    use std::time::Duration;

    /// Bytes of a request, and of an answer, with one row.
    const LENGTH: usize = 12;
    /// Two requests under way, none of which ever comes late.
    const GREEDY: Kind = Kind {
        level: 3,
        period: Duration::ZERO,
        window: 2,
    };

    /// Returns the results of a connection to a server that makes `lie` of each answer, by the
    /// request's number, and how many answers came at the end without a request.
    ///
    /// The server ends the connection after an answer that is too short.
    fn answers(kind: Kind, until: Until, lie: fn(u64, Vec<u8>) -> Vec<u8>) -> (Answers, u64) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut server = listener.accept().unwrap().0;
        let server = thread::spawn(move || {
            let mut request = [0; LENGTH];
            for number in 1.. {
                if server.read_exact(&mut request).is_err() {
                    break;
                }
                let value = u32::from_le_bytes(*request.last_chunk().unwrap());
                let square = value.wrapping_mul(value).to_le_bytes();
                let answer = [&request[..8], &square].concat();
                let bytes = lie(number, answer);
                server.write_all(&bytes).unwrap();
                if bytes.len() < LENGTH {
                    break;
                }
            }
        });
        let mut dialogue = Dialogue::new(stream, 7, Arc::new(Problems::new(1))).unwrap();
        let answers = dialogue.converse(kind, until);
        let more = dialogue.end().unwrap();
        server.join().unwrap();
        (answers, more)
    }

    /// Returns how many answers to five requests are wrong, lost and late.
    ///
    /// The last number is what came at the end.
    fn of_five(lie: fn(u64, Vec<u8>) -> Vec<u8>) -> [u64; 4] {
        let (found, more) = answers(GREEDY, Until::Sent(5), lie);
        let expected = 5 - found.lost;
        assert_eq!(
            (found.latencies.len() as u64, found.in_time(), found.level),
            (expected, expected, 3)
        );
        [found.wrong, found.lost, found.late, more]
    }

    #[test]
    fn right_answers_in_time_are_counted() {
        assert_eq!(of_five(|_, answer| answer), [0, 0, 0, 0]);
    }

    #[test]
    fn a_wrong_byte_is_a_wrong_answer() {
        let lie = |number, mut answer: Vec<u8>| {
            answer[LENGTH - 1] ^= u8::from(number == 3);
            answer
        };
        assert_eq!(of_five(lie), [1, 0, 0, 0]);
    }

    #[test]
    fn an_answer_without_a_request_is_wrong() {
        // Behind the last answer: it may come with that answer, or after the last read.
        let twice = |_, answer: Vec<u8>| answer.repeat(2);
        let (found, more) = answers(GREEDY, Until::Sent(1), twice);
        assert_eq!((found.wrong + more, found.lost, found.late), (1, 0, 0));
        let begun = |number, mut answer: Vec<u8>| {
            answer.extend((number == 5).then_some(0));
            answer
        };
        assert_eq!(of_five(begun), [0, 0, 0, 1]);
    }

    #[test]
    fn a_client_that_closes_early_loses_answers() {
        let nothing = |number, answer: Vec<u8>| if number < 5 { answer } else { Vec::new() };
        assert_eq!(of_five(nothing), [0, 1, 0, 0]);
        let a_part = |number, mut answer: Vec<u8>| {
            answer.truncate(if number < 5 { LENGTH } else { 7 });
            answer
        };
        assert_eq!(of_five(a_part), [0, 1, 0, 0]);
    }

    #[test]
    fn what_comes_after_its_time_is_late() {
        let slow = |_, answer| {
            thread::sleep(Duration::from_millis(2));
            answer
        };
        let paced = |period| Kind::new(3, period, 1);
        let late = |kind, until| answers(kind, until, slow).0.late;
        assert_eq!(late(paced(1), Until::Sent(3)), 3);
        assert_eq!(late(paced(1_000_000), Until::Sent(1)), 0);
        // Without a period, an answer is late when no requests are sent any more.
        let (found, _) = answers(paced(0), Until::Over(Duration::ZERO), slow);
        assert_eq!((found.late, found.in_time(), found.lost), (1, 0, 0));
        assert_eq!(late(paced(0), Until::Sent(3)), 0);
    }
}
