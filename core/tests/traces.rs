//! The core replays the conformance traces of `spec/traces/`, and agrees with the model on random scenes.

#![cfg(feature = "std")]

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use corank::key::Keys;
use corank::sync::{Channel, Event, Mutex, MutexGuard, Permit, Semaphore};
use corank::time::sleep_until;
use corank::{Config, CoroutineId, JoinError, Policy, Priority, Step, SystemView, yield_now};
use corank_model as model;
use corank_model::{
    Action, Answer, Feature, Home, Id, Op, Outcome, Question, Reply, Script, Settings, Stepped,
    TRACES, Trace, record_numbers, replay,
};
use proptest::prelude::*;

mod common;

use common::served::{Handle, Served};

/// An executor in the hands of the replayer.
#[derive(Default)]
struct CoreHome {
    inner: Rc<Inner>,
    /// It is one that several workers could share; one does.
    shared: bool,
}

#[derive(Default)]
struct Inner {
    executor: RefCell<Option<Rc<Served>>>,
    asks: Cell<bool>,
    elsewhere: Cell<Option<Priority>>,
    coroutines: RefCell<Vec<Coroutine>>,
    script: RefCell<Option<Script>>,
    shared: RefCell<Rc<Shared>>,
}

/// What the coroutines of a scene share.
#[derive(Default)]
struct Shared {
    mutexes: Vec<Mutex<()>>,
    semaphores: Vec<Semaphore>,
    events: Vec<Event>,
    channels: Vec<Box<dyn AnyChannel>>,
    keys: Keys,
}

/// A channel of any capacity.
trait AnyChannel {
    fn send(&self, message: u64) -> Pin<Box<dyn Future<Output = ()> + '_>>;
    fn receive(&self) -> Pin<Box<dyn Future<Output = u64> + '_>>;
}

impl<const N: usize> AnyChannel for Channel<u64, N> {
    fn send(&self, message: u64) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        let send = self.send(message);
        Box::pin(async { send.await.expect("nobody closes it") })
    }

    fn receive(&self) -> Pin<Box<dyn Future<Output = u64> + '_>> {
        let receive = self.receive();
        Box::pin(async { receive.await.expect("nobody closes it") })
    }
}

fn channel(capacity: u32) -> Box<dyn AnyChannel> {
    match capacity {
        1 => Box::new(Channel::<u64, 1>::new()),
        2 => Box::new(Channel::<u64, 2>::new()),
        3 => Box::new(Channel::<u64, 3>::new()),
        4 => Box::new(Channel::<u64, 4>::new()),
        _ => panic!("no trace has a channel of capacity {capacity}: add it here"),
    }
}

impl Shared {
    fn new(settings: &Settings) -> Self {
        Shared {
            mutexes: (0..settings.mutexes).map(|_| Mutex::new(())).collect(),
            semaphores: (settings.semaphores.iter())
                .map(|&permits| Semaphore::new(permits as usize))
                .collect(),
            events: (0..settings.events).map(|_| Event::new()).collect(),
            channels: settings.channels.iter().copied().map(channel).collect(),
            keys: Keys::new(),
        }
    }
}

/// What a coroutine holds, given back in the contract's order: the latest first (X9).
#[derive(Default)]
struct Held<'a>(Vec<Hold<'a>>);

#[expect(dead_code, reason = "guards are there to be dropped")]
enum Hold<'a> {
    Lock(usize, MutexGuard<'a, ()>),
    Permit(usize, Permit<'a>),
}

impl Hold<'_> {
    fn is(&self, op: Op) -> bool {
        match self {
            Hold::Lock(mutex, _) => op == Op::Unlock(*mutex),
            Hold::Permit(semaphore, _) => op == Op::Release(*semaphore),
        }
    }
}

impl Held<'_> {
    /// Gives back the latest thing that `op` is about; false if there is none.
    fn give_back(&mut self, op: Op) -> bool {
        let at = self.0.iter().rposition(|hold| hold.is(op));
        at.map(|at| drop(self.0.remove(at))).is_some()
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
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

    fn shared(&self) -> Rc<Shared> {
        self.shared.borrow().clone()
    }

    fn take_handle(&self, id: Id) -> Option<Handle<()>> {
        self.coroutines.borrow_mut()[id.0].handle.take()
    }

    fn spawn(self: &Rc<Self>, level: Option<u8>) -> Reply {
        let me = Id(self.coroutines.borrow().len());
        let polls = Rc::new(Cell::new(0));
        let priority = level.map_or(Some(Priority::DEFAULT), Priority::new);
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
            self.executor().spawn(priority, future).ok()
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

    /// What anyone can do.
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
            Op::Set(event) => self.shared().events[event].set(),
            Op::Reset(event) => self.shared().events[event].reset(),
            Op::SignalKey(key) => self.shared().keys.signal(key).expect("memory"),
            Op::Release(semaphore) => self.shared().semaphores[semaphore].release(),
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
            _ => return Reply::Invalid,
        }
        Reply::Done
    }

    fn look(&self, question: Question) -> Option<Answer> {
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
        Err(_) => Outcome::Panicked,
    }
}

