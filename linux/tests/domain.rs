//! Runtimes whose workers share priorities in a domain.

#![cfg(all(feature = "domain", not(loom)))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use corank_linux::domain::Domain;
use corank_linux::net::UnixStream;
use corank_linux::{Builder, Priority, spawn, time, yield_now};
use futures::{AsyncReadExt, AsyncWriteExt};

/// Two runtimes of one domain finish all their work, also coroutines that wait for I/O and timers.
///
/// Each has two busy workers. One runtime is on the most and one on the least urgent level.
#[test]
fn two_runtimes_of_a_domain_do_all_their_work() {
    // Other users may not enter it.
    let mode = std::fs::Permissions::from_mode(0o700);
    let root = tempfile::Builder::new()
        .permissions(mode)
        .tempdir()
        .unwrap();
    let runtime = || {
        let domain = Domain::named("test").root(root.path());
        Builder::new().workers(2).domain(domain).build().unwrap()
    };
    let (urgent, bulk) = (runtime(), runtime());
    let busy = |level: u8| async move {
        let level = Priority::new(level).unwrap();
        let (mut one, mut other) = UnixStream::pair().unwrap();
        let echo = async move {
            let mut byte = [0];
            for _ in 0..200 {
                other.read_exact(&mut byte).await.unwrap();
                other.write_all(&byte).await.unwrap();
            }
        };
        let echo = spawn(level, echo).unwrap();
        let compute = async {
            for _ in 0..20_000 {
                yield_now().await;
            }
        };
        let compute = spawn(level, compute).unwrap();
        for number in 0..200 {
            one.write_all(&[number]).await.unwrap();
            let mut byte = [0];
            one.read_exact(&mut byte).await.unwrap();
            assert_eq!(byte[0], number);
        }
        time::sleep(Duration::from_millis(1)).await;
        echo.await.unwrap();
        compute.await.unwrap();
        true
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| bulk.block_on_at(Priority::LEAST_URGENT, busy(60)));
        assert!(urgent.block_on_at(Priority::MOST_URGENT, busy(1)));
        assert!(other.join().unwrap());
    });
}

#[test]
fn a_domain_that_cannot_be_joined_is_an_error() {
    let shared = Domain::named("test").root("/proc");
    assert!(Builder::new().workers(1).domain(shared).build().is_err());
}

/// A watcher, as `corank top` is one, sees how many coroutines of each level are ready, how often
/// they were polled, and how many wait. An observer of the program's own is called, too.
#[cfg(feature = "figures")]
#[test]
fn a_watcher_sees_the_coroutines_of_a_runtime() {
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Exits(AtomicU64);
    // SAFETY: it counts, and calls nothing of Corank.
    unsafe impl corank_linux::Observer for Exits {
        fn exited(&self, _: corank_linux::CoroutineId, _: corank_linux::Exit) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    static EXITS: Exits = Exits(AtomicU64::new(0));

    let mode = std::fs::Permissions::from_mode(0o700);
    let root = tempfile::Builder::new()
        .permissions(mode)
        .tempdir()
        .unwrap();
    let domain = || Domain::named("test").root(root.path());
    let runtime = Builder::new()
        .workers(1)
        .domain(domain())
        .observer(&EXITS)
        .build()
        .unwrap();
    let waiting = runtime
        .handle()
        .spawn(Priority::at::<3>(), std::future::pending::<()>())
        .unwrap();
    let yields = async {
        for _ in 0..9 {
            yield_now().await;
        }
    };
    let yields = runtime.handle().spawn(Priority::at::<7>(), yields).unwrap();
    runtime.block_on(yields).unwrap();

    let seen = domain().watch().unwrap().snapshot();
    let coroutines = seen[0].coroutines.as_ref().expect("they are counted");
    let polls = |level: u8| {
        let mut levels = coroutines.levels.iter();
        levels
            .find(|state| state.level.level() == level)
            .map(|state| state.polls)
    };
    assert_eq!((polls(3), polls(7)), (Some(1), Some(10)));
    assert_eq!(coroutines.blocked, 1);
    // That of `block_on`, and the one for which it waited.
    assert_eq!(EXITS.0.load(Ordering::Relaxed), 2);
    drop(waiting);
}

/// A watcher sees the threads of a runtime: workers, busy time, blocked workers, spare workers; and
/// the inversions inside the process.
#[cfg(feature = "figures")]
#[test]
fn a_watcher_sees_the_threads_of_a_runtime() {
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    const LONG: Duration = Duration::from_secs(60);
    let mode = std::fs::Permissions::from_mode(0o700);
    let root = tempfile::Builder::new()
        .permissions(mode)
        .tempdir()
        .unwrap();
    let domain = || Domain::named("test").root(root.path());
    let runtime = Builder::new().workers(1).domain(domain()).build().unwrap();
    let mut watcher = domain().watch().unwrap();
    let (begin, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let holds = async move {
        begin.send(()).unwrap();
        ended.recv_timeout(LONG).expect("the test ends it");
    };
    let held = runtime.handle().spawn(Priority::at::<40>(), holds).unwrap();
    begun.recv_timeout(LONG).unwrap();
    let (run, ran) = mpsc::channel();
    let urgent = async move { run.send(()).unwrap() };
    drop(runtime.handle().spawn(Priority::at::<3>(), urgent).unwrap());
    ran.recv_timeout(LONG).expect("a spare worker polls it");
    let began = Instant::now();
    let mut state_when = |wanted: &dyn Fn(&corank_linux::domain::RuntimeState) -> bool| loop {
        let seen = watcher.snapshot();
        if let Some(state) = seen.first().and_then(|process| process.runtime)
            && wanted(&state)
        {
            return seen[0].clone();
        }
        assert!(began.elapsed() < LONG, "{seen:?}");
        std::thread::yield_now();
    };
    let seen = state_when(&|state| state.blocked == 1 && state.takeovers > 0);
    let state = seen.runtime.unwrap();
    assert_eq!(state.workers, 1);
    assert!(state.spare_workers >= 1 && state.busy > Duration::ZERO);
    let levels = seen.coroutines.unwrap().levels;
    assert_eq!((levels[0].level.level(), levels[0].inversions), (3, 1));
    assert_eq!(levels[0].waits.count(), 1);
    // The runtime itself reads the same counters.
    let own = runtime.metrics().coroutines.unwrap();
    assert_eq!(own.levels[0].waits, levels[0].waits);
    end.send(()).unwrap();
    runtime.block_on(held).unwrap();
    state_when(&|state| state.blocked == 0);
}
