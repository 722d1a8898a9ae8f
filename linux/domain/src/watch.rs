//! Watching a domain without taking part in it, for `corank top` and the like.

use crate::agent::LINKS_OF_ONE;
use crate::claim::{Claim, ClaimState, Nanoseconds};
use crate::clock;
use crate::domain::{Domain, JoinError};
use crate::figures::RuntimeState;
use crate::handshake::{self, Introduced};
use crate::membership::Timing;
use crate::mode::Mode;
use crate::page::Page;
use crate::rendezvous::{self, Name, Rendezvous};
use corank::{Levels, Priority};
use corank_figures::Coroutines;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Sees all participants of a domain, and is seen by none.
///
/// It publishes nothing and costs each of them a file descriptor.
///
/// ```no_run
/// use corank_domain::Domain;
///
/// for process in Domain::named("default").watch()?.snapshot() {
///     println!("{} {}: {:?}", process.id, process.name, process.ready);
/// }
/// # Ok::<(), corank_domain::JoinError>(())
/// ```
pub struct Watcher {
    rendezvous: Rendezvous,
    links: Vec<Link>,
}

struct Link {
    socket: OwnedFd,
    id: u64,
    process: u32,
    stage: Stage,
}

enum Stage {
    /// It has not sent its handshake yet.
    Unknown,
    Participant(Introduced),
    /// It is not shown, for this reason.
    Refused(String),
}

/// The time within which a process must send its handshake, in each call of
/// [`snapshot`](Watcher::snapshot).
///
/// A process that is stopped may do so in a later call.
const PATIENCE: Duration = Duration::from_millis(50);

impl Domain {
    /// Watches the domain instead of joining it. Of the settings, only name and root count.
    ///
    /// # Errors
    /// Fails as [`join`](Self::join) does, except for lack of threads.
    pub fn watch(self) -> Result<Watcher, JoinError> {
        let name = Name::new(&self.name).ok_or_else(|| JoinError::Name(self.name.clone()))?;
        let root = self.root;
        let rendezvous = Rendezvous { name, root };
        rendezvous.folders().map_err(JoinError::Folder)?;
        Ok(Watcher {
            rendezvous,
            links: Vec::new(),
        })
    }
}

impl Watcher {
    /// Returns what the participants show at this moment, by process.
    ///
    /// It takes up to 50 ms when there are new ones.
    pub fn snapshot(&mut self) -> Vec<Process> {
        self.connect();
        let deadline = clock::now() + PATIENCE.as_nanos() as Nanoseconds;
        loop {
            let now = clock::now();
            let expected = (self.links.iter()).any(|link| matches!(link.stage, Stage::Unknown));
            let patience = if expected {
                Duration::from_nanos(deadline.saturating_sub(now))
            } else {
                Duration::ZERO
            };
            if !self.receive(patience) {
                break;
            }
        }
        let now = clock::now();
        let mut processes: Vec<Process> = (self.links.iter())
            .filter_map(|link| match &link.stage {
                Stage::Participant(introduced) => Some(Process::read(introduced, now)),
                _ => None,
            })
            .collect();
        processes.sort_by_key(|process| (process.id, process.participant));
        processes
    }

    /// Returns the processes that take part in some way but were not understood in the last
    /// [`snapshot`](Self::snapshot), each with the reason.
    ///
    /// Most of the time the reason is another version of this crate.
    pub fn refused(&self) -> impl Iterator<Item = (u32, &str)> {
        self.links.iter().filter_map(|link| match &link.stage {
            Stage::Refused(why) => Some((link.process, why.as_str())),
            _ => None,
        })
    }

    /// Connects to all participants that it does not know yet.
    fn connect(&mut self) {
        for folder in self.rendezvous.known_folders().unwrap_or_default() {
            for id in folder.participants().unwrap_or_default() {
                let of_process = |link: &&Link| link.process == rendezvous::process_of(id);
                if self.links.iter().any(|link| link.id == id)
                    || self.links.iter().filter(of_process).count() >= LINKS_OF_ONE
                {
                    continue;
                }
                let Ok(Some(socket)) = folder.connect(id) else {
                    continue;
                };
                let Ok(process) = handshake::process_of(&socket) else {
                    continue;
                };
                if rendezvous::process_of(id) == process && handshake::send(&socket, None).is_ok() {
                    self.links.push(Link {
                        socket,
                        id,
                        process,
                        stage: Stage::Unknown,
                    });
                }
            }
        }
    }