/// What every coroutine does: whatever the script says.
async fn body(home: Rc<Inner>) {
    let shared = home.shared();
    let mut held = Held::default();
    loop {
        let script = home.script();
        match script.next() {
            Action::Ask(question) => script.answer(home.look(question)),
            Action::Do(op) if op.ends_poll() => {
                script.reply(Reply::Done);
                match op {
                    Op::Yield => yield_now().await,
                    Op::Block => block().await,
                    Op::Panic => std::panic::resume_unwind(Box::new("on purpose")),
                    _ => return,
                }
            }
            Action::Do(Op::Join(id)) => {
                let handle = home.take_handle(id).expect("a handle");
                if let Some(result) = Wait::new(&home, handle).await {
                    home.script().reply(Reply::Joined(outcome(result)));
                }
            }
            Action::Do(op) if op.may_wait() => {
                if let Some(reply) = wait(&home, &shared, &mut held, op).await {
                    home.script().reply(reply);
                }
            }
            Action::Do(op) if held.give_back(op) => script.reply(Reply::Done),
            Action::Do(op) => script.reply(home.apply(op)),
        }
    }
}

/// Waits in a primitive; `None` if the script had the future dropped.
async fn wait<'a>(home: &Inner, shared: &'a Shared, held: &mut Held<'a>, op: Op) -> Option<Reply> {
    match op {
        Op::Lock(mutex) => {
            let guard = Wait::new(home, shared.mutexes[mutex].lock()).await?;
            held.0.push(Hold::Lock(mutex, guard));
        }
        Op::Acquire(semaphore) => {
            let permit = Wait::new(home, shared.semaphores[semaphore].acquire()).await?;
            held.0.push(Hold::Permit(semaphore, permit));
        }
        Op::WaitEvent(event) => Wait::new(home, shared.events[event].wait()).await?,
        Op::Send(channel, message) => {
            Wait::new(home, shared.channels[channel].send(message)).await?;
        }
        Op::Receive(channel) => {
            let message = Wait::new(home, shared.channels[channel].receive()).await?;
            return Some(Reply::Received(message));
        }
        Op::WaitKey(key) => Wait::new(home, shared.keys.wait(key))
            .await?
            .expect("memory"),
        Op::Sleep(deadline) => Wait::new(home, sleep_until(deadline)).await?,
        _ => return Some(Reply::Invalid),
    }
    Some(Reply::Done)
}

/// Pending once.
async fn block() {
    let mut first = true;
    poll_fn(|_| match std::mem::take(&mut first) {
        true => Poll::Pending,
        false => Poll::Ready(()),
    })
    .await
}

/// A future of the core, awaited as the script says. Ends with `None` if it was dropped on the way.
struct Wait<'a, F> {
    home: &'a Inner,
    future: Option<Pin<Box<F>>>,
    began: bool,
}

impl<'a, F: Future> Wait<'a, F> {
    fn new(home: &'a Inner, future: F) -> Self {
        Wait {
            home,
            future: Some(Box::pin(future)),
            began: false,
        }
    }
}

impl<F: Future> Future for Wait<'_, F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let script = self.home.script();
        if std::mem::replace(&mut self.began, true) {
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

impl CoreHome {
    fn new(shared: bool) -> Self {
        CoreHome {
            inner: Rc::default(),
            shared,
        }
    }
}

impl Home for CoreHome {
    fn supports(&self, _feature: Feature) -> bool {
        true
    }

    fn start(&mut self, settings: &Settings) {
        let policy = match settings.policy {
            model::Policy::Strict => Policy::Strict,
            model::Policy::Bounded(every) => Policy::bounded(every),
        };
        let mut config = Config::new().policy(policy);
        if let Some(capacity) = settings.capacity {
            config = config.capacity(capacity);
        }
        let shared = self.shared;
        drop(std::mem::replace(self, CoreHome::new(shared)));
        self.inner
            .asks
            .set(settings.global == model::Global::Strict);
        *self.inner.shared.borrow_mut() = Rc::new(Shared::new(settings));
        *self.inner.executor.borrow_mut() = Some(Rc::new(Served::new(config, self.shared)));
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

    fn look(&mut self, question: Question) -> Option<Answer> {
        self.inner.look(question)
    }
}

impl Drop for CoreHome {
    fn drop(&mut self) {
        // The coroutines own the home, and the executor the coroutines.
        drop(self.inner.executor.take());
    }
}

fn replay_all(shared: bool) {
    let (mut failures, mut skipped) = (Vec::new(), Vec::new());
    for (name, text) in TRACES {
        let trace = Trace::parse(&format!("spec/traces/{name}.trace"), text).unwrap();
        match replay(&trace, &mut CoreHome::new(shared)) {
            Ok(report) => {
                assert_eq!(report.unanswered, 0);
                skipped.extend(report.skipped.map(|feature| (name, feature)));
            }
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    println!("skipped {} of {}: {skipped:?}", skipped.len(), TRACES.len());
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn the_core_replays_every_trace() {
    replay_all(false);
}

#[test]
fn a_shared_executor_replays_every_trace() {
    replay_all(true);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn core_and_model_agree(
        shared in any::<bool>(),
        share in 0u32..4,
        capacity in proptest::option::of(1usize..8),
        permits in 0u32..3,
        room in 1u32..3,
        numbers in proptest::collection::vec(any::<(u8, u8, u8)>(), 0..120),
    ) {
        let settings = Settings {
            policy: match share { 0 => model::Policy::Strict, every => model::Policy::Bounded(every) },
            capacity,
            mutexes: 3,
            semaphores: vec![permits, 0],
            events: 2,
            channels: vec![room],
            ..Settings::default()
        };
        let mut home = CoreHome::new(shared);
        let trace = record_numbers("random", &settings, |feature| home.supports(feature), numbers);
        let report = replay(&trace, &mut home);
        prop_assert!(report.is_ok(), "{}\n{trace}", report.unwrap_err());
    }
}
