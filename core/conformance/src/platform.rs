//! The platform that the replayer drives, and the replay of every trace.
//!
//! The core's own tests include this file, because depending on the crate would choose the core's
//! features for them.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::primitives::{Got, Held, Shared, primitives};
use super::served::{Handle, Served, Workers};
use corank::{
    Config, CoroutineId, Demotion, JoinError, Policy, Priority, Step, SystemView, yield_now,
};
use corank_model as model;
use corank_model::{
    Action, Answer, Failure, Feature, Id, Op, Outcome, Platform, Question, Reply, Script, Settings,
    Stepped, Trace, replay,
};

/// The result of replaying all traces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The number of traces that the core went through as they say.
    pub passed: usize,
    /// The names of the traces that need what this platform does not have.
    pub skipped: Vec<&'static str>,
    /// The places where the core did something else, one in each of the other traces.
    pub failures: Vec<Failure>,
}

/// The counts, and what was skipped.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (passed, failed) = (self.passed, self.failures.len());
        let skipped = self.skipped.len();
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")?;
        match skipped {
            0 => Ok(()),
            _ => write!(f, ": {}", self.skipped.join(", ")),
        }
    }
}

/// Replays `traces`, each a name and a text, each on a fresh executor that these workers serve.
///
/// # Panics
/// If a question of a trace cannot be answered.
#[must_use]
pub fn replay_all(
    traces: impl Iterator<Item = &'static (&'static str, &'static str)>,
    workers: Workers,
) -> Verdict {
    replay_on(traces, &mut CorePlatform::new(workers))
}

/// Replays `traces` as [`replay_all`] does, on a platform of another kind.
///
/// # Panics
/// If a question of a trace cannot be answered.
#[must_use]
pub fn replay_on(
    traces: impl Iterator<Item = &'static (&'static str, &'static str)>,
    platform: &mut CorePlatform,
) -> Verdict {
    let mut verdict = Verdict::default();
    for (name, text) in traces {
        let file = format!("spec/traces/{name}.trace");
        let trace = Trace::parse(&file, text).expect("the traces are well-formed");
        match replay(&trace, platform) {
            Ok(report) => {
                assert_eq!(report.unanswered, 0, "{file}");
                match report.skipped {
                    Some(_) => verdict.skipped.push(name),
                    None => verdict.passed += 1,
                }
            }
            Err(failure) => verdict.failures.push(failure),
        }
    }
    verdict
}

#[cfg(feature = "std")]
fn panic_on_purpose() -> ! {
    std::panic::resume_unwind(Box::new("on purpose"))
}

#[cfg(not(feature = "std"))]
fn panic_on_purpose() -> ! {
    unreachable!("traces with panics are skipped")
}

/// An executor that the replayer drives.
pub struct CorePlatform {
    inner: Rc<Inner>,
    serve: Serve,
    limit_memory: Option<LimitMemory>,
}

/// Lets so many more allocations of this thread succeed, or all again.
pub type LimitMemory = fn(Option<usize>);

/// What a user of the platform adds to the configuration of each scene's executor.
pub type Configure = Rc<dyn Fn(Config, &Settings) -> Config>;

/// Makes the executor of a scene, with what polls its coroutines.
type Serve = Rc<dyn Fn(Config, &Settings) -> Served>;

#[derive(Default)]
struct Inner {
    executor: RefCell<Option<Rc<Served>>>,
    asks: Cell<bool>,
    elsewhere: Cell<Option<Priority>>,
    coroutines: RefCell<Vec<Coroutine>>,
    script: RefCell<Option<Script>>,
    shared: RefCell<Option<Rc<dyn Shared>>>,
    limit_memory: Cell<Option<LimitMemory>>,
}

struct Coroutine {
    id: Option<CoroutineId>,
    handle: Option<Handle<()>>,
    polls: Rc<Cell<u32>>,
}

impl SystemView for Inner {
    fn most_urgent_elsewhere(&self) -> Option<Priority> {
        self.elsewhere.get().filter(|_| self.asks.get())
    }
}

impl Inner {
    fn executor(&self) -> Rc<Served> {
        self.executor.borrow().clone().expect("a scene has begun")
    }

    fn script(&self) -> Script {
        self.script.borrow().clone().expect("a step has begun")
    }

    fn id(&self, id: Id) -> Option<CoroutineId> {
        self.coroutines.borrow()[id.0].id
    }

    fn shared(&self) -> Rc<dyn Shared> {
        self.shared.borrow().clone().expect("a scene has begun")
    }

    fn take_handle(&self, id: Id) -> Option<Handle<()>> {
        self.coroutines.borrow_mut()[id.0].handle.take()
    }

