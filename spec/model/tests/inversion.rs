//! A platform with inverted control, as in every real one. The coroutines are futures, and perform
//! the operations of the trace themselves when the executor polls them.
//!
//! The executor is minimal: levels, spawn, wake, re-prioritise. It skips the traces that need more.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use corank_model::{
    Action, Answer, Feature, Id, Op, Platform, Question, Reply, Script, Settings, State, Stepped,
    TRACES, Trace, replay,
};

#[derive(Default)]
struct Executor {
    coroutines: RefCell<Vec<Coroutine>>,
    /// The level and the coroutine, in the order in which they became ready.
    ready: RefCell<Vec<(u8, Id)>>,
    running: Cell<Option<Id>>,
    script: RefCell<Option<Script>>,
    /// A fault: the last in a level goes first.
    last_first: bool,
}

struct Coroutine {
    level: u8,
    state: State,
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    woken: Arc<Woken>,
    polls: u32,
}

/// The waker of the running coroutine, which remembers the wake (W3).
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Executor {
    fn enter_queue(&self, id: Id) {
        let coroutine = &mut self.coroutines.borrow_mut()[id.0];
        coroutine.state = State::Ready;
        self.ready.borrow_mut().push((coroutine.level, id));
    }

    fn spawn(self: &Rc<Self>, level: Option<u8>) -> Reply {
        let level = level.unwrap_or(32);
        let id = Id(self.coroutines.borrow().len());
        let refused = level > 63;
        self.coroutines.borrow_mut().push(Coroutine {
            level,
            state: State::Exited,
            future: (!refused).then(|| Box::pin(coroutine(self.clone(), id)) as Pin<Box<_>>),
            woken: Arc::default(),
            polls: 0,
        });
        if refused {
            return Reply::Refused;
        }
        self.enter_queue(id);
        Reply::Done
    }

    fn wake(&self, id: Id) {
        let state = self.coroutines.borrow()[id.0].state;
        match state {
            State::Blocked => self.enter_queue(id),
            State::Running => self.coroutines.borrow()[id.0].woken.clone().wake(),
            State::Ready | State::Exited => {}
        }
    }

    fn reprioritize(&self, id: Id, level: u8) -> Reply {
        let (old, state) = {
            let coroutine = &mut self.coroutines.borrow_mut()[id.0];
            if level > 63 || coroutine.state == State::Exited {
                return Reply::Refused;
            }
            (
                std::mem::replace(&mut coroutine.level, level),
                coroutine.state,
            )
        };
        if state == State::Ready && old != level {
            self.ready.borrow_mut().retain(|&(_, other)| other != id);
            self.enter_queue(id);
        }
        Reply::Done
    }

    fn apply(self: &Rc<Self>, op: Op) -> Reply {
        match op {
            Op::Spawn(level) => self.spawn(level),
            Op::Reprioritize(id, level) => self.reprioritize(id, level),
            Op::Wake(id) => {
                self.wake(id);
                Reply::Done
            }
            _ => Reply::Invalid,
        }
    }

    fn observe(&self, question: Question) -> Answer {
        let coroutines = self.coroutines.borrow();
        match question {
            Question::State(id) => Answer::State(coroutines[id.0].state),
            Question::Level(id) => Answer::Level(Some(coroutines[id.0].level)),
            Question::Polls(id) => Answer::Polls(coroutines[id.0].polls),
            Question::Bitmap => {
                let ready = self.ready.borrow();
                Answer::Bitmap(ready.iter().fold(0, |bits, &(level, _)| bits | 1 << level))
            }
            Question::Running => Answer::Level(self.running.get().map(|id| coroutines[id.0].level)),
        }
    }

    /// Picks and polls once. No borrow is held while the future runs, because it calls back.
    fn step(&self) -> Stepped {
        let Some(id) = self.pick() else {
            return Stepped::Idle;
        };
        let (mut future, woken) = {
            let coroutine = &mut self.coroutines.borrow_mut()[id.0];
            coroutine.state = State::Running;
            coroutine.polls += 1;
            coroutine.woken = Arc::default();
            (coroutine.future.take(), coroutine.woken.clone())
        };
        self.running.set(Some(id));
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        let polled = future
            .as_mut()
            .map(|future| future.as_mut().poll(&mut context));
        self.running.set(None);
        if polled == Some(Poll::Pending) {
            self.coroutines.borrow_mut()[id.0].future = future;
            match woken.0.load(Ordering::Relaxed) {
                true => self.enter_queue(id),
                false => self.coroutines.borrow_mut()[id.0].state = State::Blocked,
            }
        } else {
            self.coroutines.borrow_mut()[id.0].state = State::Exited;
        }
        Stepped::Ran
    }

    fn pick(&self) -> Option<Id> {
        let mut ready = self.ready.borrow_mut();
        let (most_urgent, _) = *ready.iter().min_by_key(|&&(level, _)| level)?;
        let mut here = (0..ready.len()).filter(|&at| ready[at].0 == most_urgent);
        let at = if self.last_first {
            here.next_back()
        } else {
            here.next()
        };
        at.map(|at| ready.remove(at).1)
    }

    fn script(&self) -> Script {
        self.script.borrow().clone().expect("a step has begun")
    }
}

