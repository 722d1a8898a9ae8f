//! Participants find each other, see what the others claim, and leave. All are in one process.
//! Pages and sockets are the same as between two.

#![cfg(not(loom))]

use corank::{Config, Executor, Priority, Published, Step, SystemView, yield_now};
use corank_domain::{Activity, Back, ClassPolicy, Domain, JoinError, Mode, Participant, Worker};
use std::path::Path;
use std::pin::Pin;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// A time far beyond all bounds. A test that waits for that long waits for ever.
const LONG: Duration = Duration::from_secs(30);
/// The resolution of the times in claims.
const RESOLUTION: Duration = Duration::from_micros(2);

fn private_folder() -> tempfile::TempDir {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new()
        .permissions(mode)
        .tempdir()
        .unwrap()
}

/// A tick so long that what happens within it does not happen because of it.
const LONG_TICK: Duration = Duration::from_secs(1);

fn join(root: &Path) -> Participant {
    domain(root).tick(LONG_TICK).join().unwrap()
}

fn join_relaxed(root: &Path, tick: Duration) -> Participant {
    let relaxed = domain(root).mode(Mode::Relaxed);
    relaxed.tick(tick).join().unwrap()
}

fn domain(root: &Path) -> Domain {
    Domain::named("test")
        .root(root)
        .class_policy(ClassPolicy::Silent)
}

fn until(what: &str, happened: impl Fn() -> bool) {
    until_some(what, happened);
}

fn until_some(what: &str, mut happened: impl FnMut() -> bool) {
    let began = Instant::now();
    while !happened() {
        assert!(began.elapsed() < LONG, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

/// Returns the processor time that this thread has used.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// An executor that has a coroutine at each of these levels, which ends when it is cancelled.
struct Side {
    executor: Executor,
    worker: Pin<Box<Worker>>,
}

impl Side {
    fn new(participant: &Participant) -> Self {
        let published: &'static Published = participant.publish().unwrap();
        Self {
            executor: Executor::with(Config::new().publish_to(published)),
            worker: participant.worker(published).unwrap(),
        }
    }

    /// Spawns a coroutine that is ready for ever.
    fn work(&self, priority: Priority) -> corank::CoroutineId {
        let endless = async {
            loop {
                yield_now().await;
            }
        };
        self.executor.spawn(priority, endless).unwrap().id()
    }

    fn elsewhere(&self) -> Option<Priority> {
        self.worker.most_urgent_elsewhere()
    }
}

/// Keeps all processors of this machine busy with something at this level.
fn busy(participant: &Participant, priority: Priority) -> Vec<Side> {
    let processors = thread::available_parallelism().unwrap().get();
    (0..processors)
        .map(|_| {
            let side = Side::new(participant);
            side.work(priority);
            side.elsewhere();
            side
        })
        .collect()
}

#[test]
fn participants_find_each_other_and_leave() {
    let root = private_folder();
    let mut all: Vec<Participant> = (0..4).map(|_| join(root.path())).collect();
    for one in &all {
        until("they see each other", || one.others() == 3);
    }
    drop(all.pop());
    for one in &all {
        until("one leaves", || one.others() == 2);
    }
    drop(all);
    let folder = root.path().join("corank/test");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
}

#[test]
fn domains_are_apart() {
    let root = private_folder();
    let other = Domain::named("other").root(root.path()).join().unwrap();
    let (one, two) = (join(root.path()), join(root.path()));
    until("two see each other", || {
        one.others() == 1 && two.others() == 1
    });
    assert_eq!(other.others(), 0);
}

#[test]
fn a_bad_name_and_a_shared_folder_are_refused() {
    let bad = Domain::named("a/b").join().unwrap_err();
    assert!(matches!(&bad, JoinError::Name(name) if name == "a/b"));
    let open = Domain::named("test").root("/tmp").join().unwrap_err();
    assert!(matches!(open, JoinError::Folder(_)));
    assert!(open.to_string().contains("XDG_RUNTIME_DIR"), "{open}");
}

#[test]
fn a_participant_stays_as_long_as_a_worker() {
    let root = private_folder();
    let (one, two) = (join(root.path()), join(root.path()));
    until("they see each other", || one.others() == 1);
    let side = Side::new(&two);
    drop(two);
    // If it had left, that would be noticed before another participant comes and goes.
    let three = join(root.path());
    until("a third one comes", || one.others() == 2);
    drop(three);
    until("the third one leaves", || one.others() == 1);
    drop(side);
    until("it leaves", || one.others() == 0);
}

#[test]
fn slots_and_executors_run_out_as_errors() {
    let root = private_folder();
    let one = join(root.path());
    let published = one.publish().unwrap();
    let workers: Vec<Pin<Box<Worker>>> = (0..64).map(|_| one.worker(published).unwrap()).collect();
    let full = one.worker(published).unwrap_err();
    assert_eq!(
        full.to_string(),
        "a participant of a domain has at most 64 workers"
    );
    drop(workers);
    one.worker(published).unwrap();
    for _ in 1..16 {
        one.publish().unwrap();
    }
    assert!(one.publish().is_err());
}

#[test]
fn a_lone_participant_sees_nothing_elsewhere() {
    let root = private_folder();
    let one = join(root.path());
    let sides = busy(&one, level(0));
    let bulk = Side::new(&one);
    bulk.work(level(63));
    assert_eq!(bulk.elsewhere(), None);
    drop(sides);
}

#[test]
fn a_less_urgent_worker_steps_aside_and_is_woken_again() {
    let root = private_folder();
    let (one, two) = (join(root.path()), join(root.path()));
    until("they see each other", || {
        one.others() == 1 && two.others() == 1
    });
    let bulk = Side::new(&one);
    bulk.work(level(50));
    assert_eq!(bulk.executor.step_under(&*bulk.worker), Step::Ran);
    let urgent = busy(&two, level(3));
    // Its doorbell was rung, because no tick is due for long.
    assert_eq!(bulk.elsewhere(), Some(level(3)));
    assert_eq!(bulk.executor.step_under(&*bulk.worker), Step::Elsewhere);
    assert_eq!(bulk.worker.step_aside(Duration::ZERO), Back::Elapsed);
    assert_eq!(bulk.executor.step_under(&*bulk.worker), Step::Elsewhere);
    // A worker that is as urgent does not step aside.
    bulk.work(level(3));
    assert_eq!(bulk.executor.step_under(&*bulk.worker), Step::Ran);
    drop(urgent);
}

/// A worker that is alone has nothing to ask. That ends when another participant comes.
#[test]
fn a_lone_participant_notices_another_one() {
    let root = private_folder();
    let one = join(root.path());
    let bulk = Side::new(&one);
    bulk.work(level(50));
    assert_eq!(bulk.elsewhere(), None);
    let two = join(root.path());
    until("they see each other", || {
        one.others() == 1 && two.others() == 1
    });
    let _urgent = busy(&two, level(3));
    until("it is notified", || bulk.elsewhere() == Some(level(3)));
}

#[test]
fn a_worker_that_stepped_aside_sleeps_until_the_urgent_one_is_idle() {
    let root = private_folder();
    let (one, two) = (join(root.path()), join(root.path()));
    until("they see each other", || {
        one.others() == 1 && two.others() == 1
    });
    let (ready, is_ready) = mpsc::channel();
    let (slept, has_slept) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let bulk = Side::new(&one);
            bulk.work(level(50));
            bulk.elsewhere();
            ready.send(()).unwrap();
            // Rung by the urgent ones.
            while bulk.executor.step_under(&*bulk.worker) != Step::Elsewhere {}
            let used = processor_time();
            let back = bulk.worker.step_aside(LONG);
            slept.send((back, processor_time() - used)).unwrap();
        });
        is_ready.recv().unwrap();
        let urgent = busy(&two, level(3));
        let aside = Duration::from_millis(100);
        thread::sleep(aside);
        assert!(has_slept.try_recv().is_err());
        urgent.iter().for_each(|side| side.worker.idle());
        let (back, used) = has_slept.recv_timeout(LONG).unwrap();
        assert_eq!(back, Back::Called);
        // A thread that spins uses all of the time that the others leave. One that sleeps only
        // checks now and then.
        assert!(used < aside / 10, "it did not sleep: {used:?}");
    });
}