    fn spawn(self: &Rc<Self>, level: Option<u8>) -> Reply {
        let me = Id(self.coroutines.borrow().len());
        let polls = Rc::new(Cell::new(0));
        let priority = level.map_or(Some(Priority::DEFAULT), Priority::new);
        let limit_memory = (self.limit_memory.get()).zip(level.filter(|_| priority.is_none()));
        let priority = match limit_memory {
            Some((_, level)) => Priority::new(level & 63),
            None => priority,
        };
        let handle = priority.and_then(|priority| {
            let mut body = Box::pin(body(self.clone()));
            let (inner, polls) = (self.clone(), polls.clone());
            let future = poll_fn(move |cx| {
                polls.set(polls.get() + 1);
                match inner.script().enter(me) {
                    true => body.as_mut().poll(cx),
                    false => Poll::Pending,
                }
            });
            let executor = self.executor();
            let Some((limit, level)) = limit_memory else {
                return executor.spawn(priority, future).ok();
            };
            limit(Some(usize::from(level & 1)));
            let spawned = executor.spawn(priority, future);
            limit(None);
            // It needed less memory than that.
            if let Ok(handle) = spawned {
                executor.cancel(handle.id());
            }
            None
        });
        let reply = if handle.is_some() {
            Reply::Done
        } else {
            Reply::Refused
        };
        let id = handle.as_ref().map(Handle::id);
        self.coroutines
            .borrow_mut()
            .push(Coroutine { id, handle, polls });
        reply
    }

    /// Applies an operation that is open to coroutines and to the outside alike.
    fn apply(self: &Rc<Self>, op: Op) -> Reply {
        let done = |done: bool| if done { Reply::Done } else { Reply::Refused };
        let executor = self.executor();
        match op {
            Op::Spawn(level) => return self.spawn(level),
            Op::Wake(id) => {
                if let Some(id) = self.id(id) {
                    executor.wake(id);
                }
            }
            Op::Reprioritize(id, level) => {
                let change = |(id, level)| executor.reprioritize(id, level);
                return done(self.id(id).zip(Priority::new(level)).is_some_and(change));
            }
            Op::Cancel(id) => return done(self.id(id).is_some_and(|id| executor.cancel(id))),
            Op::Detach(id) => drop(self.take_handle(id)),
            Op::Advance(now) => {
                executor.advance(now);
            }
            Op::Elsewhere(level) => self.elsewhere.set(level.and_then(Priority::new)),
            Op::TakeResult(id) => match self.take_handle(id).expect("a handle").try_join() {
                Ok(result) => return Reply::Joined(outcome(result)),
                Err(handle) => {
                    self.coroutines.borrow_mut()[id.0].handle = Some(handle);
                    return Reply::NotYet;
                }
            },
            _ if self.shared().apply(op) => {}
            _ => return Reply::Invalid,
        }
        Reply::Done
    }

    fn observe(&self, question: Question) -> Option<Answer> {
        let executor = self.executor();
        Some(match question {
            Question::State(id) => {
                Answer::State(match self.id(id).and_then(|id| executor.state(id)) {
                    Some(corank::State::Ready) => model::State::Ready,
                    Some(corank::State::Running) => model::State::Running,
                    Some(corank::State::Blocked) => model::State::Blocked,
                    _ => model::State::Exited,
                })
            }
            Question::Level(id) => {
                let level = self.id(id).and_then(|id| executor.priority(id));
                Answer::Level(level.map(Priority::level))
            }
            Question::Polls(id) => Answer::Polls(self.coroutines.borrow()[id.0].polls.get()),
            Question::Bitmap => Answer::Bitmap(executor.ready().bits()),
            Question::Running => Answer::Level(
                executor
                    .published()
                    .running()
                    .most_urgent()
                    .map(Priority::level),
            ),
        })
    }
}

fn outcome(result: Result<(), JoinError>) -> Outcome {
    match result {
        Ok(()) => Outcome::Finished,
        Err(JoinError::Cancelled) => Outcome::Cancelled,
        #[allow(unreachable_patterns, reason = "without `std` there is no other error")]
        Err(_) => Outcome::Panicked,
    }
}

/// Does whatever the script says, as the body of every coroutine.
async fn body(platform: Rc<Inner>) {
    let shared = platform.shared();
    let mut held = Held::default();
    loop {
        let script = platform.script();
        match script.next() {
            Action::Ask(question) => script.answer(platform.observe(question)),
            Action::Do(op) if op.ends_poll() => {
                script.reply(Reply::Done);
                match op {
                    Op::Yield => yield_now().await,
                    Op::Block => block().await,
                    Op::Panic => panic_on_purpose(),
                    _ => return,
                }
            }
            Action::Do(Op::Join(id)) => {
                let handle = platform.take_handle(id).expect("a handle");
                if let Some(result) = Wait::new(&platform, handle).await {
                    platform.script().reply(Reply::Joined(outcome(result)));
                }
            }
            Action::Do(op) if op.may_wait() => {
                if let Some(reply) = wait(&platform, &*shared, &mut held, op).await {
                    platform.script().reply(reply);
                }
            }
            Action::Do(op) if held.give_back(op) => script.reply(Reply::Done),
            Action::Do(op) => script.reply(platform.apply(op)),
        }
    }
}

