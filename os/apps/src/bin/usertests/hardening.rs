//! Programs that take all that they can get, and processes that end in the middle of everything.
use alloc::vec::Vec;

use corank_user::fs::{self, Options};
use corank_user::process::{self, Fork};
use corank_user::{block_on, information, io, ring, thread};

use crate::support::{self, exit_code, pipe, tests};

tests![
    a_fork_bomb_is_contained,
    a_group_is_killed_at_once,
    a_killed_pipeline_leaves_nothing,
    the_heap_does_not_leak,
];

/// Each of its processes forks as often as it can. What is left over works all the same, and all of them end together.
fn a_fork_bomb_is_contained() {
    let (reader, writer) = pipe();
    let bomb = process::spawn(|| {
        process::set_group(0, 0).expect("itself");
        // One failure tells that there is no more memory; then all wait to be ended.
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
    let count = information::system().expect("it is there").processes;
    assert!(count > 50, "only {count} processes");
    process::kill_group(bomb, support::KILL).expect("the group is there");
    assert_eq!(process::wait(bomb).expect("the child").code, -9);
    // Its children are somebody else's now; they go by themselves.
    while information::processes()
        .expect("a list")
        .iter()
        .any(|record| record.group == bomb as u64 && record.state != information::ENDED)
    {
        thread::yield_now();
    }
    assert_eq!(exit_code(|| 3), 3, "fork works again");
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
        let member = |record: &&information::ProcessRecord| record.group == leader as u64;
        all.iter().filter(member).count()
    };
    while members() < 6 {
        thread::yield_now();
    }
    process::kill_group(leader, 15).expect("the group is there");
    assert_eq!(process::wait(leader).expect("the child").code, -15);
    assert!(process::kill_group(1 << 40, 15).is_err());
}

/// A chain of processes that pass data on is ended somewhere in the middle: the others learn of it and end by themselves.
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
        // Whoever reads from the victim sees the end; whoever writes to it fails.
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

/// One round of everything that allocates in the kernel.
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

/// The kernel's tables grow at first; from then on each round gives back what it takes.
fn the_heap_does_not_leak() {
    let used = || {
        everything();
        information::system().expect("it is there").heap_used
    };
    let _ = (used(), used());
    let warm = used();
    for round in 0..5 {
        assert_eq!(used(), warm, "round {round}");
    }
}
