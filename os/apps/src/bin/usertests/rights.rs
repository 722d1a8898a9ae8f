//! Tests of what a process may do to others and to the machine (see `corank_abi::rights`).
//!
//! A process without rights tries everything on every process.
use corank_abi::call::{
    FAILED, FAULT, FAULT_END, FAULT_FRAME, FAULT_HEAP, FAULT_MEMORY, FAULT_SILENCE, FOREGROUND,
    HARTS_LIMIT, QUIESCE, RESTRICT,
};
use corank_abi::rights;
use corank_user::io::Pipe;
use corank_user::process::{self, Exited, Pid, Rights};
use corank_user::{thread, time};

use crate::support::{KILL, call, exit_code, kill_and_wait, pipe, record, tests};

tests![
    without_all_levels_there_is_no_right_over_the_machine,
    without_rights_others_are_out_of_reach,
    rights_never_come_back,
    children_and_programs_inherit_rights,
    rights_are_taken_from_children_alone,
    with_the_right_all_processes_are_in_reach,
    descendants_are_in_reach,
    orphans_descend_from_the_first_process_alone,
    a_group_belongs_to_the_parent_of_its_first_member,
    a_member_may_leave_a_group_and_ends_none,
    a_process_joins_no_group_by_itself,
    an_empty_group_gets_no_console,
    groups_of_one_number_are_apart,
    existence_is_no_secret,
];

const FIRST: Pid = 1;
/// A grant of level 63 alone.
const LEAST: u64 = 1 << 63;
/// A time longer than any test.
const FOR_EVER: core::time::Duration = core::time::Duration::from_secs(1000);

/// Starts a process that does nothing.
fn idle() -> Pid {
    process::spawn(|| {
        time::sleep(FOR_EVER);
        0
    })
    .expect("a process")
}

/// Runs `deed` in a process without rights.
fn without_rights(deed: impl FnOnce() -> i32) -> i32 {
    exit_code(|| {
        process::restrict(0, Rights::NONE).expect_err("0 is no process");
        process::restrict(process::id(), Rights::NONE).expect("itself");
        deed()
    })
}

/// Counts the ways to end `victim`, or all of its group, that the kernel lets through.
///
/// The count also includes whether `victim` is dead. Callers try the ways that would switch the
/// machine off only if no other way has gone through.
fn ways_to_end(victim: Pid, group: Pid) -> i32 {
    let victims = [victim, group.wrapping_neg()];
    let mut ways = 0;
    for target in victims {
        for signal in [2, KILL as usize, 15, 1 << 9] {
            ways += i32::from(call(KILL_CALL, [target, signal, 0]) != FAILED);
        }
    }
    // Into this process's group, and into one of its own, either of which could be ended then.
    ways += i32::from(process::set_group(victim, process::id()).is_ok());
    ways += i32::from(process::set_group(victim, 0).is_ok());
    ways += i32::from(process::kill(victim, 0).is_err());
    ways
}

/// The number of the call `kill`, because `KILL` is a signal here.
const KILL_CALL: usize = corank_abi::call::KILL;

/// Counts the calls about the machine as a whole that the kernel lets through.
fn ways_to_rule() -> i32 {
    let calls = [
        (HARTS_LIMIT, [1, 0, 0]),
        (QUIESCE, [0; 3]),
        (FAULT, [FAULT_MEMORY, 1 << 40, 0]),
        (FAULT, [FAULT_FRAME, 1 << 40, 0]),
        (FAULT, [FAULT_HEAP, 1, 0]),
        (FAULT, [FAULT_SILENCE, 1 << 40, 1]),
        (FAULT, [FAULT_END, 1 << 40, 0]),
    ];
    let refused = |(number, arguments)| call(number, arguments) == FAILED;
    calls.into_iter().filter(|call| !refused(*call)).count() as i32
}

/// Tests the attack that switched the machine off.
///
/// A process that has lost its levels ends the first one.
fn without_all_levels_there_is_no_right_over_the_machine() {
    let victim = idle();
    let ways = exit_code(|| {
        process::grant(process::id(), LEAST).expect("itself");
        match ways_to_end(victim, process::id()) + ways_to_rule() {
            0 => ways_to_end(FIRST, FIRST),
            ways => ways,
        }
    });
    assert_eq!(ways, 0);
    kill_and_wait(victim);
}

