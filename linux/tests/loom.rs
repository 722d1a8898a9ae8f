//! Going to sleep, watching, calling, handing on and looking after events while busy, and the readiness of a descriptor, in all interleavings.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p corank-linux --test loom`

#![cfg(loom)]

#[path = "../src/idle.rs"]
#[allow(dead_code, reason = "the runtime uses the rest")]
mod idle;
#[path = "../src/readiness.rs"]
#[allow(dead_code, reason = "the runtime uses the rest")]
mod readiness;

use std::sync::Arc as StdArc;
use std::task::{Context, Poll, Wake, Waker};

use idle::{Parker, Pause, Wakeup, Watch};
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use readiness::Readiness;

/// What a descriptor's event and the interruption are to who watches: both stay until they are taken.
#[derive(Default)]
struct Kernel {
    state: Mutex<Pending>,
    changed: Condvar,
}

#[derive(Default)]
struct Pending {
    interrupted: bool,
    event: bool,
}

impl Kernel {
    /// Sleeps; true if there was an event.
    fn wait(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        while !state.interrupted && !state.event {
            state = self.changed.wait(state).unwrap();
        }
        state.interrupted = false;
        std::mem::take(&mut state.event)
    }

    /// True if there was an event; without sleeping.
    fn check(&self) -> bool {
        std::mem::take(&mut self.state.lock().unwrap().event)
    }

    fn set(&self, set: impl FnOnce(&mut Pending)) {
        set(&mut self.state.lock().unwrap());
        self.changed.notify_one();
    }
}

/// Two workers, as the runtime has them: their parkers, and what they look for.
struct Home {
    watch: Watch,
    parkers: Mutex<Vec<Arc<Parker>>>,
    kernel: Kernel,
    events: AtomicUsize,
    stopping: AtomicBool,
}

impl Home {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            watch: Watch::new(),
            parkers: Mutex::new(Vec::new()),
            kernel: Kernel::default(),
            events: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
        })
    }

    fn wake_successor(&self) {
        let parkers = self.parkers.lock().unwrap();
        let _ = parkers.iter().any(|parker| parker.wake_sleeper());
    }

    /// True if there was an event.
    fn park(&self, parker: &Parker, short_polling: bool) -> bool {
        let mut event = false;
        let watch = || event = self.kernel.wait();
        (self.watch).park(parker, short_polling, watch, || self.wake_successor());
        event
    }

    /// Parks, and looks before it parks again if it is short-polling.
    fn serve(&self, short_polling: bool) {
        let parker = Arc::new(Parker::current());
        self.parkers.lock().unwrap().push(parker.clone());
        while !self.stopping.load(Ordering::Acquire) {
            if self.park(&parker, short_polling) || short_polling && self.kernel.check() {
                // Whoever takes the event is the last: it tells the others to leave.
                self.events.fetch_add(1, Ordering::Relaxed);
                self.stop();
            }
        }
    }

    /// A thread that serves it.
    fn start_worker(home: &Arc<Self>, short_polling: bool) -> thread::JoinHandle<()> {
        let home = home.clone();
        thread::spawn(move || home.serve(short_polling))
    }

    fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        for parker in self.parkers.lock().unwrap().iter() {
            if parker.wake() == Wakeup::Interrupt {
                self.kernel.set(|pending| pending.interrupted = true);
            }
        }
    }
}

/// Two workers, for whom `happens` does something; each leaves in the end.
fn two_workers(happens: impl Fn(&Home) + Send + Sync + 'static, events: usize) {
    explore(move || {
        let home = Home::new();
        let workers = [
            Home::start_worker(&home, false),
            Home::start_worker(&home, false),
        ];
        happens(&home);
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(home.events.load(Ordering::Relaxed), events);
    });
}

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// However they go to sleep, one of the workers takes the event, and each leaves when it is told to. Nobody sleeps for ever.
#[test]
fn an_event_is_taken_and_all_leave() {
    two_workers(|home| home.kernel.set(|pending| pending.event = true), 1);
}

/// Whoever is called while it watches, or goes to, is inside a poll after that and takes nothing. Then the other worker watches.
#[test]
fn somebody_watches_while_another_is_busy() {
    explore(|| {
        let home = Home::new();
        let called = Arc::new(Parker::current());
        home.parkers.lock().unwrap().push(called.clone());
        let other = Home::start_worker(&home, false);
        let caller = {
            let (home, called) = (home.clone(), called.clone());
            thread::spawn(move || {
                if called.wake() == Wakeup::Interrupt {
                    home.kernel.set(|pending| pending.interrupted = true);
                }
            })
        };
        home.park(&called, false);
        caller.join().unwrap();
        home.kernel.set(|pending| pending.event = true);
        other.join().unwrap();
        assert_eq!(home.events.load(Ordering::Relaxed), 1);
    });
}