#[test]
fn a_notification_ends_the_sleep_and_is_not_lost() {
    let root = private_folder();
    let (one, two) = (join(root.path()), join(root.path()));
    until("they see each other", || {
        one.others() == 1 && two.others() == 1
    });
    let _urgent = busy(&two, level(3));
    let bulk = Side::new(&one);
    bulk.work(level(50));
    let caller = bulk.worker.caller();
    assert!(bulk.elsewhere().is_some());
    caller.wake_by_ref();
    assert_eq!(bulk.worker.step_aside(LONG), Back::Interrupted);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(5));
            caller.wake_by_ref();
        });
        assert_eq!(bulk.worker.step_aside(LONG), Back::Interrupted);
    });
}

#[test]
fn a_relaxed_worker_checks_at_its_tick() {
    let root = private_folder();
    let one = join_relaxed(root.path(), Duration::from_millis(4));
    let two = join(root.path());
    until("they see each other", || {
        one.others() == 1 && two.others() == 1
    });
    let bulk = Side::new(&one);
    bulk.work(level(50));
    bulk.elsewhere();
    let _urgent = busy(&two, level(3));
    until("its tick", || bulk.elsewhere() == Some(level(3)));
}

/// A relaxed worker goes on between two ticks, whatever it picks and whatever is urgent elsewhere.
#[test]
fn a_relaxed_worker_goes_on_until_its_tick() {
    // A tick may come in between, but not each time.
    until("it goes on", || {
        let root = private_folder();
        let one = join_relaxed(root.path(), LONG_TICK);
        let two = join(root.path());
        until("they see each other", || {
            one.others() == 1 && two.others() == 1
        });
        let bulk = Side::new(&one);
        bulk.work(level(50));
        assert_eq!(bulk.elsewhere(), None);
        let _urgent = busy(&two, level(3));
        bulk.work(level(40));
        bulk.elsewhere().is_none()
    });
}

