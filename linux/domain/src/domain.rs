//! Joining a domain.

use crate::admission_queue::Processors;
use crate::agent::{self, Agent};
use crate::handshake::Files;
use crate::membership::Timing;
use crate::memory::{Mapping, Writers};
use crate::mode::Mode;
use crate::page::{Doorbells, EXECUTORS, Identity, Page, WORKERS};
use crate::peer::Peer;
use crate::rendezvous::{self, Name, Rendezvous};
use crate::scheduling_class::{ClassPolicy, SchedulingClasses};
use crate::shared::Shared;
use crate::worker::Worker;
use corank::Published;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A domain to join: the processes of one user that give the same name.
///
/// ```no_run
/// use corank::{Config, SharedExecutor, Step};
/// use corank_domain::Domain;
/// use std::time::Duration;
///
/// let participant = Domain::named("default").join()?;
/// let published = participant.publish()?;
/// let executor = SharedExecutor::with(Config::new().publish_to(published));
/// let domain = participant.worker(published)?;
/// let worker = executor.worker(domain.caller());
/// loop {
///     match worker.run_under(&*domain).0 {
///         Step::Ran => {}
///         Step::Elsewhere => drop(domain.step_aside(Duration::from_millis(100))),
///         Step::Idle => {
///             domain.idle();
///             break; // or wait for whatever makes a coroutine ready
///         }
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Domain {
    pub(crate) name: String,
    process: Option<String>,
    mode: Mode,
    tick: Duration,
    class_policy: ClassPolicy,
    pub(crate) root: Option<PathBuf>,
}

impl Domain {
    /// Selects the domain of this user that has this name.
    ///
    /// A name is 1 to 64 of ASCII letters, digits, `-`, `_` and `.`.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            process: None,
            mode: Mode::default(),
            tick: Duration::from_millis(4),
            class_policy: ClassPolicy::default(),
            root: None,
        }
    }

    /// Sets the mode, relaxed or strict. The default is strict.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets how often everything is decided anew, whatever happened in between.
    ///
    /// The default is 4 ms, the minimum 100 µs, and the maximum 1 s.
    ///
    /// All bounds are multiples of it. Others wait for a process that does not move for 5 ticks at
    /// most, and one more until they notice.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick.clamp(Duration::from_micros(100), Duration::from_secs(1));
        self
    }

    /// Sets the name that `corank top` shows for the process, at most 63 bytes.
    ///
    /// The default is the name of the program.
    pub fn process(mut self, name: impl Into<String>) -> Self {
        self.process = Some(name.into());
        self
    }

    /// Sets what Linux learns of the levels that run; see [`ClassPolicy`].
    pub fn class_policy(mut self, class_policy: ClassPolicy) -> Self {
        self.class_policy = class_policy;
        self
    }

    /// Sets the folder where the domain's participants find each other, instead of the user's own
    /// folders.
    ///
    /// The folder belongs to the user, and no other user can enter it. It is for tests, and for
    /// containers that share a folder.
    pub fn root(mut self, folder: impl Into<PathBuf>) -> Self {
        self.root = Some(folder.into());
        self
    }

    /// Joins the domain.
    ///
    /// Takes a thread, the *agent*, and five file descriptors, with two more for each participant
    /// that joins. 164 KiB stay mapped as long as the process lives; 16 KiB of them are in memory,
    /// and all if coroutines are counted. It waits for no other process, and needs no privileges.
    ///
    /// # Errors
    /// Fails if the name is not valid, if there is no folder that belongs to this user alone, or if
    /// memory, threads or file descriptors are exhausted. Then nothing is left behind, and the
    /// process can go on without the domain.
    pub fn join(self) -> Result<Participant, JoinError> {
        let name = Name::new(&self.name).ok_or_else(|| JoinError::Name(self.name.clone()))?;
        let rendezvous = Rendezvous {
            name,
            root: self.root,
        };
        let folders = rendezvous.folders().map_err(JoinError::Folder)?;
        let (page, page_file) = Mapping::<Page>::create("corank-page", Writers::Owner)?;
        let (doorbells, doorbells_file) =
            Mapping::<Doorbells>::create("corank-doorbells", Writers::All)?;
        let identity = Identity {
            id: rendezvous::new_id()?,
            process: std::process::id(),
            strict: self.mode == Mode::Strict,
            processors: own_processors()?,
            name: self.process.unwrap_or_else(program),
        };
        page.introduce(&identity);
        let scheduling_classes = SchedulingClasses::new(self.class_policy);
        let listener = folders[0].listen(identity.id)?;
        // An executor refers to its bitmap as long as the program runs.
        let (page, doorbells) = (page.leak(), doorbells.leak());
        let files = Files {
            page: page_file,
            doorbells: doorbells_file,
        };
        let shared = Arc::new(Shared::new(
            Peer::own(identity, page, doorbells),
            page,
            doorbells,
            self.mode,
            Timing::of_tick(self.tick),
            scheduling_classes,
        )?);
        let agent = Agent::new(shared.clone(), rendezvous, listener, files);
        let guard = agent::start(agent)?;
        Ok(Participant {
            shared,
            guard: Arc::new(guard),
        })
    }
}