    /// Handles what comes within this time. Returns false if nothing does.
    fn receive(&mut self, patience: Duration) -> bool {
        let limit = Timespec {
            tv_sec: patience.as_secs() as i64,
            tv_nsec: patience.subsec_nanos().into(),
        };
        let mut fds: Vec<PollFd<'_>> = (self.links.iter())
            .map(|link| PollFd::new(&link.socket, PollFlags::IN))
            .collect();
        if !poll(&mut fds, Some(&limit)).is_ok_and(|count| count > 0) {
            return false;
        }
        let readable: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        let mut readable = readable.into_iter();
        self.links.retain_mut(|link| {
            if !readable.next().unwrap_or(false) {
                return true;
            }
            // After the handshake nothing comes but the end.
            if !matches!(link.stage, Stage::Unknown) {
                return false;
            }
            link.stage = match handshake::receive(&link.socket, link.process) {
                Ok(Some(introduced)) => Stage::Participant(introduced),
                Ok(None) => return false,
                Err(refusal) if !refusal.is_for_good() => return false,
                Err(refusal) => Stage::Refused(refusal.to_string()),
            };
            true
        });
        true
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher")
            .field("domain", &self.rendezvous.name)
            .field("processes", &self.links.len())
            .finish_non_exhaustive()
    }
}

/// The data that a participant shows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Process {
    /// The number that Linux has given it.
    pub id: u32,
    /// The number of the participant, which no other one has: a process may join more than once.
    pub participant: u64,
    /// The name that it gives itself, without control characters.
    pub name: String,
    /// The mode, which determines when its workers ask.
    pub mode: Mode,
    /// The levels with ready coroutines.
    ///
    /// They include coroutines that were made ready from outside and are not queued yet.
    pub ready: Levels,
    /// The levels that its workers run.
    pub running: Levels,
    /// Its worker threads that have claimed a processor since they began.
    pub workers: Vec<WorkerState>,
    /// The number of times that a worker has stepped aside.
    pub asides: u64,
    /// The number of times that something more urgent had been waiting for that.
    pub inversions: u64,
    /// The time that it had been waiting, all together.
    pub inverted: Duration,
    /// The longest time that it had been waiting.
    pub longest_inversion: Duration,
    /// The threads of its runtime, if that reports them.
    pub runtime: Option<RuntimeState>,
    /// Its coroutines, if it counts them.
    pub coroutines: Option<Coroutines>,
}

/// The state of a worker thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerState {
    /// The level of its work.
    pub level: Priority,
    /// Whether it runs, is aside, is idle or is silent.
    pub activity: Activity,
}

/// The activity of a worker: whether it runs, steps aside or has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activity {
    /// It runs, as far as Linux lets it.
    Runs,
    /// It sleeps to leave its processor to others.
    Aside,
    /// It has nothing to do. The level is that of its last work.
    Idle,
    /// It shows no sign of life.
    ///
    /// Its process is stopped, or it has been in one poll for long. No other worker waits for it.
    Silent,
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn time(counter: &AtomicU64) -> Duration {
    Duration::from_nanos(load(counter))
}

impl Process {
    fn read(introduced: &Introduced, now: Nanoseconds) -> Self {
        let Introduced { identity, page, .. } = introduced;
        let figures = &page.figures;
        let mut ready = Levels::NONE;
        let mut running = Levels::NONE;
        for published in page.published() {
            ready = ready.union(published.ready()).union(published.arriving());
            running = running.union(published.running());
        }
        Self {
            id: identity.process,
            participant: identity.id,
            name: identity.name.clone(),
            mode: if identity.strict {
                Mode::Strict
            } else {
                Mode::Relaxed
            },
            ready,
            running,
            workers: (0..page.workers())
                .filter_map(|worker| WorkerState::read(page, worker, now))
                .collect(),
            asides: load(&figures.asides),
            inversions: load(&figures.inversions),
            inverted: time(&figures.inverted),
            longest_inversion: time(&figures.longest_inversion),
            runtime: figures.runtime.read(),
            coroutines: figures.coroutines.read(),
        }
    }
}

impl WorkerState {
    fn read(page: &Page, worker: usize, now: Nanoseconds) -> Option<Self> {
        let (word, heartbeat) = page.slots[worker].words();
        let claim = Claim::from_word(word).ok()??;
        // The participants' own ticks are not known here.
        let grace = Timing::of_tick(Duration::from_millis(20)).grace;
        let is_silent = |seen: Nanoseconds| now.saturating_sub(seen) > grace;
        let activity = match claim.state {
            ClaimState::Released => Activity::Idle,
            ClaimState::Running if is_silent(heartbeat) && is_silent(page.last_heartbeat()) => {
                Activity::Silent
            }
            ClaimState::Running => Activity::Runs,
            ClaimState::Aside if is_silent(page.last_heartbeat()) => Activity::Silent,
            ClaimState::Aside => Activity::Aside,
        };
        Some(Self {
            level: claim.level,
            activity,
        })
    }
}
