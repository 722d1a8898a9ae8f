//! The thread that keeps a participant in touch with its domain: it discovers the others, notices
//! when they end, and ticks.
//!
//! It never waits for another process. Every operation on a socket returns at once, and a
//! participant that sends nothing costs a file descriptor. [`Throttle`] bounds by time what other
//! processes can make it do.

use crate::admission_queue::AdmissionQueue;
use crate::claim::{Claim, Nanoseconds};
use crate::clock;
use crate::handshake::{self, Files, Refusal};
use crate::membership::{Member, Membership};
use crate::peer::Peer;
use crate::rendezvous::{self, Listener, Rendezvous};
use crate::shared::Shared;
use crate::throttle::{self, Throttle};
use corank::Priority;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The interval at which it scans for participants that it missed.
///
/// These are two that joined at the same moment, or one whose backlog was full.
const SCAN: Nanoseconds = 1_000_000_000;
/// The time within which a process that connected must send its handshake.
const PATIENCE: Nanoseconds = 2_000_000_000;
/// The limit of connections at once.
///
/// More would be more participants than make sense, or a mistake of a program.
const LINKS: usize = 128;
/// The limit of connections of one other process at once, so that it cannot take all [`LINKS`].
///
/// Each of its participants and watchers needs one, or two if both ends connected at the same
/// moment.
pub(crate) const LINKS_OF_ONE: usize = 16;
/// The limit of connections that one scan makes.
///
/// The next scan goes on where this one ended.
const CONNECTIONS_OF_SCAN: usize = 64;
/// The number of ticks without anything to do after which it stops ticking until a worker wakes it.
const PAUSE_AFTER: u32 = 16;

/// The state of the agent's thread.
pub(crate) struct Agent {
    shared: Arc<Shared>,
    own_id: u64,
    rendezvous: Rendezvous,
    listener: Listener,
    files: Files,
    links: Vec<Link>,
    queue: AdmissionQueue,
    /// The time of the next scan for others.
    scan_at: Nanoseconds,
    /// The participant that the next scan begins behind.
    scanned: u64,
    idle_ticks: u32,
    throttle: Throttle,
}

/// A connection to another process.
struct Link {
    socket: OwnedFd,
    process: u32,
    /// The number of the participant expected there; 0 if the other process connected.
    id: u64,
    stage: Stage,
}

enum Stage {
    /// It has not sent its handshake yet. It may do so until then.
    Unknown { until: Nanoseconds },
    /// It takes part.
    Participant(Arc<Peer>),
    /// It watches.
    Watcher,
}

/// Ends the agent when it is dropped.
pub(crate) struct Guard {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wake_agent();
        if let Some(thread) = self.thread.take() {
            // A panic of its own has been reported already.
            let _ = thread.join();
        }
    }
}

/// Starts the thread. It handles no signals, because those are the program's.
pub(crate) fn start(agent: Agent) -> io::Result<Guard> {
    let shared = agent.shared.clone();
    let builder = thread::Builder::new().name("corank-domain".into());
    let thread = without_signals(|| builder.spawn(move || agent.run()))?;
    Ok(Guard {
        shared,
        thread: Some(thread),
    })
}

/// Calls `start` so that the threads that it makes block all signals.
fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: `sigset_t` is plain data, which sigfillset and pthread_sigmask fill in. The pointers
    // are to locals.
    unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let result = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        result
    }
}

impl Agent {
    pub(crate) fn new(
        shared: Arc<Shared>,
        rendezvous: Rendezvous,
        listener: Listener,
        files: Files,
    ) -> Self {
        let own_id = shared.membership.load().members[0].id();
        Self {
            shared,
            own_id,
            rendezvous,
            listener,
            files,
            links: Vec::new(),
            queue: AdmissionQueue::default(),
            scan_at: 0,
            scanned: 0,
            idle_ticks: 0,
            throttle: Throttle::default(),
        }
    }

    fn run(mut self) {
        while !self.shared.stop.load(Ordering::Acquire) {
            #[cfg(test)]
            self.shared.turns.fetch_add(1, Ordering::Relaxed);
            let now = clock::now();
            if now >= self.scan_at {
                self.throttle.begin_period();
                self.scan();
                self.scan_at = now + SCAN;
            }
            self.tick(now);
            self.wait(now);
        }
        // No other process counts on this one any more. The others notice that the connections end.
        self.shared.membership.load().members[0]
            .page()
            .heartbeat
            .0
            .store(0, Ordering::Relaxed);
    }

