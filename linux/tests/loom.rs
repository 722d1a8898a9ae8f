//! Explores all interleavings of parking, watching, waking, choosing a successor and checking while
//! busy, of the readiness of a descriptor, and of spare workers on duty and asleep.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p corank-linux --test loom`

#![cfg(loom)]

#[path = "../src/idle.rs"]
#[allow(dead_code, reason = "the runtime uses the rest")]
mod idle;
#[path = "../src/readiness.rs"]
#[allow(dead_code, reason = "the runtime uses the rest")]
mod readiness;
#[path = "../src/spare_pool.rs"]
#[allow(dead_code, reason = "the runtime uses the rest")]
mod spare_pool;

use std::sync::Arc as StdArc;
use std::task::{Context, Poll, Wake, Waker};

use idle::{Parker, Pause, Wakeup, Watch};
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use readiness::Readiness;
use spare_pool::SparePool;

/// Models the kernel: a descriptor's event and the interrupt both stay until the watcher takes
/// them.
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
    /// Sleeps; returns true if there was an event.
    fn wait(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        while !state.interrupted && !state.event {
            state = self.changed.wait(state).unwrap();
        }
        state.interrupted = false;
        std::mem::take(&mut state.event)
    }

    /// Returns true if there was an event, without sleeping.
    fn check(&self) -> bool {
        std::mem::take(&mut self.state.lock().unwrap().event)
    }

    fn set(&self, set: impl FnOnce(&mut Pending)) {
        set(&mut self.state.lock().unwrap());
        self.changed.notify_one();
    }
}

/// Models a runtime of two workers: their parkers, and their events.
struct Runtime {
    watch: Watch,
    parkers: Mutex<Vec<Arc<Parker>>>,
    kernel: Kernel,
    events: AtomicUsize,
    stopping: AtomicBool,
}

impl Runtime {
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

    /// Parks or watches; returns true if there was an event.
    fn park(&self, parker: &Parker, short_polling: bool) -> bool {
        let mut event = false;
        let watch = || event = self.kernel.wait();
        (self.watch).park(parker, short_polling, watch, || self.wake_successor());
        event
    }

    /// Parks, and checks before it parks again if it is short-polling.
    fn serve(&self, short_polling: bool) {
        let parker = Arc::new(Parker::current());
        self.parkers.lock().unwrap().push(parker.clone());
        while !self.stopping.load(Ordering::Acquire) {
            if self.park(&parker, short_polling) || short_polling && self.kernel.check() {
                // The worker that takes the event stops the others.
                self.events.fetch_add(1, Ordering::Relaxed);
                self.stop();
            }
        }
    }

    /// Starts a worker's thread.
    fn start_worker(runtime: &Arc<Self>, short_polling: bool) -> thread::JoinHandle<()> {
        let runtime = runtime.clone();
        thread::spawn(move || runtime.serve(short_polling))
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

/// Runs two workers and `happens` at once; each worker leaves in the end.
fn two_workers(happens: impl Fn(&Runtime) + Send + Sync + 'static, events: usize) {
    explore(move || {
        let runtime = Runtime::new();
        let workers = [
            Runtime::start_worker(&runtime, false),
            Runtime::start_worker(&runtime, false),
        ];
        happens(&runtime);
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(runtime.events.load(Ordering::Relaxed), events);
    });
}

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// However they park, one of the workers takes the event, and each leaves after the stop. No worker
/// sleeps forever.
#[test]
fn an_event_is_taken_and_all_leave() {
    two_workers(
        |runtime| runtime.kernel.set(|pending| pending.event = true),
        1,
    );
}

/// A worker that is woken while it watches, or is about to, is inside a poll after that and takes
/// nothing. Then the other worker watches.
#[test]
fn another_worker_watches_while_one_is_busy() {
    explore(|| {
        let runtime = Runtime::new();
        let called = Arc::new(Parker::current());
        runtime.parkers.lock().unwrap().push(called.clone());
        let other = Runtime::start_worker(&runtime, false);
        let caller = {
            let (runtime, called) = (runtime.clone(), called.clone());
            thread::spawn(move || {
                if called.wake() == Wakeup::Interrupt {
                    runtime.kernel.set(|pending| pending.interrupted = true);
                }
            })
        };
        runtime.park(&called, false);
        caller.join().unwrap();
        runtime.kernel.set(|pending| pending.event = true);
        other.join().unwrap();
        assert_eq!(runtime.events.load(Ordering::Relaxed), 1);
    });
}

/// Workers are stopped while they park, or while one of them wakes the other as its successor.
#[test]
fn a_wake_ends_every_sleep() {
    two_workers(Runtime::stop, 0);
}

/// While a busy worker is short-polling, the other one parks and does not watch. If one poll keeps
/// the busy one, the watchdog ends its short polling, and the other one takes the event.
#[test]
fn a_blocked_short_polling_worker_is_replaced() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let runtime = Runtime::new();
        let short_polling = Arc::new(Parker::current());
        runtime.watch.begin_short_polling(&short_polling);
        let other = Runtime::start_worker(&runtime, false);
        let event = {
            let runtime = runtime.clone();
            thread::spawn(move || runtime.kernel.set(|pending| pending.event = true))
        };
        runtime
            .watch
            .end_short_polling(&short_polling, || runtime.wake_successor());
        event.join().unwrap();
        other.join().unwrap();
        assert_eq!(runtime.events.load(Ordering::Relaxed), 1);
    });
}