fn without_rights_others_are_out_of_reach() {
    let sibling = idle();
    let parent = process::id();
    let group = record(parent).group as Pid;
    let ways = without_rights(|| {
        let ways = ways_to_end(sibling, sibling) + ways_to_end(parent, group) + ways_to_rule();
        let console =
            call(FOREGROUND, [0; 3]) != FAILED || call(FOREGROUND, [process::id(), 0, 0]) != FAILED;
        let taken = [sibling, parent, FIRST].into_iter().filter(|other| {
            process::grant(*other, LEAST).is_ok() || process::restrict(*other, Rights::NONE).is_ok()
        });
        match ways + i32::from(console) + taken.count() as i32 {
            0 => ways_to_end(FIRST, FIRST),
            ways => ways,
        }
    });
    assert_eq!(ways, 0);
    kill_and_wait(sibling);
}

fn rights_never_come_back() {
    let ways = without_rights(|| {
        process::restrict(process::id(), Rights::ALL).expect("itself");
        process::grant(process::id(), !0).expect("itself");
        let by_child = exit_code(ways_to_rule);
        ways_to_rule() + by_child
    });
    assert_eq!(ways, 0);
}

fn children_and_programs_inherit_rights() {
    assert_eq!(exit_code(|| exit_code(|| i32::from(ways_to_rule() < 6))), 0);
    let refused = without_rights(|| {
        process::exec("misbehave", &["misbehave", "power"]);
        7
    });
    assert_eq!(refused, 0);
}

fn rights_are_taken_from_children_alone() {
    let (go, goes) = pipe();
    let child = process::spawn(|| {
        assert_eq!(go.read(&mut [0]), Ok(1));
        ways_to_rule()
    })
    .expect("a process");
    process::restrict(child, Rights::CONSOLE).expect("a child");
    goes.write(&[0]).expect("room");
    assert_eq!(process::wait(child).map(|exited| exited.code), Ok(0));
    assert!(
        process::restrict(child, Rights::NONE).is_err(),
        "it is gone"
    );
    assert!(process::restrict(1 << 40, Rights::NONE).is_err());
    // Rights that do not exist may be kept.
    let rest = !rights::ALL | rights::MACHINE;
    assert_eq!(call(RESTRICT, [process::id(), rest, 0]), 0);
    assert!(process::set_foreground(0).is_err(), "that one is gone");
    assert!(ways_to_rule() > 0, "this one is not");
}

fn with_the_right_all_processes_are_in_reach() {
    let sibling = idle();
    let code = exit_code(|| i32::from(process::kill(sibling, KILL).is_err()));
    assert_eq!(code, 0);
    let code = -(KILL as i32);
    let pid = sibling;
    assert_eq!(process::wait(sibling), Ok(Exited { pid, code }));
}

/// Makes a chain of `length` processes below this one, and returns how its first one ended.
///
/// The last process says its number and waits.
fn chain(length: usize, say: &Pipe) -> i32 {
    if length == 0 {
        let number = process::id().to_le_bytes();
        say.writer.write(&number).expect("room");
        time::sleep(FOR_EVER);
        return 0;
    }
    exit_code(|| chain(length - 1, say))
}

fn number_of(say: &Pipe) -> Pid {
    let mut number = [0; 8];
    assert_eq!(say.reader.read(&mut number), Ok(8));
    Pid::from_le_bytes(number)
}

fn descendants_are_in_reach() {
    // The kernel checks the short chain in one piece of work, and the long one in more.
    for length in [10, 150] {
        let code = without_rights(|| {
            let say = Pipe::new().expect("a pipe");
            let child = process::spawn(|| chain(length, &say)).expect("a process");
            let last = number_of(&say);
            process::set_group(last, last).expect("a descendant");
            process::kill(last, 15).expect("a descendant");
            // Each process passes on how its child ended.
            process::wait(child).expect("the child").code
        });
        assert_eq!(code, -15);
    }
}