/// Returns the processors that this process may use.
fn own_processors() -> io::Result<Processors> {
    let set = rustix::thread::sched_getaffinity(None)?;
    let mut processors = Processors::default();
    for at in (0..processors.len() * 64).filter(|&at| set.is_set(at)) {
        processors[at / 64] |= 1 << (at % 64);
    }
    Ok(processors)
}

fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.into_owned()
}

/// A process's membership in a domain.
///
/// It leaves when the last clone and the last [`Worker`] are dropped.
#[derive(Clone)]
pub struct Participant {
    pub(crate) shared: Arc<Shared>,
    pub(crate) guard: Arc<agent::Guard>,
}

impl Participant {
    /// Returns the place where an executor shows its urgency, in the page that this process alone
    /// can write.
    ///
    /// There is one for each executor, and one for all workers of a
    /// [`SharedExecutor`](corank::SharedExecutor).
    ///
    /// # Errors
    /// Fails if there are 16 already.
    pub fn publish(&self) -> Result<&'static Published, TooMany> {
        self.shared.page.next_executor().ok_or(TooMany {
            what: "executors",
            limit: EXECUTORS,
        })
    }

    /// Makes the calling thread a worker of the domain, for the executor that publishes there.
    ///
    /// The worker never moves in memory, because other threads of this process notify it there when
    /// another participant has come.
    ///
    /// # Errors
    /// Fails if there are 64 already.
    pub fn worker(&self, published: &'static Published) -> Result<Pin<Box<Worker>>, TooMany> {
        Worker::new(self.shared.clone(), self.guard.clone(), published).ok_or(TooMany {
            what: "workers",
            limit: WORKERS,
        })
    }

    /// Returns an observer that counts an executor's coroutines for `corank top`.
    ///
    /// It goes to [`Config::observer`](corank::Config::observer), one for each executor. It costs
    /// three readings of the clock per poll. It keeps 24 bytes for each coroutine that there were
    /// at once, as long as the program runs. It counts no inversions, because it does not know the
    /// number of workers: [`figures`](Self::figures) are for a counter that does.
    #[cfg(feature = "figures")]
    #[must_use]
    pub fn observer(&self) -> &'static dyn corank::Observer {
        let counter = corank_figures::Counter::new(self.figures(), crate::clock::now);
        // An executor refers to its observer as long as the program runs.
        Box::leak(Box::new(counter))
    }

    /// Returns the counters of coroutines in the page, which watchers read.
    #[must_use]
    pub fn figures(&self) -> &'static corank_figures::Figures {
        &self.shared.page.figures.coroutines
    }

    /// Shows the state of the process's runtime to watchers, until the next call. It costs a few
    /// stores.
    ///
    /// A state without workers is shown as none.
    pub fn report(&self, state: &crate::figures::RuntimeState) {
        self.shared.page.figures.runtime.write(state);
    }

    /// Returns how many others take part in the domain, as far as this process knows.
    #[must_use]
    pub fn others(&self) -> usize {
        self.shared.others()
    }
}

impl fmt::Debug for Participant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Participant")
            .field("mode", &self.shared.mode)
            .field("others", &self.others())
            .finish_non_exhaustive()
    }
}

/// The reason why a process did not join.
#[derive(Debug)]
#[non_exhaustive]
pub enum JoinError {
    /// The domain's name is not valid.
    Name(String),
    /// There is no folder where the participants of this user could find each other.
    Folder(io::Error),
    /// The system refused memory, a thread or a file descriptor.
    System(io::Error),
}

impl From<io::Error> for JoinError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(
                f,
                "{name:?} is no name for a domain: use 1 to 64 of ASCII letters, digits, '-', '_' and '.'"
            ),
            Self::Folder(error) => write!(
                f,
                "no folder where the domain's processes could find each other: {error}; \
                 set XDG_RUNTIME_DIR to a folder of this user's alone"
            ),
            Self::System(error) => write!(f, "the domain cannot be joined: {error}"),
        }
    }
}

impl std::error::Error for JoinError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Name(_) => None,
            Self::Folder(error) | Self::System(error) => Some(error),
        }
    }
}

/// The error that a participant's page has no room for another executor or worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany {
    what: &'static str,
    limit: usize,
}

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, limit } = self;
        write!(f, "a participant of a domain has at most {limit} {what}")
    }
}

impl std::error::Error for TooMany {}