/// Waits in a primitive.
///
/// Returns `None` if the script had the future dropped.
async fn wait<'a>(
    platform: &Inner,
    shared: &'a dyn Shared,
    held: &mut Held<'a>,
    op: Op,
) -> Option<Reply> {
    let Some(future) = shared.wait(op) else {
        return Some(Reply::Invalid);
    };
    Some(match Wait::new(platform, future).await? {
        Got::Nothing => Reply::Done,
        Got::Message(message) => Reply::Received(message),
        Got::Hold(hold) => {
            held.0.push(hold);
            Reply::Done
        }
    })
}

/// Returns pending once.
async fn block() {
    let mut first = true;
    poll_fn(|_| match core::mem::take(&mut first) {
        true => Poll::Pending,
        false => Poll::Ready(()),
    })
    .await
}

/// A future of the core, awaited as the script says.
///
/// It ends with `None` if the future was dropped on the way.
struct Wait<'a, F> {
    platform: &'a Inner,
    future: Option<Pin<Box<F>>>,
    began: bool,
}

impl<'a, F: Future> Wait<'a, F> {
    fn new(platform: &'a Inner, future: F) -> Self {
        Wait {
            platform,
            future: Some(Box::pin(future)),
            began: false,
        }
    }
}

impl<F: Future> Future for Wait<'_, F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let script = self.platform.script();
        if core::mem::replace(&mut self.began, true) {
            match script.next() {
                Action::Do(Op::Resume) => {}
                Action::Do(Op::Abandon) => {
                    self.future = None;
                    script.reply(Reply::Done);
                    return Poll::Ready(None);
                }
                _ => return Poll::Pending, // the replay has failed before
            }
        }
        let Some(future) = &mut self.future else {
            return Poll::Ready(None);
        };
        let polled = future.as_mut().poll(cx).map(Some);
        if polled.is_pending() {
            script.reply(Reply::Waits);
        }
        polled
    }
}

impl CorePlatform {
    /// Creates the platform, before its first scene.
    #[must_use]
    pub fn new(workers: Workers) -> Self {
        Self::configured(workers, Rc::new(|config, _| config))
    }

    /// Creates the platform, whose executors `configure` may let an observer watch.
    #[must_use]
    pub fn configured(workers: Workers, configure: Configure) -> Self {
        Self::served(Rc::new(move |config, settings| {
            Served::new(configure(config, settings), workers)
        }))
    }

    /// Creates the platform, whose executors `serve` makes.
    pub(crate) fn served(serve: Serve) -> Self {
        CorePlatform {
            inner: Rc::default(),
            serve,
            limit_memory: None,
        }
    }

    /// Lets memory run out in each spawn at a level that does not exist, which must be refused.
    ///
    /// Such a spawn is made at another level, with memory for one allocation or none.
    #[must_use]
    pub fn without_memory(mut self, limit: LimitMemory) -> Self {
        self.limit_memory = Some(limit);
        self
    }
}

impl Platform for CorePlatform {
    fn supports(&self, feature: Feature) -> bool {
        feature != Feature::Panic || cfg!(feature = "std")
    }

    fn start(&mut self, settings: &Settings) {
        let policy = match settings.policy {
            model::Policy::Strict => Policy::Strict,
            model::Policy::Bounded(every) => Policy::bounded(every),
        };
        let mut config = Config::new().policy(policy);
        if let Some(demotion) = settings.demotion {
            let polls = u8::try_from(demotion.quantum).unwrap_or(u8::MAX);
            config = config.demotion(Demotion::after_polls(polls).levels(demotion.levels));
        }
        if let Some(capacity) = settings.capacity {
            config = config.capacity(capacity);
        }
        let mut fresh = Self::served(self.serve.clone());
        fresh.limit_memory = self.limit_memory;
        fresh.inner.limit_memory.set(self.limit_memory);
        drop(core::mem::replace(self, fresh));
        self.inner
            .asks
            .set(settings.global == model::Global::Strict);
        let executor = (self.serve)(config, settings);
        *self.inner.shared.borrow_mut() = Some(primitives(settings, &executor));
        *self.inner.executor.borrow_mut() = Some(Rc::new(executor));
    }

    fn apply(&mut self, op: Op) -> Reply {
        self.inner.apply(op)
    }

    fn step(&mut self, script: &Script) -> Stepped {
        *self.inner.script.borrow_mut() = Some(script.clone());
        match self.inner.executor().step_under(&*self.inner) {
            Step::Ran => Stepped::Ran,
            Step::Idle => Stepped::Idle,
            Step::Elsewhere => Stepped::GaveWay,
        }
    }

    fn observe(&mut self, question: Question) -> Option<Answer> {
        self.inner.observe(question)
    }
}

impl Drop for CorePlatform {
    fn drop(&mut self) {
        // The coroutines own the platform, and the executor the coroutines.
        drop(self.inner.executor.take());
    }
}