fn orphans_descend_from_the_first_process_alone() {
    let say = Pipe::new().expect("a pipe");
    let code = without_rights(|| {
        let child = process::spawn(|| {
            process::spawn(|| chain(0, &say)).expect("a process");
            0
        });
        process::wait(child.expect("a process")).expect("the child");
        let orphan = number_of(&say);
        say.writer.write(&orphan.to_le_bytes()).expect("room");
        i32::from(process::kill(orphan, KILL).is_ok())
    });
    assert_eq!(code, 0, "it has another parent now");
    let orphan = number_of(&say);
    process::kill(orphan, KILL).expect("with the right");
    while process::kill(orphan, 0).is_ok() {
        thread::yield_now();
    }
}

fn a_group_belongs_to_the_parent_of_its_first_member() {
    let code = without_rights(|| {
        let say = Pipe::new().expect("a pipe");
        // The leader is put there by its parent, or does it itself.
        let leader = process::spawn(|| {
            process::set_group(0, 0).expect("itself");
            chain(3, &say)
        })
        .expect("a process");
        process::set_group(leader, leader).expect("a child");
        let last = number_of(&say);
        let member = idle();
        process::set_group(member, leader).expect("a child");
        assert_eq!(record(last).group, leader as u64);
        process::kill_group(leader, KILL).expect("its own");
        for child in [leader, member] {
            assert_eq!(
                process::wait(child).expect("the child").code,
                -(KILL as i32)
            );
        }
        while process::kill(last, 0).is_ok() {
            thread::yield_now();
        }
        0
    });
    assert_eq!(code, 0);
}

fn a_member_may_leave_a_group_and_ends_none() {
    const NUMBER: Pid = 77;
    let code = without_rights(|| {
        let (told, tells) = pipe();
        let (go, goes) = pipe();
        let member = process::spawn(|| {
            assert_eq!(go.read(&mut [0]), Ok(1));
            let ends = |group| process::kill_group(group, KILL).is_ok();
            let in_it = ends(NUMBER);
            process::set_group(0, 0).expect("itself");
            let outside = ends(NUMBER) || ends(process::id());
            tells.write(&[in_it.into(), outside.into()]).expect("room");
            time::sleep(FOR_EVER);
            0
        })
        .expect("a process");
        process::set_group(member, NUMBER).expect("a child");
        goes.write(&[0]).expect("room");
        let mut ends = [1; 2];
        assert_eq!((told.read(&mut ends), ends), (Ok(2), [0, 0]));
        assert!(process::kill_group(NUMBER, KILL).is_err(), "it has left");
        process::kill_group(member, KILL).expect("that belongs to the parent");
        process::wait(member).expect("the child").code
    });
    assert_eq!(code, -(KILL as i32));
}

/// Tests that a process joins no group by itself.
///
/// Otherwise it could say that the console belongs to that group, and Ctrl-C would end its siblings
/// or its parent.
fn a_process_joins_no_group_by_itself() {
    let sibling = idle();
    process::set_group(sibling, sibling).expect("a child");
    let parent = record(process::id()).group as Pid;
    let code = exit_code(|| {
        process::set_group(0, 0).expect("itself");
        let joins = |group| process::set_group(0, group).is_ok();
        i32::from(joins(sibling) || joins(parent) || joins(FIRST) || joins(1 << 40))
    });
    assert_eq!(code, 0);
    kill_and_wait(sibling);
}

fn an_empty_group_gets_no_console() {
    let code = exit_code(|| {
        let gets = |group| process::set_foreground(group).is_ok();
        let (own, parents) = (process::id(), record(process::id()).group as Pid);
        i32::from(gets(own) || gets(FIRST + 1000) || parents != FIRST && gets(FIRST))
    });
    assert_eq!(code, 0);
}

/// Tests that groups of one number are apart.
///
/// A process puts itself into a group that has the number of another's. Ends of either don't reach
/// the other.
fn groups_of_one_number_are_apart() {
    let victim = idle();
    process::set_group(victim, victim).expect("a child");
    let code = without_rights(|| {
        let child = idle();
        process::set_group(child, victim).expect("a child");
        process::kill_group(victim, KILL).expect("its own of this number");
        process::wait(child).expect("the child").code
    });
    assert_eq!(code, -(KILL as i32));
    assert_eq!(process::kill(victim, 0), Ok(()), "it goes on");
    kill_and_wait(victim);
}

fn existence_is_no_secret() {
    let code = without_rights(|| {
        i32::from(process::kill(FIRST, 0).is_err() || process::kill(1 << 40, 0).is_ok())
    });
    assert_eq!(code, 0);
}
