//! The settings of a runtime.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use corank::{Config, Demotion, Policy, Priority};
use corank_figures::Figures;

use crate::blocked::{Blocked, BlockedReport};
use crate::class::Class;
use crate::spare_pool::{SHORTEST, SPARE_WORKER_AFTER};
use crate::{budget, time};

/// The order in which the workers of a runtime take what is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// One set of queues: each worker takes the most urgent coroutine that no worker serves.
    ///
    /// For a handful of workers. All features of a runtime work.
    #[default]
    Exact,
    /// A set of queues for each worker, a *shard*, with a bound on inversions among them.
    ///
    /// For many workers, or for very short polls on a few. Before each poll a worker checks
    /// whether another shard has something strictly more urgent than its own, and takes that. So a
    /// worker begins at most one poll after something more urgent has become ready in another
    /// shard, and only within the moment between its check and that poll.
    ///
    /// A coroutine belongs to the shard on which it was spawned: that of the coroutine that spawned
    /// it, unless that shard has many more coroutines than another one. Locks, channels and joins
    /// work among all of them, but **priorities are inherited within a shard only**. A waiter of
    /// another shard counts as [`Priority::DEFAULT`] and donates nothing. Primitives of
    /// [`sync`](crate::sync) belong to the shard of the coroutine that makes them.
    ///
    /// Such a runtime has no spare workers, no threads of a class for bulk work, does not host
    /// tokio, joins no domain, does not count its coroutines, and has at most 64 workers.
    Bounded,
}

/// Configures and starts a runtime.
///
/// ```
/// use corank_linux::{Builder, Policy};
///
/// let runtime = Builder::new()
///     .workers(2)
///     .policy(Policy::bounded(16))
///     .name("server")
///     .build()?;
/// assert_eq!(runtime.block_on(async { 1 + 1 }), 2);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    workers: Option<NonZeroUsize>,
    order: Order,
    policy: Policy,
    demotion: Option<Demotion>,
    capacity: usize,
    name: String,
    blocked_report: Option<BlockedReport>,
    #[cfg(feature = "hooks")]
    observer: Option<Observes>,
    #[cfg(feature = "metrics")]
    counts: bool,
    #[cfg(feature = "recording")]
    pub(crate) record: Option<std::path::PathBuf>,
    spare_after: Option<Duration>,
    /// Whether `spare_after` was asked for.
    wants_spares: bool,
    bulk: Option<(Priority, Class)>,
    #[cfg(feature = "domain")]
    domain: Option<corank_domain::Domain>,
    #[cfg(feature = "tokio")]
    tokio: Option<Priority>,
}

/// The observer of a builder.
#[cfg(feature = "hooks")]
#[derive(Clone, Copy)]
struct Observes(&'static dyn corank::Observer);

#[cfg(feature = "hooks")]
impl std::fmt::Debug for Observes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Observer")
    }
}

impl Builder {
    /// Returns the default settings: a worker for each processor that this process may use, strict
    /// priorities, and as many coroutines as memory allows.
    pub fn new() -> Self {
        Self {
            workers: None,
            order: Order::Exact,
            policy: Policy::Strict,
            demotion: None,
            capacity: usize::MAX,
            name: "corank".to_string(),
            blocked_report: None,
            #[cfg(feature = "hooks")]
            observer: None,
            #[cfg(feature = "metrics")]
            counts: false,
            #[cfg(feature = "recording")]
            record: None,
            spare_after: Some(SPARE_WORKER_AFTER),
            wants_spares: false,
            bulk: None,
            #[cfg(feature = "domain")]
            domain: None,
            #[cfg(feature = "tokio")]
            tokio: None,
        }
    }

