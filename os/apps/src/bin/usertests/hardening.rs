//! Tests of programs that take all that they can get, and of processes that end in the middle of
//! everything.
use alloc::vec::Vec;
use core::time::Duration;

use corank_abi::call::{FAULT_END, FAULT_MEMORY};
use corank_abi::exit_code::KILLED;
use corank_user::fs::{self, From, Options};
use corank_user::information::{self, ProcessRecord};
use corank_user::io::Pipe;
use corank_user::process::{self, Fork, Pid};
use corank_user::{block_on, io, ring, thread, time};

use crate::files::{self, HERE};
use crate::injected::at_every_step_by;
use crate::support::{self, exit_code, pipe, quiesced, tests, without_sockets};

tests![
    a_fork_bomb_is_contained,
    a_fork_bomb_that_never_stops_is_contained,
    a_group_is_killed_at_once,
    a_killed_pipeline_leaves_nothing,
    the_heap_does_not_leak,
    a_kill_at_any_step_of_file_calls_leaves_nothing,
    a_kill_at_any_step_of_asynchronous_file_calls_leaves_nothing,
    a_kill_at_any_step_of_fork_and_exec_leaves_nothing,
    file_calls_survive_each_failing_allocation,
    fork_and_exec_survive_each_failing_allocation,
];

/// Returns how many processes there are.
///
/// The kernel counts them, because a list takes memory.
fn processes() -> u64 {
    information::system().expect("it is there").processes
}

/// Ends a fork bomb that began when there were `before` processes.
fn end_bomb(bomb: Pid, before: u64) {
    process::kill_group(bomb, support::KILL).expect("the group is there");
    assert_eq!(process::wait(bomb).expect("the child").code, -9);
    // Its children have another parent now. They end by themselves, and none is left out. They do
    // so at their own level, so this process must wait rather than yield.
    while processes() > before {
        time::sleep(Duration::from_millis(1));
    }
    assert_eq!(exit_code(|| 3), 3, "fork works again");
}

/// Tests that a fork bomb is contained, in which each process forks as often as it can.
///
/// What is left over still works, and all of its processes end together.
fn a_fork_bomb_is_contained() {
    let before = processes();
    let (reader, writer) = pipe();
    let bomb = process::spawn(|| {
        process::set_group(0, 0).expect("itself");
        // One failure shows that there is no more memory. Then all processes wait to be ended.
        loop {
            if process::fork().is_err() {
                let _ = writer.write(&[1]);
                loop {
                    corank_user::time::sleep(core::time::Duration::from_secs(1000));
                }
            }
        }
    })
    .expect("a process");
    assert_eq!(reader.read(&mut [0]), Ok(1), "memory ends");
    // The calls that need no memory still work.
    let count = processes();
    assert!(count > 50, "only {count} processes");
    end_bomb(bomb, before);
}

/// Tests that a fork bomb is contained although each process goes on forking without memory.
///
/// Each goes on until it is ended. It does not delay more urgent processes.
fn a_fork_bomb_that_never_stops_is_contained() {
    let before = processes();
    let (reader, writer) = pipe();
    let bomb = process::spawn(|| {
        process::set_group(0, 0).expect("itself");
        let mut told = false;
        loop {
            if process::fork().is_err() && !told {
                told = true;
                writer.write(&[1]).expect("room for each process");
            }
        }
    })
    .expect("a process");
    support::be_at(5);
    assert_eq!(reader.read(&mut [0]), Ok(1), "memory ends");
    for _ in 0..3 {
        support::spin_for_ticks(1);
        thread::yield_now();
        let count = processes();
        assert!(count > 50, "only {count} processes");
    }
    end_bomb(bomb, before);
}

fn a_group_is_killed_at_once() {
    let leader = process::spawn(|| {
        process::set_group(0, 0).expect("itself");
        for _ in 0..5 {
            let _ = process::spawn(|| {
                corank_user::time::sleep(core::time::Duration::from_secs(1000));
                0
            });
        }
        loop {
            thread::yield_now();
        }
    })
    .expect("a process");
    let members = || {
        let all = information::processes().expect("a list");
        let member = |record: &&ProcessRecord| record.group == leader as u64;
        all.iter().filter(member).count()
    };
    while members() < 6 {
        thread::yield_now();
    }
    process::kill_group(leader, 15).expect("the group is there");
    assert_eq!(process::wait(leader).expect("the child").code, -15);
    assert!(process::kill_group(1 << 40, 15).is_err());
}

