//! Tests in which descriptors run out, or another process connects and rings as often as it can.
//! They count what the agent and the workers do for it, in turns and connections against the time
//! that passed. A slow machine allows more, and never less.
//!
//! A limit of descriptors is that of a whole process, so each such test runs itself again as a
//! process of its own.

use crate::agent::LINKS_OF_ONE;
use crate::handshake::{self, Files};
use crate::memory::{Mapping, Writers};
use crate::page::{Doorbells, Identity, Page};
use crate::rendezvous::{self, Name, Rendezvous};
use crate::stranger_tests::{private_folder, until};
use crate::throttle::{CONNECTIONS, PAUSE};
use crate::worker::RINGS;
use crate::{Back, ClassPolicy, Domain, Participant};
use corank::{Config, Executor, Priority, Step, yield_now};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Names the folder where the processes of a test find each other.
///
/// It distinguishes the process that a test has started from the test.
const ROOT: &str = "CORANK_TEST_ROOT";
/// The interval at which the agent scans for others.
const SCAN: Duration = Duration::from_secs(1);

fn join(root: &Path) -> (Participant, Rendezvous) {
    let domain = Domain::named("scarce")
        .root(root)
        .class_policy(ClassPolicy::Silent);
    let rendezvous = Rendezvous {
        name: Name::new("scarce").unwrap(),
        root: Some(root.to_path_buf()),
    };
    (domain.tick(SCAN).join().unwrap(), rendezvous)
}

/// Returns the command that runs a test of this program, by its path, once more.
///
/// It is a process that finds its folder in the environment.
fn again(test: &str, root: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture"])
        .env(ROOT, root);
    command
}

/// Runs `act` in a process of its own.
pub(crate) fn alone(test: &str, act: impl FnOnce(&Path)) {
    if let Some(root) = std::env::var_os(ROOT) {
        return act(Path::new(&root));
    }
    let root = private_folder();
    assert!(again(test, root.path()).status().unwrap().success());
}

/// Returns the limit that there was.
fn limit_descriptors(limit: Option<u64>) -> Option<u64> {
    let before = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit,
            ..before
        },
    )
    .unwrap();
    before.current
}

fn take_all() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

fn connect(rendezvous: &Rendezvous) -> OwnedFd {
    let folder = &rendezvous.folders().unwrap()[0];
    let id = folder.participants().unwrap()[0];
    folder.connect(id).unwrap().unwrap()
}

/// Returns what a participant of this process sends.
///
/// The page stays as long as the first value is kept.
fn files() -> (Mapping<Page>, Files) {
    let (own, page) = Mapping::<Page>::create("page", Writers::Owner).unwrap();
    own.introduce(&Identity {
        id: rendezvous::new_id().unwrap(),
        process: std::process::id(),
        strict: true,
        processors: [u64::MAX; 16],
        name: "scarce".into(),
    });
    let (_, doorbells) = Mapping::<Doorbells>::create("doorbells", Writers::All).unwrap();
    (own, Files { page, doorbells })
}

/// Asserts that the agent does not take too many turns in some time.
///
/// There are at most two for each pause (one that notices its end, one that tries again), two for
/// each scan, and a few of its own.
fn assert_turns_are_bounded(participant: &Participant, at_least: Duration) {
    let turns = &participant.shared.turns;
    let (began, before) = (Instant::now(), turns.load(Ordering::Relaxed));
    while began.elapsed() < at_least {
        thread::sleep(PAUSE);
    }
    let turns = turns.load(Ordering::Relaxed) - before;
    let (pauses, scans) = (
        began.elapsed().div_duration_f64(PAUSE),
        began.elapsed().div_duration_f64(SCAN),
    );
    assert!(
        turns as f64 <= 2.0 * (pauses + scans) + 8.0,
        "{turns} turns in {pauses} pauses"
    );
}

#[test]
fn an_agent_without_descriptors_waits_between_attempts() {
    alone(
        "scarcity_tests::an_agent_without_descriptors_waits_between_attempts",
        |root| {
            let (participant, rendezvous) = join(root);
            let folder = rendezvous.folders().unwrap().remove(0);
            let id = folder.participants().unwrap()[0];
            let is_answered = |socket: &OwnedFd| {
                let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
                rustix::net::recv(socket, &mut [0; 64], flags).is_ok()
            };
            let (socket, taken, limit) = loop {
                let limit = limit_descriptors(Some(32));
                let mut taken = take_all();
                // The agent may use the free one for a moment.
                let mut socket = None;
                taken.pop();
                until("a connection waits", || {
                    socket = folder.connect(id).ok().flatten();
                    socket.is_some()
                });
                let socket = socket.unwrap();
                taken.extend(take_all());
                assert_turns_are_bounded(&participant, 40 * PAUSE);
                if !is_answered(&socket) {
                    break (socket, taken, limit);
                }
                // The agent still had one from a scan, and so it lacked none.
                limit_descriptors(limit);
            };
            // Nothing is lost: when there are descriptors again, it is answered. The limit is
            // raised first, since Linux compares it with what all processes of this user have in
            // flight as well, and other tests have something.
            limit_descriptors(limit);
            drop(taken);
            until("the connection is answered", || is_answered(&socket));
            assert!(
                handshake::receive(&socket, std::process::id())
                    .unwrap()
                    .is_some()
            );
        },
    );
}