    /// Sets the number of workers: threads that run coroutines.
    ///
    /// # Panics
    /// Panics if `workers` is 0.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(NonZeroUsize::new(workers).expect("a runtime has at least one worker"));
        self
    }

    /// Sets the order in which the workers take what is ready: [`Order::Exact`], unless this is
    /// called.
    ///
    /// ```
    /// use corank_linux::{Builder, Order};
    ///
    /// let runtime = Builder::new().workers(2).order(Order::Bounded).build()?;
    /// assert_eq!(runtime.block_on(async { 1 + 1 }), 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Returns the order.
    ///
    /// # Errors
    /// Fails if the builder asked for something that a runtime of this order cannot have.
    pub(crate) fn checked_order(&self) -> io::Result<Order> {
        if self.order == Order::Exact {
            return Ok(self.order);
        }
        #[cfg(feature = "domain")]
        let is_in_domain = self.domain.is_some();
        #[cfg(not(feature = "domain"))]
        let is_in_domain = false;
        #[cfg(feature = "tokio")]
        let hosts_tokio = self.tokio.is_some();
        #[cfg(not(feature = "tokio"))]
        let hosts_tokio = false;
        #[cfg(feature = "metrics")]
        let counts = self.counts;
        #[cfg(not(feature = "metrics"))]
        let counts = false;
        let what = if is_in_domain {
            "join a domain"
        } else if counts {
            // One observer counts by the slots of one table.
            "count its coroutines"
        } else if hosts_tokio {
            "host tokio"
        } else if self.bulk.is_some() {
            "have threads of a class for bulk work"
        } else if self.wants_spares {
            "have spare workers"
        } else if self.workers_wanted() > corank::ShardedExecutor::MOST_SHARDS {
            "have more than 64 workers"
        } else {
            return Ok(self.order);
        };
        let message = format!(
            "a runtime of Order::Bounded cannot {what}: leave that out, or use Order::Exact"
        );
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }

    /// Sets the policy that chooses the next coroutine.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Lets coroutines that compute for long be passed over by short ones.
    ///
    /// For loads with a heavy tail: most requests are short and a few are long, and nothing tells
    /// which in advance. A long one has to yield now and then. Without this call none is
    /// demoted.
    ///
    /// ```
    /// use std::time::Duration;
    /// use corank_linux::{Builder, Demotion};
    ///
    /// // After 50 µs behind its own level, after 100 µs behind all levels.
    /// let demotion = Demotion::after(Duration::from_micros(50)).levels(63);
    /// let runtime = Builder::new().workers(2).demotion(demotion).build()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn demotion(mut self, demotion: Demotion) -> Self {
        self.demotion = Some(demotion);
        self
    }

    /// Limits the coroutines that have not exited.
    ///
    /// One more is refused with [`SpawnError::TableFull`](corank::SpawnError::TableFull).
    pub fn capacity(mut self, coroutines: usize) -> Self {
        self.capacity = coroutines;
        self
    }

    /// Names the runtime's threads: this name, a hyphen and a number.
    ///
    /// Linux shows the first 15 bytes.
    ///
    /// # Panics
    /// Panics if the name has a zero byte.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        assert!(
            !name.contains('\0'),
            "a thread's name must not have a zero byte"
        );
        self.name = name;
        self
    }

    /// Calls `report` for each worker that one poll keeps for `after` or longer, and again whenever
    /// that time has doubled.
    ///
    /// A report is up to a few milliseconds late ([`WATCHDOG_TICK`](crate::WATCHDOG_TICK)).
    /// `report` runs on the watchdog's thread: it may block, but delays other reports. With the
    /// feature `tracing`, `trace::blocked` makes an event of each.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = corank_linux::Builder::new()
    ///     .on_blocked(Duration::from_millis(20), |blocked| eprintln!("{blocked}"))
    ///     .build()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_blocked(
        mut self,
        after: Duration,
        report: impl Fn(&Blocked) + Send + Sync + 'static,
    ) -> Self {
        let report = Arc::new(report);
        self.blocked_report = Some(BlockedReport { after, report });
        self
    }

    /// Calls an observer at each transition of a coroutine (feature `hooks`).
    ///
    /// It is called under the executor's lock, so other workers wait meanwhile.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use corank_linux::{Builder, CoroutineId, Observer, Priority};
    ///
    /// struct Polls(AtomicU32);
    /// // SAFETY: it counts, and calls nothing of Corank.
    /// unsafe impl Observer for Polls {
    ///     fn poll_started(&self, _: CoroutineId, _: Priority) {
    ///         self.0.fetch_add(1, Ordering::Relaxed);
    ///     }
    /// }
    /// static POLLS: Polls = Polls(AtomicU32::new(0));
    ///
    /// let runtime = Builder::new().observer(&POLLS).build()?;
    /// runtime.block_on(corank_linux::yield_now());
    /// assert_eq!(POLLS.0.load(Ordering::Relaxed), 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(feature = "hooks")]
    pub fn observer(mut self, observer: &'static dyn corank::Observer) -> Self {
        self.observer = Some(Observes(observer));
        self
    }

    /// Counts the coroutines by level, for [`Runtime::metrics`](crate::Runtime::metrics) (feature
    /// `metrics`).
    ///
    /// That costs three readings of the clock for each poll and some counting: about 140 ns, during
    /// most of which other workers wait for the executor's lock. Without this
    /// call, which is the default, a poll costs nothing more. The counters take 150 KB, which stay
    /// allocated when the runtime has gone, and 24 bytes for each coroutine.
    ///
    /// ```
    /// use corank_linux::{Builder, Priority, yield_now};
    ///
    /// let runtime = Builder::new().metrics(true).build()?;
    /// runtime.block_on_at(Priority::URGENT, yield_now());
    /// let coroutines = runtime.metrics().coroutines.expect("they are counted");
    /// assert_eq!(coroutines.levels[0].level, Priority::URGENT);
    /// assert_eq!(coroutines.levels[0].polls, 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(feature = "metrics")]
    pub fn metrics(mut self, counts: bool) -> Self {
        self.counts = counts;
        self
    }

    /// Adds the observer that counts coroutines, if they are to be counted, to that of the builder;
    /// returns where it counts.
    ///
    /// That is `page`, which other processes read, if there is one.
    #[cfg(any(feature = "figures", feature = "metrics"))]
    pub(crate) fn count_coroutines(
        &mut self,
        page: Option<&'static Figures>,
    ) -> Option<&'static Figures> {
        let is_wanted = cfg!(feature = "figures") && page.is_some();
        #[cfg(feature = "metrics")]
        let is_wanted = is_wanted || self.counts;
        if !is_wanted {
            return None;
        }
        // An executor refers to its observer as long as the program runs.
        let figures = page.unwrap_or_else(|| Box::leak(Box::new(Figures::new())));
        let counter = corank_figures::Counter::new(figures, time::monotonic);
        let bulk = self.bulk.map(|(from, _)| from);
        // The page is that of this runtime alone.
        let counter = counter.workers(self.workers_wanted(), bulk).alone();
        let counter: &'static dyn corank::Observer = Box::leak(Box::new(counter));
        self.observe_also(counter);
        Some(figures)
    }

    /// Adds an observer to that of the builder.
    #[cfg(any(feature = "figures", feature = "metrics", feature = "recording"))]
    pub(crate) fn observe_also(&mut self, other: &'static dyn corank::Observer) {
        self.observer = Some(Observes(match self.observer {
            None => other,
            Some(Observes(own)) => Box::leak(Box::new(crate::observers::Both(own, other))),
        }));
    }

    #[cfg(not(any(feature = "figures", feature = "metrics")))]
    pub(crate) fn count_coroutines(
        &self,
        _page: Option<&'static Figures>,
    ) -> Option<&'static Figures> {
        None
    }

    pub(crate) fn blocked_report(&self) -> Option<BlockedReport> {
        self.blocked_report.clone()
    }

    /// Sets the time after which a *spare worker* takes over for what is urgent, or `None` for no
    /// spare workers.
    ///
    /// If something is ready that is strictly more urgent than the polls of the workers, and no
    /// poll ends within this time, a spare worker polls it: a thread of its own, with a short slice
    /// of the processor where Linux has that (6.12 or later). It takes only what is more urgent,
    /// and until a worker comes back. So the number of threads that poll less urgent work stays
    /// that of [`workers`](Self::workers).
    ///
    /// The default is [`SPARE_WORKER_AFTER`](crate::SPARE_WORKER_AFTER); less than 20 µs counts as
    /// 20 µs. The first long poll after a time without any is taken over after up to two ticks of
    /// the watchdog ([`WATCHDOG_TICK`](crate::WATCHDOG_TICK)) more. While polls are short, spare
    /// workers cost nothing. They are started when first needed.
    ///
    /// ```
    /// // For a program with deadlines of its own for each poll.
    /// let runtime = corank_linux::Builder::new().spare_workers(None).build()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn spare_workers(mut self, after: Option<Duration>) -> Self {
        self.wants_spares = after.is_some();
        self.spare_after = after.map(|after| after.max(SHORTEST));
        self
    }

    /// Leaves the levels `from` and less urgent to threads of their own, which Linux schedules by
    /// `class`: as many as there are [`workers`](Self::workers).
    ///
    /// The workers then take only what is more urgent. So urgent work always has a thread of the
    /// ordinary class, and Linux puts that before the bulk work, of this process and of others. The
    /// threads for bulk work stay in their class, which needs no privileges. Blocking calls of
    /// coroutines on these levels ([`spawn_blocking`](crate::spawn_blocking)) run in the class,
    /// too: that of the first runtime of the process with this setting.
    ///
    /// It is for bulk work whose polls last for a millisecond or more. With short polls, a thread
    /// for bulk work that Linux leaves aside may hold the executor's lock. Picks are strict,
    /// whatever the [`policy`](Self::policy). Spare workers serve the levels of the workers only.
    /// A coroutine that inherits a more urgent level in the midst of a poll stays on its thread
    /// until the poll ends.
    ///
    /// ```
    /// use corank_linux::{Builder, Class, Priority};
    ///
    /// let reports = Priority::new(48).expect("below 64");
    /// let runtime = Builder::new().workers(2).bulk(reports, Class::Idle).build()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Panics
    /// Panics if `from` is level 0: nothing would be left for the workers.
    pub fn bulk(mut self, from: Priority, class: Class) -> Self {
        assert!(
            from != Priority::MOST_URGENT,
            "level 0 is for the workers: leave at least one level to them"
        );
        self.bulk = Some((from, class));
        self
    }

    pub(crate) fn bulk_class(&self) -> Option<(Priority, Class)> {
        self.bulk
    }

    pub(crate) fn spare_after(&self) -> Option<Duration> {
        if self.order == Order::Bounded {
            return None;
        }
        #[cfg(feature = "tokio")]
        if self.tokio.is_some() {
            return None;
        }
        self.spare_after
    }

    /// Shares priorities with the other processes of a domain.
    ///
    /// If there are more busy workers than processors, the workers with the most urgent ready
    /// coroutines run, in whatever process, and the others step aside. Workers for which the domain
    /// has no room run without it.
    ///
    /// `corank top` shows the processes of a domain. With the feature `figures` it also shows the
    /// runtime's coroutines. That costs about 140 ns for each poll, as `Builder::metrics` does.
    #[cfg(feature = "domain")]
    pub fn domain(mut self, domain: corank_domain::Domain) -> Self {
        self.domain = Some(domain);
        self
    }

    /// Joins the domain, if one is set, and takes it out of the builder.
    #[cfg(feature = "domain")]
    pub(crate) fn join(&mut self) -> io::Result<Option<corank_domain::Participant>> {
        let domain = self.domain.take();
        (domain.map(corank_domain::Domain::join).transpose()).map_err(io::Error::other)
    }

    /// Makes all of tokio work in this runtime: its I/O, timers, tasks, files, processes, signals.
    ///
    /// The workers become the threads of a tokio runtime. Coroutines may await futures of both
    /// kinds. What code gives to `tokio::spawn` is a task of tokio, which all workers help to run;
    /// all such tasks together have `level`, and first come is first served among them. With
    /// [`PriorityLayer`](crate::tower::PriorityLayer) or [`spawn`](crate::spawn) a part of such a
    /// task runs on a level of its own.
    ///
    /// Coroutines that are at least as urgent as `level` share the workers with tokio's tasks: a
    /// worker that has polled coroutines for 25 µs polls up to sixteen tasks. Less urgent
    /// coroutines run when no task of tokio is ready, and after 16 such turns. A coroutine that
    /// becomes ready while all workers poll tasks of tokio usually runs after the first of these
    /// polls. It waits no longer than two ticks of the watchdog
    /// ([`WATCHDOG_TICK`](crate::WATCHDOG_TICK)) and three polls.
    ///
    /// Such a runtime has no spare workers, so a long poll belongs into `spawn_blocking` or tokio's
    /// `block_in_place`. It cannot join a domain or have threads of a class for bulk work.
    ///
    /// ```
    /// use std::time::Duration;
    /// use corank_linux::{Builder, Priority};
    ///
    /// let runtime = Builder::new().workers(1).tokio(Priority::DEFAULT).build()?;
    /// let answer = runtime.block_on(async {
    ///     let task = tokio::spawn(async { 6 * 7 });
    ///     tokio::time::sleep(Duration::from_millis(1)).await;
    ///     task.await
    /// });
    /// assert_eq!(answer.unwrap(), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(feature = "tokio")]
    pub fn tokio(mut self, level: Priority) -> Self {
        self.tokio = Some(level);
        self
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn tokio_level(&self) -> Option<Priority> {
        self.tokio
    }

    #[cfg(feature = "recording")]
    pub(crate) fn policy_wanted(&self) -> Policy {
        self.policy
    }

    #[cfg(feature = "recording")]
    pub(crate) fn order_wanted(&self) -> Order {
        self.order
    }

    /// Tests whether coroutines that compute for long are demoted.
    #[cfg(feature = "recording")]
    pub(crate) fn demotes(&self) -> bool {
        self.demotion.is_some()
    }

    pub(crate) fn workers_wanted(&self) -> usize {
        let workers = self
            .workers
            .or_else(|| thread::available_parallelism().ok());
        workers.map_or(1, NonZeroUsize::get)
    }

    pub(crate) fn thread_name(&self) -> &str {
        &self.name
    }

    pub(crate) fn capacity_wanted(&self) -> usize {
        self.capacity
    }

    /// Returns the configuration of an executor, or of a shard, of this capacity.
    pub(crate) fn config(&self, capacity: usize) -> Config {
        let config = Config::new()
            .policy(self.policy)
            .capacity(capacity)
            .clock(time::clock)
            .budget(budget::OPERATIONS, budget::TIME_IN_A_ROW);
        let config = match self.demotion {
            Some(demotion) => config.demotion(demotion),
            None => config,
        };
        #[cfg(feature = "hooks")]
        if let Some(Observes(observer)) = self.observer {
            return config.observer(observer);
        }
        config
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}
