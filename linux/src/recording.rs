//! Records what the scheduler does into a file (feature `recording`).
//!
//! The file is mapped and shared, so it has everything up to the moment in which the process ends,
//! however that happens. Each thread writes to a ring of its own, found through a variable of the
//! thread. What the scheduler does, it does under its lock: a sequence number that is taken there
//! gives the one order of all rings. `spec/recording.md` in the repository has the format.

mod clock;
mod file;

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use corank::{CoroutineId, Exit, Levels, Observer, Policy, Priority};
use corank_recording::{Kind, Layout, Port, Ring, Role, Settings, Writer};

use crate::builder::{Builder, Order};
use crate::fork::ForkMark;
use clock::Clock;

/// The variable that names the file, if the builder does not.
const VARIABLE: &str = "CORANK_RECORD";
/// The events of each ring, of 16 bytes.
const EVENTS: u32 = 1 << 16;
/// The slots whose coroutines' names are kept when their events are gone.
const SLOTS: u32 = 1 << 16;
/// The bytes for names of futures.
const NAMES: u32 = 128 << 10;
/// The rings for spare workers and for threads outside of the runtime. Further threads share one.
const OTHER_RINGS: u32 = 10;

/// The observer of a runtime that records.
pub(crate) struct Recorder {
    writer: Writer,
    clock: Clock,
    /// The process's children write nothing into its file.
    mark: ForkMark,
    /// When the relation of the clocks is to be noted again, in ticks.
    anchor_due: AtomicU64,
    /// The rings in use, without the one that several threads share.
    used: AtomicU32,
    /// The ring of each thread.
    threads: Mutex<Vec<(u32, u32)>>,
    /// The numbers of names.
    names: Mutex<HashMap<String, u16>>,
}

/// The recorder that this thread has written to last, and its ring there.
struct Here {
    /// The recorder's address; null if there is none yet.
    recorder: Cell<*const Recorder>,
    ring: Cell<Option<Ring>>,
    /// Whether other threads write to the ring, too.
    is_shared: Cell<bool>,
    /// The coroutine whose poll has ended, and when, until it is known how.
    ended: Cell<Option<(CoroutineId, u64)>>,
    /// When the last wake took effect.
    woken: Cell<u64>,
    /// When the last poll ended, if this thread has held the scheduler's lock since; otherwise 0.
    ///
    /// The next pick takes place then: a reading of the clock costs more than the pick.
    held_since: Cell<u64>,
}

thread_local! {
    static HERE: Here = const {
        Here {
            recorder: Cell::new(std::ptr::null()),
            ring: Cell::new(None),
            is_shared: Cell::new(false),
            ended: Cell::new(None),
            woken: Cell::new(0),
            held_since: Cell::new(0),
        }
    };
}

impl Here {
    /// Returns when the poll of this coroutine ended, if it is the one that has just ended.
    #[inline]
    fn take_end(&self, id: CoroutineId) -> Option<u64> {
        let (_, time) = self.ended.get().filter(|(ended, _)| *ended == id)?;
        self.ended.set(None);
        Some(time)
    }
}

/// Returns the number of this thread.
fn thread() -> u32 {
    let thread = rustix::thread::gettid().as_raw_nonzero();
    thread.get().unsigned_abs()
}

fn target(id: CoroutineId) -> (u32, u16) {
    let bits = id.to_bits();
    (bits as u32, (bits >> 32) as u16)
}

impl Recorder {
    /// Begins a recording in a new file, which takes the place of a former one.
    fn begin(path: &Path, builder: &Builder) -> io::Result<Self> {
        let workers = u32::try_from(builder.workers_wanted()).unwrap_or(u32::MAX);
        let kinds = if builder.bulk_class().is_some() { 2 } else { 1 };
        let rings = workers.saturating_mul(kinds).min(1024) + OTHER_RINGS;
        let clock = Clock::new();
        let mut settings = Settings {
            port: Port::Linux,
            process: std::process::id(),
            rings,
            events: EVENTS,
            slots: SLOTS,
            names: NAMES,
            frequency: 1,
            // Workers that take some levels only pick strictly.
            bounded: (builder.bulk_class()).map_or(bound(builder.policy_wanted()), |_| 0),
            demotes: builder.demotes(),
            workers,
            program: program(builder.thread_name()),
        };
        let words = file::create(path, Layout::new(&settings).words())?;
        let measured = clock.measure();
        settings.frequency = measured.frequency;
        let began = (measured.ticks, measured.nanoseconds);
        let writer = Writer::new(words, &settings, began);
        writer.ring(rings - 1).begin(Role::Others, 0, 0, u64::MAX);
        Ok(Self {
            writer,
            anchor_due: AtomicU64::new(measured.ticks + measured.frequency),
            clock,
            mark: ForkMark::new()?,
            used: AtomicU32::new(0),
            threads: Mutex::default(),
            names: Mutex::default(),
        })
    }

