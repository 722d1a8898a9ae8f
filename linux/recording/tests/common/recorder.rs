//! Records the executor of one scene of a trace.

use super::common::{self, Script};
use corank::{Config, CoroutineId, Exit, Observer, Priority};
use corank_model::{Policy, Settings};
use corank_recording::{Id, Kind, Recording};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Mutex;

/// Records the executor of one scene, in which one thread at a time acts.
pub(crate) struct Recorder(Mutex<State>);

struct State {
    script: Script,
    /// The coroutine whose poll has ended, until it is known how.
    ended: Option<CoroutineId>,
}

/// The recorders of a platform's scenes, in their order.
pub(crate) type Recorders = Rc<RefCell<Vec<&'static Recorder>>>;

/// What a platform does with the configuration of each scene.
type Configure = Rc<dyn Fn(Config, &Settings) -> Config>;

/// Returns what gives each scene of a platform a recorder, and where these are.
pub(crate) fn watch() -> (Configure, Recorders) {
    let recorders = Recorders::default();
    let scenes = recorders.clone();
    let watch = move |config: Config, scene: &Settings| {
        // An executor refers to its observer as long as the program runs.
        let recorder: &'static Recorder = Box::leak(Box::new(Recorder::new(scene)));
        scenes.borrow_mut().push(recorder);
        config.observer(recorder)
    };
    (Rc::new(watch), recorders)
}

fn target(id: CoroutineId) -> Id {
    let bits = id.to_bits();
    Id {
        slot: bits as u32,
        generation: (bits >> 32) as u16,
    }
}

impl Recorder {
    pub(crate) fn new(scene: &Settings) -> Self {
        let mut settings = common::settings(1, 1 << 10);
        settings.demotes = scene.demotion.is_some();
        if let Policy::Bounded(every) = scene.policy {
            settings.bounded = every;
        }
        Self(Mutex::new(State {
            script: Script::with(&settings),
            ended: None,
        }))
    }

    /// Returns what was recorded until now.
    pub(crate) fn read(&self) -> Recording {
        self.0.lock().unwrap().script.read()
    }

    fn add(&self, kind: Kind, id: CoroutineId, level: u8) {
        let script = &mut self.0.lock().unwrap().script;
        script.on(0, kind, target(id), level);
    }

    /// Adds how a poll went on, if it has just ended, and otherwise what happens beside polls.
    fn add_end(&self, kind: Kind, otherwise: Kind, id: CoroutineId, level: u8) {
        let has_ended = self.0.lock().unwrap().ended.take_if(|ended| *ended == id);
        self.add(has_ended.map_or(otherwise, |_| kind), id, level);
    }

    fn add_two(&self, kind: Kind, lender: CoroutineId, borrower: CoroutineId) {
        self.add(Kind::Borrower, borrower, 0);
        self.add(kind, lender, 0);
    }
}

// SAFETY: it writes into memory of its own and does not call the executor.
unsafe impl Observer for Recorder {
    fn spawned(&self, id: CoroutineId, priority: Priority) {
        self.add(Kind::Spawn, id, priority.level());
    }

    fn wake_applied(&self, id: CoroutineId) {
        self.add(Kind::Wake, id, 0);
    }

    fn woken(&self, id: CoroutineId, priority: Priority) {
        self.add_end(Kind::Yield, Kind::Ready, id, priority.level());
    }

    fn poll_started(&self, id: CoroutineId, priority: Priority) {
        self.add(Kind::Pick, id, priority.level());
    }

    fn poll_ended(&self, id: CoroutineId) {
        self.0.lock().unwrap().ended = Some(id);
    }

    fn blocked(&self, id: CoroutineId) {
        self.add_end(Kind::Block, Kind::Block, id, 0);
    }

    fn reprioritized(&self, id: CoroutineId, _: Priority, to: Priority) {
        self.add(Kind::Level, id, to.level());
    }

    fn base_changed(&self, id: CoroutineId, base: Priority) {
        self.add(Kind::Base, id, base.level());
    }

    fn donation_began(&self, lender: CoroutineId, borrower: CoroutineId) {
        self.add_two(Kind::Lend, lender, borrower);
    }

    fn donation_ended(&self, lender: CoroutineId, borrower: CoroutineId) {
        self.add_two(Kind::Unlend, lender, borrower);
    }

    fn exited(&self, id: CoroutineId, exit: Exit) {
        let kind = match exit {
            Exit::Finished => Kind::Finish,
            Exit::Cancelled => Kind::Cancel,
            Exit::Panicked => Kind::Panic,
        };
        self.add_end(kind, kind, id, 0);
    }
}
