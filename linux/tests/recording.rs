//! Recordings of real runtimes: they keep the contract, and survive a crash.

#![cfg(all(feature = "recording", not(loom)))]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use corank_linux::sync::{Channel, Mutex, Shared};
use corank_linux::{Builder, Order, Policy, Priority, spawn, time, yield_now};
use corank_recording::{Checked, Kind, Recording, Role, Summary, check};

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

#[track_caller]
fn read(path: &Path) -> Recording {
    match Recording::read(&fs::read(path).unwrap()) {
        Ok(recording) => recording,
        Err(damage) => panic!("{damage}"),
    }
}

#[track_caller]
fn checked(path: &Path) -> Checked {
    check(&read(path)).unwrap_or_else(|violation| panic!("{violation}"))
}

/// Runs coroutines on several levels that yield, wait for locks, channels and each other, change
/// levels and are cancelled.
async fn exercise() {
    let lock = Arc::new(Mutex::new_in(Shared::here().unwrap(), 0_u32));
    let channel = Arc::new(Channel::<u8, 2>::new_in(Shared::here().unwrap()));
    let mut handles = Vec::new();
    for number in 0..40_u8 {
        let (lock, channel) = (lock.clone(), channel.clone());
        let work = async move {
            for round in 0..5 {
                let mut guard = lock.lock().await;
                *guard += 1;
                if (number + round) % 3 == 0 {
                    yield_now().await;
                }
                drop(guard);
                if number % 2 == 0 {
                    let _ = channel.send(number).await;
                } else {
                    let _ = channel.receive().await;
                }
            }
            assert!(number != 38, "on purpose");
        };
        handles.push(spawn(level(number % 9 * 7), work).unwrap());
    }
    handles[6].reprioritize(level(1));
    handles[7].reprioritize(level(63));
    let sleeper = spawn(level(9), std::future::pending::<()>()).unwrap();
    yield_now().await;
    sleeper.cancel();
    for handle in handles {
        let _ = handle.await;
    }
}

fn record(path: &Path, builder: Builder) {
    let runtime = builder.record(path).build().unwrap();
    for _ in 0..5 {
        runtime.block_on_at(level(5), exercise());
    }
}

#[test]
fn one_worker_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one");
    record(&path, Builder::new().workers(1));
    let checked = checked(&path);
    assert!(checked.picks > 1000, "{checked:?}");
    assert_eq!(checked.limits, [""; 0]);
}

#[test]
fn several_workers_keep_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("several");
    record(&path, Builder::new().workers(3));
    assert_eq!(checked(&path).limits, [""; 0]);
}

#[test]
fn a_bounded_policy_and_bulk_workers_keep_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy");
    let builder = Builder::new().workers(1).policy(Policy::bounded(4));
    record(&path, builder.spare_workers(None));
    checked(&path);
    let path = folder.path().join("bulk");
    record(
        &path,
        Builder::new()
            .workers(1)
            .bulk(level(30), corank_linux::Class::Idle),
    );
    checked(&path);
    let roles = read(&path);
    let roles = roles.rings.iter().map(|ring| ring.role);
    assert!(roles.clone().any(|role| role == Role::Bulk));
    assert!(roles.clone().any(|role| role == Role::Worker));
}

#[test]
fn a_recording_names_coroutines_and_what_woke_them() {
    async fn served() {
        std::future::poll_fn(|cx| {
            cx.waker().wake_by_ref();
            std::task::Poll::Ready(())
        })
        .await;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("names");
    let runtime = Builder::new()
        .workers(1)
        .name("shop")
        .record(&path)
        .build()
        .unwrap();
    runtime.block_on(async {
        spawn(level(3), served()).unwrap().await.unwrap();
        // The worker has nothing else to do, so it sleeps.
        time::sleep(Duration::from_millis(1)).await;
    });
    let recording = read(&path);
    assert!(recording.header.settings.program.ends_with(": shop"));
    let summary = Summary::of(&recording);
    let served = (summary.tasks.keys()).find(|(name, _)| name.ends_with("served"));
    assert_eq!(served.unwrap().1, 3);
    let poll = summary.polls.iter().find(|poll| poll.level == 3).unwrap();
    assert_eq!(poll.end, Some(Kind::Finish));
    let kinds: Vec<Kind> = (recording.rings.iter())
        .flat_map(|ring| ring.events.iter().map(|event| event.kind))
        .collect();
    assert!(kinds.contains(&Kind::Idle) && kinds.contains(&Kind::Awake));
}

#[test]
fn a_full_ring_is_checked_from_where_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("full");
    let runtime = Builder::new().workers(1).record(&path).build().unwrap();
    runtime.block_on(async {
        let other = spawn(level(32), async {
            for _ in 0..30_000 {
                yield_now().await;
            }
        });
        let own = spawn(level(32), async {
            for _ in 0..30_000 {
                yield_now().await;
            }
        });
        other.unwrap().await.unwrap();
        own.unwrap().await.unwrap();
    });
    assert!(read(&path).lost() > 0);
    assert_eq!(checked(&path).limits.len(), 1);
}

#[test]
fn shards_cannot_be_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shards");
    let error = Builder::new()
        .order(Order::Bounded)
        .record(&path)
        .build()
        .unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    assert!(!path.exists());
}

#[test]
fn a_file_that_cannot_be_made_is_an_error_with_its_path() {
    let error = Builder::new().record("/nowhere/file").build().unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("cannot record into /nowhere/file: "),
        "{text}"
    );
}

/// The program of the tests below; it does nothing where they do not start it.
#[test]
fn child() {
    match std::env::var("CORANK_TEST_CHILD").as_deref() {
        Ok("crash") => {
            let runtime = Builder::new().workers(1).build().unwrap();
            runtime.block_on(async {
                exercise().await;
                std::process::abort();
            });
        }
        Ok("two") => {
            for _ in 0..2 {
                let runtime = Builder::new().workers(1).build().unwrap();
                runtime.block_on(exercise());
            }
        }
        _ => {}
    }
}

/// Runs `child` with the variable set, and returns its process number.
fn run_child(what: &str, path: &Path) -> u32 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--test-threads=1"])
        .env("CORANK_TEST_CHILD", what)
        .env("CORANK_RECORD", path)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    child.wait().unwrap();
    child.id()
}

#[test]
fn a_process_that_crashes_leaves_its_recording() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crash");
    let process = run_child("crash", &path);
    assert_eq!(read(&path).header.settings.process, process);
    assert!(checked(&path).picks > 200);
}

#[test]
fn the_variable_names_a_file_for_each_runtime_and_process() {
    let folder = tempfile::tempdir().unwrap();
    let process = run_child("two", &folder.path().join("run-%p"));
    for name in [format!("run-{process}"), format!("run-{process}.2")] {
        checked(&folder.path().join(name));
    }
}

#[test]
fn a_former_file_stays_with_the_process_that_writes_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("same");
    let first = Builder::new().workers(1).record(&path).build().unwrap();
    let second = Builder::new().workers(1).record(&path).build().unwrap();
    first.block_on(exercise());
    assert_eq!(checked(&path).picks, 0);
    second.block_on(exercise());
    assert!(checked(&path).picks > 0);
}