    /// Sleeps until something happens or the next tick is due, and handles what has happened.
    fn wait(&mut self, now: Nanoseconds) {
        let ticks = self.shared.others() > 0 && !self.shared.agent_paused.load(Ordering::Acquire);
        let mut limit = Duration::from_nanos(self.scan_at.saturating_sub(now));
        if ticks {
            limit = limit.min(self.shared.timing.tick);
        }
        let pause = self.throttle.pause_left(now);
        let listener = match pause {
            Some(left) => {
                limit = limit.min(left);
                PollFlags::empty()
            }
            None => PollFlags::IN,
        };
        let limit = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: limit.subsec_nanos().into(),
        };
        let mut fds = vec![
            PollFd::new(&self.shared.wakeup, PollFlags::IN),
            PollFd::new(&self.listener.socket, listener),
        ];
        fds.extend((self.links.iter()).map(|link| PollFd::new(&link.socket, PollFlags::IN)));
        // It fails at no signal, because there is none. It fails at a lack of memory, and if the
        // limit of descriptors was lowered below their number.
        if poll(&mut fds, Some(&limit)).is_err() {
            thread::sleep(self.shared.timing.tick.max(throttle::PAUSE));
            return;
        }
        let readable: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        if readable[0] {
            let _ = rustix::io::read(&self.shared.wakeup, &mut [0; 8]);
        }
        let changed = self.receive(&readable[2..], clock::now());
        if readable[1] && pause.is_none() {
            self.open(clock::now());
        }
        if changed {
            self.gather();
        }
    }

    /// Handles what has come over the connections. Returns true if the membership has changed.
    fn receive(&mut self, readable: &[bool], now: Nanoseconds) -> bool {
        let mut changed = false;
        let mut readable = readable.iter();
        let throttle = &mut self.throttle;
        self.links.retain_mut(|link| {
            let is_readable = readable.next() == Some(&true);
            match &link.stage {
                Stage::Unknown { until } if !is_readable => now < *until,
                Stage::Unknown { .. } => match link.receive_handshake() {
                    Ok(participates) => {
                        changed |= participates;
                        true
                    }
                    Err(refusal) => {
                        throttle.warn(link.process, &refusal);
                        // A participant that was refused stays refused. It is not tried again as
                        // long as it is there.
                        link.id != 0 && refusal.is_for_good()
                    }
                },
                // Participants send nothing after the handshake. So the other process has ended, or
                // breaks that rule.
                stage if is_readable => {
                    changed |= matches!(stage, Stage::Participant(_));
                    false
                }
                _ => true,
            }
        });
        changed
    }

    /// Accepts connections.
    ///
    /// Connections that are left over wait until the pause is over. The reason is a lack of
    /// descriptors, or that there are too many at once.
    fn open(&mut self, now: Nanoseconds) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while self.throttle.accepts(now) {
            let accepted = accept_with(&self.listener.socket, flags);
            if matches!(accepted, Err(Errno::AGAIN)) {
                return;
            }
            self.throttle.connected();
            match accepted {
                Ok(socket) => {
                    self.throttle.accepted();
                    self.link(socket, 0, now + PATIENCE);
                }
                // That connection came to nothing; there may be others behind it.
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(error) => {
                    self.throttle.warn_of_shortage(error.into());
                    break;
                }
            }
        }
        self.throttle.pause(now);
    }

    /// Starts the handshake on a new connection.
    fn link(&mut self, socket: OwnedFd, id: u64, until: Nanoseconds) {
        let accepted = handshake::process_of(&socket).and_then(|process| {
            let of_process = |link: &&Link| link.process == process;
            let has_too_many = self.links.iter().filter(of_process).count() >= LINKS_OF_ONE;
            if has_too_many || self.links.len() >= LINKS {
                return Err(Refusal::TooManyConnections {
                    of_one: has_too_many,
                });
            }
            if id != 0 && rendezvous::process_of(id) != process {
                return Err(Refusal::Socket(process));
            }
            handshake::send(&socket, Some(&self.files)).map_err(Refusal::System)?;
            Ok(process)
        });
        match accepted {
            Ok(process) => self.links.push(Link {
                socket,
                process,
                id,
                stage: Stage::Unknown { until },
            }),
            Err(refusal) => self.throttle.warn(0, &refusal),
        }
    }

    /// Connects to the participants that it does not know yet, to a bounded number at a time.
    fn scan(&mut self) {
        let folders = match self.rendezvous.known_folders() {
            Ok(folders) => folders,
            Err(error) => return self.throttle.warn_of_shortage(error),
        };
        let mut left = CONNECTIONS_OF_SCAN;
        for folder in folders {
            let mut ids = folder.participants().unwrap_or_default();
            ids.sort_unstable();
            let behind = ids.partition_point(|&id| id <= self.scanned);
            ids.rotate_left(behind);
            for id in ids {
                let known = |link: &Link| {
                    link.id == id
                        || matches!(&link.stage, Stage::Participant(peer) if peer.identity.id == id)
                };
                let of_process = |link: &&Link| link.process == rendezvous::process_of(id);
                if id == self.own_id
                    || self.links.iter().any(known)
                    || self.links.iter().filter(of_process).count() >= LINKS_OF_ONE
                {
                    continue;
                }
                if left == 0 || self.links.len() >= LINKS {
                    return;
                }
                left -= 1;
                self.scanned = id;
                match folder.connect(id) {
                    // It may be stopped. Then it answers when it goes on.
                    Ok(Some(socket)) => self.link(socket, id, Nanoseconds::MAX),
                    Ok(None) => {}
                    // Its backlog is full: the next scan tries again.
                    Err(error) => tracing::debug!("socket {id:016x} of the domain: {error}"),
                }
            }
        }
    }

    /// Gives the workers a membership of all participants that are connected.
    fn gather(&mut self) {
        let own = self.shared.membership.load().members[0].clone();
        let mut members = vec![own];
        for link in &self.links {
            if let Stage::Participant(peer) = &link.stage
                // Two participants that connect to each other at once have two connections.
                && !members.iter().any(|member| member.id() == peer.id())
            {
                members.push(peer.clone());
            }
        }
        self.shared
            .membership
            .store(Arc::new(Membership::new(members)));
        self.shared.ring_all();
    }

    /// Decides everything anew, as long as there are others and a worker has something to do.
    fn tick(&mut self, now: Nanoseconds) {
        let membership = self.shared.membership.load_full();
        if membership.is_alone() {
            self.shared.scheduling_classes.tick(None);
            return;
        }
        let own = &membership.members[0];
        let shared = &self.shared;
        shared.page.heartbeat.0.store(now, Ordering::Relaxed);
        let mut most_urgent: Option<Priority> = None;
        let mut busy = false;
        for worker in 0..own.workers() {
            let Ok(Some(claim)) = Claim::from_word(own.slot(worker).words().0) else {
                continue;
            };
            if claim.wants() {
                busy = true;
                own.doorbell(worker).ring();
            }
            if claim.wants() || now.saturating_sub(claim.since) <= shared.timing.hold {
                most_urgent = Some(most_urgent.map_or(claim.level, |most| most.min(claim.level)));
            }
        }
        shared.scheduling_classes.tick(most_urgent);
        if !shared.agent_paused.load(Ordering::Acquire) {
            membership.decide(None, &mut self.queue, now, &shared.timing);
            self.pause(busy);
        }
        for member in &membership.members {
            if member.warn_of_damage() {
                tracing::warn!(
                    "the page of process {} in the domain is damaged: what makes no sense is ignored",
                    member.identity.process
                );
            }
        }
    }

    /// Stops ticking when there has been nothing to do for a while.
    fn pause(&mut self, busy: bool) {
        self.idle_ticks = if busy { 0 } else { self.idle_ticks + 1 };
        if self.idle_ticks < PAUSE_AFTER {
            return;
        }
        self.idle_ticks = 0;
        self.shared.agent_paused.store(true, Ordering::Release);
        // A worker shows its claim and then reads the flag. So either it sees the flag, or its
        // claim is seen here.
        fence(Ordering::SeqCst);
        let own = &self.shared.membership.load().members[0];
        let busy = (0..own.workers()).any(|worker| {
            matches!(Claim::from_word(own.slot(worker).words().0), Ok(Some(claim)) if claim.wants())
        });
        if busy {
            self.shared.agent_paused.store(false, Ordering::Release);
        }
    }
}

impl Link {
    /// Receives the handshake. Returns true if it is a participant's.
    fn receive_handshake(&mut self) -> Result<bool, Refusal> {
        let introduced = handshake::receive(&self.socket, self.process);
        let stage = match introduced {
            Ok(Some(introduced)) => Stage::Participant(Arc::new(Peer::from(introduced))),
            Ok(None) => Stage::Watcher,
            Err(refusal) => {
                self.stage = Stage::Watcher;
                return Err(refusal);
            }
        };
        self.stage = stage;
        Ok(matches!(self.stage, Stage::Participant(_)))
    }
}