/// Makes the future of a coroutine: it announces itself at each poll, then follows the script.
fn coroutine(platform: Rc<Executor>, id: Id) -> impl Future<Output = ()> {
    let mut body = Box::pin(body(platform.clone()));
    poll_fn(move |context| match platform.script().enter(id) {
        true => body.as_mut().poll(context),
        false => Poll::Pending,
    })
}

async fn body(platform: Rc<Executor>) {
    loop {
        let script = platform.script();
        match script.next() {
            Action::Ask(question) => script.answer(Some(platform.observe(question))),
            Action::Do(op @ (Op::Yield | Op::Block | Op::Finish)) => {
                script.reply(Reply::Done);
                match op {
                    Op::Finish => return,
                    _ => pending_once(op == Op::Yield).await,
                }
            }
            Action::Do(op) => script.reply(platform.apply(op)),
        }
    }
}

async fn pending_once(wake: bool) {
    let mut first = true;
    poll_fn(|context| {
        if !std::mem::take(&mut first) {
            return Poll::Ready(());
        }
        if wake {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await
}

#[derive(Default)]
struct SmallPlatform(Rc<Executor>);

impl Platform for SmallPlatform {
    fn supports(&self, _: Feature) -> bool {
        false
    }

    fn start(&mut self, _: &Settings) {}

    fn apply(&mut self, op: Op) -> Reply {
        self.0.apply(op)
    }

    fn step(&mut self, script: &Script) -> Stepped {
        *self.0.script.borrow_mut() = Some(script.clone());
        self.0.step()
    }

    fn observe(&mut self, question: Question) -> Option<Answer> {
        Some(self.0.observe(question))
    }
}

impl Drop for SmallPlatform {
    fn drop(&mut self) {
        // The coroutines own the executor, and the executor owns the coroutines. One side must drop
        // the other.
        self.0.coroutines.take();
    }
}

#[test]
fn a_small_platform_replays_what_it_supports() {
    let (mut replayed, mut skipped) = (0, 0);
    for (name, text) in TRACES {
        let trace = Trace::parse(name, text).unwrap();
        let report =
            replay(&trace, &mut SmallPlatform::default()).unwrap_or_else(|e| panic!("{e}"));
        match report.skipped {
            Some(_) => skipped += 1,
            None => replayed += 1,
        }
    }
    assert_eq!(replayed + skipped, TRACES.len());
    assert!(replayed >= 20, "only {replayed}");
}

#[test]
fn a_platform_with_the_wrong_order_fails() {
    let (name, text) = TRACES
        .iter()
        .find(|(name, _)| *name == "order-fifo-within-a-level")
        .unwrap();
    let trace = Trace::parse(name, text).unwrap();
    let executor = Executor {
        last_first: true,
        ..Executor::default()
    };
    let failure = replay(&trace, &mut SmallPlatform(Rc::new(executor))).unwrap_err();
    assert_eq!(failure.message, "expected A to be picked, got C");
}