/// While its work is urgent, a worker's timers are exact, whatever its thread had before.
///
/// Afterwards they are as they were.
#[test]
fn timers_of_urgent_workers_are_exact() {
    use rustix::thread::{current_timer_slack, set_current_timer_slack};
    const OWN: u64 = 70_000;
    let root = private_folder();
    let domain = Domain::named("test").root(root.path());
    let one = domain.tick(Duration::from_millis(1)).join().unwrap();
    let two = join(root.path());
    until("they see each other", || {
        one.others() == 1 && two.others() == 1
    });
    set_current_timer_slack(OWN.try_into().ok()).unwrap();
    let slack_at = |side: &Side, own: Priority| {
        let work = side.work(own);
        side.elsewhere();
        let slack = current_timer_slack().unwrap();
        side.executor.cancel(work);
        slack
    };
    let side = Side::new(&one);
    assert_eq!(slack_at(&side, level(20)), OWN);
    assert_eq!(slack_at(&side, level(3)), 1);
    // The class is left when it has been calm for two ticks.
    until("it is calm", || {
        slack_at(&side, level(20));
        slack_at(&side, level(21)) == OWN
    });
    assert_eq!(slack_at(&side, level(3)), 1);
    drop(side);
    assert_eq!(current_timer_slack().unwrap(), OWN);
    // A worker under the silent policy stays as it is.
    let silent = Side::new(&two);
    assert_eq!(slack_at(&silent, level(3)), OWN);
}

/// Counts, as `corank top` shows it, how often a worker stepped aside for something more urgent,
/// and how long that had waited by then.
#[test]
fn inversions_are_counted_and_timed() {
    let root = private_folder();
    let (one, two) = (join(root.path()), join(root.path()));
    until("they see each other", || {
        one.others() == 1 && two.others() == 1
    });
    let mut watcher = (Domain::named("test").root(root.path())).watch().unwrap();
    let mut inversions = || {
        let mut seen = Vec::new();
        until_some("both are seen", || {
            seen = watcher.snapshot();
            seen.len() == 2
        });
        let inversions = seen.iter().map(|process| process.inversions).sum::<u64>();
        let longest = seen.iter().map(|process| process.longest_inversion).max();
        (inversions, longest.unwrap())
    };
    let bulk = Side::new(&one);
    bulk.work(level(50));
    assert_eq!(bulk.executor.step_under(&*bulk.worker), Step::Ran);
    assert_eq!(inversions(), (0, Duration::ZERO));
    let began = Instant::now();
    let _urgent = busy(&two, level(3));
    let claimed = Instant::now();
    assert_eq!(bulk.executor.step_under(&*bulk.worker), Step::Elsewhere);
    thread::sleep(Duration::from_millis(5));
    let waited = claimed.elapsed();
    bulk.worker.step_aside(Duration::ZERO);
    let at_most = began.elapsed();
    let (count, longest) = inversions();
    assert_eq!(count, 1);
    assert!(waited <= longest + RESOLUTION && longest <= at_most + RESOLUTION);
    // It is aside already.
    bulk.worker.step_aside(Duration::ZERO);
    assert_eq!(inversions().0, 1);
}

#[test]
fn a_watcher_sees_all_and_is_seen_by_none() {
    let root = private_folder();
    let named = domain(root.path());
    let one = named.clone().process("first").join().unwrap();
    let two = join(root.path());
    until("they see each other", || {
        one.others() == 1 && two.others() == 1
    });
    let mut watcher = named.watch().unwrap();
    let mut seen = Vec::new();
    until_some("both are seen", || {
        seen = watcher.snapshot();
        seen.len() == 2
    });
    assert_eq!((one.others(), two.others()), (1, 1));
    let side = Side::new(&one);
    side.work(level(7));
    assert_eq!(side.elsewhere(), None);
    let snapshot = watcher.snapshot();
    let first = snapshot
        .iter()
        .find(|process| process.name == "first")
        .unwrap();
    assert_eq!(first.id, std::process::id());
    assert_eq!(first.mode, Mode::Strict);
    assert!(first.ready.contains(level(7)));
    let [worker] = first.workers[..] else {
        panic!("{first:?}");
    };
    assert_eq!((worker.level, worker.activity), (level(7), Activity::Runs));
    side.worker.idle();
    drop(two);
    until_some("one has gone", || {
        seen = watcher.snapshot();
        seen.len() == 1
    });
    assert_eq!(seen[0].workers[0].activity, Activity::Idle);
}