#[test]
fn a_handshake_without_free_descriptors_is_no_fault_of_the_sender() {
    alone(
        "scarcity_tests::a_handshake_without_free_descriptors_is_no_fault_of_the_sender",
        |_| {
            let pair = || {
                rustix::net::socketpair(
                    rustix::net::AddressFamily::UNIX,
                    rustix::net::SocketType::SEQPACKET,
                    rustix::net::SocketFlags::CLOEXEC,
                    None,
                )
                .unwrap()
            };
            let (_page, files) = files();
            // Before the limit is low: Linux compares it with what all processes of this user have
            // in flight, and other tests have something.
            let pairs = [(); 3].map(|()| {
                let (a, b) = pair();
                handshake::send(&a, Some(&files)).unwrap();
                (a, b)
            });
            limit_descriptors(Some(32));
            for (left, (_a, b)) in pairs.into_iter().enumerate() {
                let mut taken = take_all();
                taken.truncate(taken.len() - left);
                let received = handshake::receive(&b, std::process::id());
                drop(taken);
                match received {
                    Ok(introduced) => assert!(left == 2 && introduced.is_some()),
                    Err(refusal) => {
                        assert!(left < 2 && !refusal.is_for_good(), "{left}: {refusal}");
                    }
                }
            }
        },
    );
}

#[test]
fn connections_are_accepted_at_a_bounded_rate() {
    let root = private_folder();
    let (_participant, rendezvous) = join(root.path());
    let folder = rendezvous.folders().unwrap().remove(0);
    let id = folder.participants().unwrap()[0];
    let began = Instant::now();
    let mut connections = 0;
    let backlog = 129;
    // On a busy machine the agent may need longer to accept one.
    until("the agent accepts", || {
        // An error says that too many wait already.
        if let Ok(Some(_)) = folder.connect(id) {
            connections += 1;
        }
        began.elapsed() >= 20 * PAUSE && connections > backlog
    });
    let pauses = began.elapsed().as_nanos() / PAUSE.as_nanos();
    let most = backlog + CONNECTIONS * (pauses as usize + 2);
    assert!(connections <= most, "{connections} of {most}");
}

/// The other process makes as many participants as it may make connections.
#[test]
fn one_process_does_not_take_all_connections() {
    if let Some(root) = std::env::var_os(ROOT) {
        let root = Path::new(&root);
        let rendezvous = Rendezvous {
            name: Name::new("scarce").unwrap(),
            root: Some(root.to_path_buf()),
        };
        let accepted: Vec<_> = (0..4 * LINKS_OF_ONE)
            .map(|_| {
                let socket = connect(&rendezvous);
                let (page, files) = files();
                // An error says that it was refused already.
                let _ = handshake::send(&socket, Some(&files));
                (page, files, socket)
            })
            .collect();
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        drop(accepted);
        return;
    }
    let root = private_folder();
    let (participant, rendezvous) = join(root.path());
    let test = "scarcity_tests::one_process_does_not_take_all_connections";
    let mut other = again(test, root.path())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    until("the other process is seen", || {
        participant.others() >= LINKS_OF_ONE
    });
    // This process's connections come after all of the other's.
    let socket = connect(&rendezvous);
    let (_page, files) = files();
    handshake::send(&socket, Some(&files)).unwrap();
    until("both processes are seen", || {
        participant.others() == LINKS_OF_ONE + 1
    });
    drop(other.stdin.take());
    assert!(other.wait().unwrap().success());
}

#[test]
fn a_doorbell_rung_without_end_does_not_keep_a_worker_busy() {
    let root = private_folder();
    let (bulk, rendezvous) = join(root.path());
    // Every process of the domain gets the doorbells of another.
    let socket = connect(&rendezvous);
    handshake::send(&socket, None).unwrap();
    let mut introduced = None;
    until("it is answered", || {
        introduced = handshake::receive(&socket, std::process::id())
            .ok()
            .flatten();
        introduced.is_some()
    });
    let doorbells = introduced.unwrap().doorbells;
    let (urgent, _) = join(root.path());
    until("they see each other", || {
        bulk.others() == 1 && urgent.others() == 1
    });

    let worker_at = |participant: &Participant, priority| {
        let published = participant.publish().unwrap();
        let executor = Executor::with(Config::new().publish_to(published));
        let work = async {
            loop {
                yield_now().await;
            }
        };
        executor.spawn(priority, work).unwrap();
        (executor, participant.worker(published).unwrap())
    };
    let processors = thread::available_parallelism().unwrap().get();
    let claims: Vec<_> = (0..processors)
        .map(|_| {
            let (executor, worker) = worker_at(&urgent, Priority::MOST_URGENT);
            executor.step_under(&*worker);
            (executor, worker)
        })
        .collect();
    let (executor, worker) = worker_at(&bulk, Priority::LEAST_URGENT);
    until("the worker steps aside", || {
        executor.step_under(&*worker) == Step::Elsewhere
    });

    let stop = AtomicBool::new(false);
    let (began, before) = (
        Instant::now(),
        bulk.shared.checks_aside.load(Ordering::Relaxed),
    );
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                doorbells.0[0].ring_and_wake();
            }
        });
        assert_eq!(worker.step_aside(SCAN / 2), Back::Elapsed);
        stop.store(true, Ordering::Relaxed);
    });
    let checks = bulk.shared.checks_aside.load(Ordering::Relaxed) - before;
    let ticks = 1 + began.elapsed().div_duration_f64(SCAN) as u64;
    assert!(
        checks <= ticks * (u64::from(RINGS) + 8),
        "{checks} in {ticks}"
    );
    drop(claims);
}