/// Workers that are told to leave while they go to sleep, or one of them wakes the other as its successor.
#[test]
fn a_call_ends_every_sleep() {
    two_workers(Home::stop, 0);
}

/// While a busy worker is short-polling, the other one sleeps and doesn't watch. When the busy one is held up, the watchdog says so, and
/// the other one takes the event.
#[test]
fn a_short_polling_worker_that_is_held_up_is_replaced() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let home = Home::new();
        let short_polling = Arc::new(Parker::current());
        home.watch.begin_short_polling(&short_polling);
        let other = Home::start_worker(&home, false);
        let event = {
            let home = home.clone();
            thread::spawn(move || home.kernel.set(|pending| pending.event = true))
        };
        home.watch
            .end_short_polling(&short_polling, || home.wake_successor());
        event.join().unwrap();
        other.join().unwrap();
        assert_eq!(home.events.load(Ordering::Relaxed), 1);
    });
}

/// Workers that are short-polling, or one of two, and a watchdog that takes that back from one of them at any moment: the event is taken,
/// and all leave.
#[test]
fn short_polling_workers_take_the_event() {
    for short_polling in [[true, true], [true, false]] {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(move || {
            let home = Home::new();
            let workers =
                short_polling.map(|short_polling| Home::start_worker(&home, short_polling));
            home.kernel.set(|pending| pending.event = true);
            let first = home.parkers.lock().unwrap().first().cloned();
            if let Some(first) = first {
                home.watch
                    .end_short_polling(&first, || home.wake_successor());
            }
            for worker in workers {
                worker.join().unwrap();
            }
            assert_eq!(home.events.load(Ordering::Relaxed), 1);
        });
    }
}

/// A pausing thread is awake when a worker is.
#[test]
fn an_awake_worker_ends_the_doze() {
    loom::model(|| {
        let parker = Arc::new(Parker::current());
        let watch = Watch::new();
        let called = parker.clone();
        let pause = Arc::new(Mutex::new(None));
        let watchdog = {
            let (parker, pause) = (parker.clone(), pause.clone());
            thread::spawn(move || {
                let own = Arc::new(Pause::current());
                *pause.lock().unwrap() = Some(own.clone());
                own.sleep(|| parker.is_parked());
            })
        };
        watch.park(&parker, false, || drop(called.wake()), || ());
        let pause = pause.lock().unwrap().clone();
        if let Some(pause) = pause {
            pause.note_awake();
        }
        watchdog.join().unwrap();
    });
}

/// Counts, and lets one thread wait for the count.
struct Counts(Mutex<usize>, Condvar);

impl Wake for Counts {
    fn wake(self: StdArc<Self>) {
        *self.0.lock().unwrap() += 1;
        self.1.notify_one();
    }
}

/// A byte that arrives at any moment is read, whether the event comes before, during or after the attempt.
#[test]
fn no_event_is_forgotten() {
    loom::model(|| {
        // Tried at once: the first attempt may find nothing.
        let ready = Arc::new(Readiness::new());
        ready.begin(1, true);
        let bytes = Arc::new(AtomicUsize::new(0));
        let kernel = {
            let (ready, bytes) = (ready.clone(), bytes.clone());
            thread::spawn(move || {
                for _ in 0..2 {
                    bytes.fetch_add(1, Ordering::Release);
                    let mut woken = Vec::new();
                    assert!(ready.announce(1, false, &mut woken));
                    for waker in woken {
                        waker.wake();
                    }
                }
            })
        };
        let counts = StdArc::new(Counts(Mutex::new(0), Condvar::new()));
        let waker = Waker::from(counts.clone());
        let cx = Context::from_waker(&waker);
        let mut read = 0;
        while read < 2 {
            match ready.poll_ready(&cx).map(Result::unwrap) {
                Poll::Ready(seen) => match bytes.swap(0, Ordering::Acquire) {
                    0 => ready.clear(seen),
                    // As from a stream: what doesn't fill the buffer is supposed to be all.
                    some => {
                        read += some;
                        ready.suppose_clear(seen);
                    }
                },
                Poll::Pending => {
                    let mut wakes = counts.0.lock().unwrap();
                    while *wakes == 0 {
                        wakes = counts.1.wait(wakes).unwrap();
                    }
                    *wakes -= 1;
                }
            }
        }
        kernel.join().unwrap();
    });
}