/// Tests that a chain of processes that pass data on leaves nothing when one of them is killed.
///
/// The others learn of it and end by themselves.
fn a_killed_pipeline_leaves_nothing() {
    const LENGTH: usize = 6;
    for victim in 0..LENGTH {
        let (first_reader, first_writer) = pipe();
        let mut input = first_reader;
        let mut children = Vec::new();
        for _ in 0..LENGTH {
            let (reader, writer) = pipe();
            let child = process::spawn(|| {
                drop(io::OwnedFd::from_number(first_writer.number()));
                drop(io::OwnedFd::from_number(reader.number()));
                let mut piece = [0; 100];
                while let Ok(100) = input.read(&mut piece) {
                    if writer.write(&piece).is_err() {
                        return 1;
                    }
                }
                0
            });
            children.push(child.expect("a process"));
            input = reader;
        }
        first_writer.write(&[7; 100]).expect("room");
        assert_eq!(input.read(&mut [0; 100]), Ok(100), "it has come through");
        process::kill(children[victim], support::KILL).expect("it runs");
        // A process that reads from the victim sees the end, and one that writes to it fails.
        while first_writer.write(&[7; 100]).is_ok() {
            thread::yield_now();
        }
        drop(first_writer);
        while input.read(&mut [0; 100]).is_ok_and(|count| count > 0) {}
        for (at, child) in children.into_iter().enumerate() {
            let code = process::wait(child).expect("the child").code;
            let expected = match at {
                _ if at < victim => 1,
                _ if at == victim => -9,
                _ => 0,
            };
            assert_eq!(code, expected, "{at} of the chain, victim {victim}");
        }
    }
}

/// Runs one round of everything that allocates in the kernel.
fn everything() {
    let code = exit_code(|| {
        let (reader, writer) = pipe();
        writer.write(&[1; 100]).expect("room");
        let child = match process::fork().expect("a process") {
            Fork::Child => {
                process::exec("true", &["true"]);
                process::exit(1)
            }
            Fork::Parent(child) => child,
        };
        let threads: Vec<_> = (0..3)
            .map(|_| thread::spawn(thread::yield_now).expect("a thread"))
            .collect();
        threads
            .into_iter()
            .for_each(|thread| assert_eq!(thread.join(), Ok(())));
        assert_eq!(process::wait(child).expect("the child").code, 0);
        block_on(async move {
            let (count, _) = ring::read(&reader, Vec::with_capacity(100)).await;
            assert_eq!(count, Ok(100));
        });
        drop(corank_user::sync::Semaphore::new(1));
        if fs::space().is_ok() {
            fs::write("/round", &[1; 5000]).expect("room");
            let file = Options::read_write().open("/round").expect("the file");
            file.truncate(100).expect("room");
            drop(file);
            fs::rename("/round", "/moved").expect("the file");
            fs::remove("/moved").expect("the file");
        }
        0
    });
    assert_eq!(code, 0);
}

/// Tests that each round gives back what it takes, after the kernel's tables have grown at first.
fn the_heap_does_not_leak() {
    let used = || {
        everything();
        without_sockets().heap_used
    };
    let _ = (used(), used());
    let warm = used();
    for round in 0..5 {
        assert_eq!(used(), warm, "round {round}");
    }
}

/// Returns what must be the same before and after each step.
///
/// These are the kernel's coroutines and stacks, processes and free frames. The kernel's heap is
/// not among them, because the file system remembers what it has read. Orphans end in their own
/// time, and then keep one frame until the first process has waited for them.
fn footprint(processes: u64) -> [u64; 4] {
    let ended = || {
        let records = information::processes().expect("a list");
        let ended = |record: &&ProcessRecord| record.state == information::ENDED;
        records.iter().filter(ended).count() as u64
    };
    // From here on the list has its memory.
    ended();
    loop {
        let system = || information::system().expect("it is there");
        if system().processes == processes {
            // All have ended, but the last of them may still be leaving the kernel.
            let system = quiesced(system);
            return [
                system.coroutines,
                system.stacks,
                system.processes,
                system.frames_free + ended(),
            ];
        }
        thread::yield_now();
    }
}

fn at_every_step(kind: usize, scenario: impl Fn() -> i32, may_end: impl Fn(i32) -> bool) -> usize {
    let processes = information::system().expect("it is there").processes;
    at_every_step_by(|| footprint(processes), kind, scenario, may_end)
}