    /// Calls `act` with this thread's ring, unless this is a forked child.
    #[inline]
    fn here(&self, act: impl FnOnce(&Here, Ring)) {
        if self.mark.is_in_child() {
            return;
        }
        HERE.with(|here| {
            if !std::ptr::eq(here.recorder.get(), self) {
                self.enter(here);
            }
            if let Some(ring) = here.ring.get() {
                act(here, ring);
            }
        });
    }

    /// Finds this thread's ring in the recording, or takes a new one.
    #[cold]
    #[inline(never)]
    fn enter(&self, here: &Here) {
        let thread = thread();
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let known = threads.iter().find(|(known, _)| *known == thread);
        let last = self.writer.rings() - 1;
        let number = known.map(|&(_, ring)| ring).unwrap_or_else(|| {
            let ring = self.used.load(Ordering::Relaxed).min(last);
            if ring < last {
                self.used.store(ring + 1, Ordering::Relaxed);
                let others = threads.len() as u32;
                self.writer
                    .ring(ring)
                    .begin(Role::Thread, others, thread, u64::MAX);
                threads.push((thread, ring));
            }
            ring
        });
        here.recorder.set(self);
        here.ring.set(Some(self.writer.ring(number)));
        here.is_shared.set(number == last);
        here.ended.set(None);
        here.held_since.set(0);
    }

    /// Says that this thread is a worker of this role, with this number, for these levels.
    pub(crate) fn begin_worker(&self, role: Role, number: usize, takes: Levels) {
        self.here(|here, ring| {
            if !here.is_shared.get() {
                ring.begin(role, number as u32, thread(), takes.bits());
            }
        });
    }

    /// Writes what happens under the scheduler's lock.
    #[inline]
    fn write(&self, ring: Ring, kind: Kind, time: u64, id: CoroutineId, level: u8) {
        ring.push(kind, time, self.writer.next(), target(id), level);
        if time >= self.anchor_due.load(Ordering::Relaxed) {
            self.anchor();
        }
    }

    /// Notes what the clocks show, each second in which something happens.
    #[cold]
    #[inline(never)]
    fn anchor(&self) {
        let (ticks, nanoseconds) = self.clock.pair();
        self.writer.anchor(ticks, nanoseconds);
        let due = ticks.saturating_add(self.clock.second());
        self.anchor_due.store(due, Ordering::Relaxed);
    }

    #[inline]
    fn report(&self, kind: Kind, id: CoroutineId, level: u8) {
        self.here(|_, ring| self.write(ring, kind, self.clock.now(), id, level));
    }

    #[inline]
    fn report_two(&self, kind: Kind, lender: CoroutineId, borrower: CoroutineId) {
        self.here(|_, ring| {
            let now = self.clock.now();
            self.write(ring, Kind::Borrower, now, borrower, 0);
            self.write(ring, kind, now, lender, 0);
        });
    }

    /// Writes that a coroutine leaves the ready ones, with the time at which its poll has ended, if
    /// one has.
    #[inline]
    fn report_end(&self, kind: Kind, id: CoroutineId) {
        self.here(|here, ring| {
            let time = here.take_end(id).unwrap_or_else(|| self.clock.now());
            self.write(ring, kind, time, id, 0);
        });
    }

    /// Notes that this thread has released the scheduler's lock after a batch of polls.
    #[inline]
    pub(crate) fn note_release(&self) {
        HERE.with(|here| here.held_since.set(0));
    }

    /// Writes what this worker does between polls.
    pub(crate) fn note(&self, kind: Kind) {
        self.here(|here, ring| {
            if !here.is_shared.get() {
                ring.push(kind, self.clock.now(), 0, (0, 0), 0);
            }
        });
    }

    /// Names a coroutine. It takes a lock of its own, once for each spawn.
    pub(crate) fn name(&self, id: CoroutineId, name: &str) {
        if self.mark.is_in_child() {
            return;
        }
        let number = {
            let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            match names.get(name) {
                Some(&number) => number,
                None => {
                    let number = self.writer.add_name(name);
                    names.insert(name.to_string(), number);
                    number
                }
            }
        };
        let (slot, generation) = target(id);
        self.writer.name_slot(slot, generation, number);
        self.here(|here, ring| {
            if here.is_shared.get() {
                self.writer.lose();
            } else {
                let now = self.clock.now();
                ring.push(Kind::Name, now, number.into(), (slot, generation), 0);
            }
        });
    }
}

// SAFETY: it writes words of a mapping and reads the clock. It calls nothing of an executor, drops
// nothing of one, and does not panic: rings and levels are within their bounds.
unsafe impl Observer for Recorder {
    fn spawned(&self, id: CoroutineId, priority: Priority) {
        self.report(Kind::Spawn, id, priority.level());
    }

    fn wake_applied(&self, id: CoroutineId) {
        self.here(|here, ring| {
            let now = self.clock.now();
            here.woken.set(now);
            self.write(ring, Kind::Wake, now, id, 0);
        });
    }