/// One or two workers are short-polling, and a watchdog ends the short polling of one of them at
/// any moment: the event is taken, and all leave.
#[test]
fn short_polling_workers_take_the_event() {
    for short_polling in [[true, true], [true, false]] {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(move || {
            let runtime = Runtime::new();
            let workers =
                short_polling.map(|short_polling| Runtime::start_worker(&runtime, short_polling));
            runtime.kernel.set(|pending| pending.event = true);
            let first = runtime.parkers.lock().unwrap().first().cloned();
            if let Some(first) = first {
                runtime
                    .watch
                    .end_short_polling(&first, || runtime.wake_successor());
            }
            for worker in workers {
                worker.join().unwrap();
            }
            assert_eq!(runtime.events.load(Ordering::Relaxed), 1);
        });
    }
}

/// A pausing thread is awake when a worker is.
#[test]
fn an_awake_worker_ends_the_pause() {
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

/// A spare worker that goes to sleep while a worker reports a long poll stays on duty or is called.
///
/// A further one is needed only while the first polls.
#[test]
fn a_long_poll_finds_a_spare_worker() {
    explore(|| {
        let pool = Arc::new(SparePool::new());
        pool.note_long_poll();
        assert!(pool.needs_thread(false, false), "there is none yet");
        assert!(!pool.needs_thread(true, false), "one is on duty");
        // That poll ends this sleep.
        pool.sleep(true);
        let spare = {
            let pool = pool.clone();
            thread::spawn(move || pool.sleep(true))
        };
        // This one ends the next.
        pool.note_long_poll();
        spare.join().unwrap();
        assert!(!pool.needs_thread(true, false), "it is on duty again");
        pool.begin_polling();
        assert!(pool.needs_thread(true, true), "the only one polls");
        pool.end_polling();
        assert!(pool.has_another());
    });
}

/// Of two spare workers that are free, one goes to sleep and the other stays on duty.
#[test]
fn one_of_two_free_spare_workers_sleeps() {
    explore(|| {
        let pool = Arc::new(SparePool::new());
        assert!(pool.needs_thread(true, false));
        assert!(!pool.needs_thread(true, true), "the first is free");
        pool.begin_polling();
        assert!(pool.needs_thread(true, true));
        pool.end_polling();
        let awake = Arc::new(AtomicUsize::new(0));
        let spares = [(); 2].map(|()| {
            let (pool, awake) = (pool.clone(), awake.clone());
            thread::spawn(move || {
                pool.sleep(false);
                awake.fetch_add(1, Ordering::Relaxed);
            })
        });
        // One of them has stayed awake, and the other is woken by the stop.
        while awake.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        assert!(!pool.has_another());
        pool.stop();
        for spare in spares {
            spare.join().unwrap();
        }
    });
}

/// The runtime stops while a spare worker goes to sleep, sleeps, or is called.
#[test]
fn a_stop_ends_the_sleep_of_spare_workers() {
    explore(|| {
        let pool = Arc::new(SparePool::new());
        assert!(pool.needs_thread(true, false));
        let spare = {
            let pool = pool.clone();
            thread::spawn(move || pool.sleep(true))
        };
        let worker = {
            let pool = pool.clone();
            thread::spawn(move || pool.note_long_poll())
        };
        pool.stop();
        worker.join().unwrap();
        spare.join().unwrap();
        assert!(
            !pool.needs_thread(true, true),
            "no thread is started any more"
        );
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

/// A byte that arrives at any moment is read, whether the event comes before, during or after the
/// attempt.
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
                    // As from a stream: a read that does not fill the buffer is taken for all data.
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