/// Makes calls of every kind on files and directories.
///
/// Returns 1 if one of them was refused, and leaves nothing behind otherwise.
fn file_calls() -> i32 {
    let mut refused = 0;
    let mut ok = |succeeded: bool| refused |= i32::from(!succeeded);
    ok(fs::make_directory(HERE).is_ok());
    ok(fs::change_directory(HERE).is_ok());
    match Options::read_write().create().open("file") {
        Ok(file) => {
            ok(file.write_all(&DATA).is_ok());
            ok(file.seek(From::End(-10)).is_ok());
            ok(file.read(&mut [0; 10]) == Ok(10));
            ok(file.truncate(70).is_ok());
            ok(file.status().is_ok_and(|status| status.size == 70));
            ok(file.close().is_ok());
        }
        Err(_) => ok(false),
    }
    ok(fs::rename("file", "other").is_ok());
    ok(fs::status("other").is_ok());
    ok(fs::list(".").is_ok_and(|entries| entries.len() == 1));
    ok(fs::remove("other").is_ok());
    ok(fs::change_directory("/").is_ok());
    ok(fs::remove_directory(HERE).is_ok());
    refused
}

/// More data than one operation of the kernel takes.
static DATA: [u8; 140_000] = [7; 140_000];

/// Runs a test on files from an empty directory on, and checks that all its room comes back.
fn with_room_for_files(steps: impl FnOnce() -> usize) {
    files::remove_all(HERE);
    let before = fs::space().expect("a disk").free;
    let steps = steps();
    assert!(steps > 10, "only {steps} steps");
    files::remove_all(HERE);
    assert_eq!(fs::space().expect("a disk").free, before);
}

/// Returns `scenario` with a step before it that removes whatever the process before has left.
fn from_the_beginning(scenario: impl Fn() -> i32) -> impl Fn() -> i32 {
    move || {
        files::remove_all(HERE);
        scenario()
    }
}

fn a_kill_at_any_step_of_file_calls_leaves_nothing() {
    with_room_for_files(|| {
        let scenario = from_the_beginning(file_calls);
        at_every_step(FAULT_END, scenario, |code| code == KILLED)
    });
}

/// Writes the same data through the ring, so the process also ends while the disk works for it.
fn asynchronous_file_calls() -> i32 {
    let file = Options::read_write().create().open("/file").expect("room");
    let file = file.into_fd();
    block_on(async move {
        for _ in 0..3 {
            let (count, _) = ring::write(&file, DATA.to_vec()).await;
            assert_eq!(count, Ok(DATA.len()));
        }
        ring::close(file);
    });
    0
}

fn a_kill_at_any_step_of_asynchronous_file_calls_leaves_nothing() {
    at_every_step(
        FAULT_END,
        || {
            let _ = fs::remove("/file");
            let code = asynchronous_file_calls();
            let _ = fs::remove("/file");
            code
        },
        |code| code == KILLED,
    );
    let _ = fs::remove("/file");
}

/// Runs another program in a child, with a pipe from it.
///
/// Returns 1 if something was refused.
fn fork_and_exec() -> i32 {
    let Ok(Pipe { reader, writer }) = Pipe::new() else {
        return 1;
    };
    let child = process::spawn(|| {
        drop(io::OwnedFd::from_number(1));
        let _ = writer.duplicate().map(io::OwnedFd::into_number);
        process::exec("echo", &["echo", "word"]);
        1
    });
    drop(writer);
    let mut text = [0; 16];
    let read = reader.read(&mut text);
    match child.and_then(process::wait) {
        Ok(exited) if exited.code == 0 => i32::from(read != Ok(5)),
        _ => 1,
    }
}

fn a_kill_at_any_step_of_fork_and_exec_leaves_nothing() {
    let steps = at_every_step(FAULT_END, fork_and_exec, |code| code == KILLED);
    assert!(steps > 5, "only {steps} steps");
}

fn file_calls_survive_each_failing_allocation() {
    with_room_for_files(|| {
        let scenario = from_the_beginning(file_calls);
        // The fault may have come while the directory was emptied.
        at_every_step(FAULT_MEMORY, scenario, |code| matches!(code, 0 | 1))
    });
}

fn fork_and_exec_survive_each_failing_allocation() {
    // Some failures cost nothing but speed.
    let steps = at_every_step(FAULT_MEMORY, fork_and_exec, |code| matches!(code, 0 | 1));
    assert!(steps > 30, "only {steps} allocations");
}