    fn woken(&self, id: CoroutineId, priority: Priority) {
        self.here(|here, ring| {
            let (kind, time) = match here.take_end(id) {
                Some(time) => (Kind::Yield, time),
                None => (Kind::Ready, here.woken.get()),
            };
            self.write(ring, kind, time, id, priority.level());
        });
    }

    fn poll_started(&self, id: CoroutineId, priority: Priority) {
        self.here(|here, ring| {
            let time = match here.held_since.replace(0) {
                0 => self.clock.now(),
                time => time,
            };
            self.write(ring, Kind::Pick, time, id, priority.level());
        });
    }

    fn poll_ended(&self, id: CoroutineId) {
        self.here(|here, _| {
            let now = self.clock.now();
            here.ended.set(Some((id, now)));
            here.held_since.set(now);
        });
    }

    fn blocked(&self, id: CoroutineId) {
        self.report_end(Kind::Block, id);
    }

    fn preempted(&self, id: CoroutineId) {
        self.report(Kind::Preempt, id, 0);
    }

    fn resumed(&self, id: CoroutineId, priority: Priority) {
        self.report(Kind::Resume, id, priority.level());
    }

    fn reprioritized(&self, id: CoroutineId, _: Priority, to: Priority) {
        self.report(Kind::Level, id, to.level());
    }

    fn base_changed(&self, id: CoroutineId, base: Priority) {
        self.report(Kind::Base, id, base.level());
    }

    fn donation_began(&self, lender: CoroutineId, borrower: CoroutineId) {
        self.report_two(Kind::Lend, lender, borrower);
    }

    fn donation_ended(&self, lender: CoroutineId, borrower: CoroutineId) {
        self.report_two(Kind::Unlend, lender, borrower);
    }

    fn exited(&self, id: CoroutineId, exit: Exit) {
        let kind = match exit {
            Exit::Finished => Kind::Finish,
            Exit::Cancelled => Kind::Cancel,
            Exit::Panicked => Kind::Panic,
        };
        // Destructors and wakers of others run without the lock.
        self.note_release();
        self.report_end(kind, id);
    }
}

/// Returns `k` of *bounded(k)*, or 0.
fn bound(policy: Policy) -> u32 {
    match policy {
        Policy::Bounded { every } => every.get(),
        _ => 0,
    }
}

/// Returns the name of the program and of its runtime.
fn program(runtime: &str) -> String {
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(Path::file_name);
    match program {
        Some(program) => format!("{}: {runtime}", program.to_string_lossy()),
        None => runtime.to_string(),
    }
}

/// Returns the file that the environment names, for the next runtime that it is for.
fn from_environment() -> Option<PathBuf> {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let path = std::env::var_os(VARIABLE).filter(|path| !path.is_empty())?;
    let path = PathBuf::from(path);
    let process = std::process::id().to_string();
    let mut name: OsString = match path.file_name()?.to_str() {
        Some(name) => name.replace("%p", &process).into(),
        None => path.file_name()?.into(),
    };
    let before = TAKEN.fetch_add(1, Ordering::Relaxed);
    if before > 0 {
        name.push(format!(".{}", before + 1));
    }
    Some(path.with_file_name(name))
}

impl Builder {
    /// Records what the scheduler does into a file, for `corank trace` (feature `recording`).
    ///
    /// The recording has the last 65,536 events of each worker, also if the process crashes. A
    /// former file is replaced. The file takes 1 MiB for each worker and 11 MiB more, which stay
    /// mapped until the process ends. It must not be shortened meanwhile. A poll costs one or two
    /// readings of the processor's counter more, and two to four events. A process that was forked
    /// from this one records nothing.
    ///
    /// Without this call the variable `CORANK_RECORD` names the file. `%p` in its name becomes the
    /// process's number. A second runtime of the process records into a file with `.2` behind the
    /// name, and so on.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("shop.corank");
    /// let runtime = corank_linux::Builder::new().record(&path).build()?;
    /// runtime.block_on(corank_linux::yield_now());
    /// // Then: corank trace shop.corank
    /// # assert!(path.exists());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn record(mut self, path: impl Into<PathBuf>) -> Self {
        self.record = Some(path.into());
        self
    }

    /// Starts the recording, if there is to be one, as an observer of the builder.
    ///
    /// # Errors
    /// Fails if the file cannot be made, or if the order is not the exact one.
    pub(crate) fn start_recording(&mut self) -> io::Result<Option<&'static Recorder>> {
        let Some(path) = self.record.take().or_else(from_environment) else {
            return Ok(None);
        };
        if self.order_wanted() == Order::Bounded {
            let message = "a runtime of Order::Bounded cannot be recorded: use Order::Exact";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        let error = |error: io::Error| {
            let message = format!("cannot record into {}: {error}", path.display());
            io::Error::new(error.kind(), message)
        };
        let recorder = Recorder::begin(&path, self).map_err(error)?;
        // An executor refers to its observer as long as the program runs.
        let recorder: &'static Recorder = Box::leak(Box::new(recorder));
        self.observe_also(recorder);
        Ok(Some(recorder))
    }
}
