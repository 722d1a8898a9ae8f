//! Tests of what a process may claim (rules U1 to U4).
//!
//! A process that lies about its coroutines delays only what it was granted to delay.
use alloc::vec::Vec;
use core::time::Duration;

use corank_user::io::OwnedFd;
use corank_user::process::{self, Fork, Pid};
use corank_user::{information, thread, time};

use crate::support::{
    busy_elsewhere, claim, claim_timer, exit_code, kill_and_wait, pipe, record, spin_for_ticks,
    tests,
};

tests![
    a_grant_is_never_won_back,
    children_have_what_their_parent_has,
    only_a_child_or_the_caller_is_granted_levels,
    a_claim_beyond_the_grant_counts_as_the_grant,
    all_ones_delays_no_other_process,
    random_claims_delay_no_other_process,
    flipping_claims_delay_no_other_process,
    false_timers_delay_no_other_process,
    a_forger_with_every_level_delays_others,
    each_is_charged_for_its_own_time,
];

/// The levels from 40 on.
const FROM_40: u64 = !0 << 40;

/// Returns the level that the kernel gives a process that claims `claims` after these grants.
///
/// The grants come one after the other.
fn granted_level(grants: &[u64], claims: u64) -> u64 {
    let (asks, asked) = pipe();
    // More urgent than the child with any grant, so that it is the child that waits for the hart.
    claim(1);
    thread::yield_now();
    let child = process::spawn(|| {
        for grant in grants {
            process::grant(process::id(), *grant).expect("its own");
        }
        claim(claims);
        asked.write(&[0]).expect("room");
        loop {
            thread::yield_now();
        }
    })
    .expect("a process");
    assert_eq!(asks.read(&mut [0]), Ok(1));
    // By the next tick the kernel has seen what the child claims.
    spin_for_ticks(2);
    let level = record(child).level;
    kill_and_wait(child);
    level
}

fn a_grant_is_never_won_back() {
    assert_eq!(granted_level(&[!0], 1 << 7), 7);
    assert_eq!(granted_level(&[FROM_40], 1 << 7), 40);
    assert_eq!(granted_level(&[FROM_40, !0], 1 << 7), 40);
    assert_eq!(granted_level(&[FROM_40, 1 << 50], 1 << 7), 50);
    assert_eq!(
        granted_level(&[FROM_40, 1 << 7], 1 << 7),
        63,
        "nothing is left"
    );
}

fn a_claim_beyond_the_grant_counts_as_the_grant() {
    assert_eq!(granted_level(&[FROM_40], !0), 40);
    assert_eq!(granted_level(&[FROM_40], 1 << 45), 45);
    assert_eq!(granted_level(&[1 << 20 | 1 << 50], 1 << 21), 50);
}

fn children_have_what_their_parent_has() {
    let code = exit_code(|| {
        process::grant(process::id(), FROM_40).expect("its own");
        i32::from(granted_level(&[], 1 << 7) != 40)
    });
    assert_eq!(code, 0);
}

fn only_a_child_or_the_caller_is_granted_levels() {
    let (gate, gatekeeper) = pipe();
    let child = match process::fork().expect("a process") {
        Fork::Child => {
            drop(gatekeeper);
            let _ = gate.read(&mut [0]);
            process::exit(0)
        }
        Fork::Parent(pid) => pid,
    };
    assert_eq!(process::grant(child, FROM_40), Ok(()));
    let stranger = exit_code(|| i32::from(process::grant(child, FROM_40).is_err()));
    assert_eq!(stranger, 1, "a sister is no child");
    assert!(process::grant(1 << 40, FROM_40).is_err());
    drop(gatekeeper);
    process::wait(child).expect("the child");
    assert!(process::grant(child, FROM_40).is_err(), "it is gone");
}

/// Returns how many turns a forging process gets while two others pass a token to and fro.
///
/// The two are at level 20 and pass it `ROUNDS` times.
fn turns_of(forge: fn(u64) -> u64, grant: u64) -> u64 {
    const ROUNDS: usize = 200;
    const MOST_TURNS: u64 = 1000;
    let _busy = busy_elsewhere(10);
    let (counts, counted) = pipe();
    let forger = process::spawn(|| {
        process::grant(process::id(), grant).expect("its own");
        for turn in 0..MOST_TURNS {
            claim(forge(turn));
            counted.write(&[0]).expect("room");
            thread::yield_now();
        }
        0
    })
    .expect("a process");
    // The forger has had its first turn.
    assert_eq!(counts.read(&mut [0]), Ok(1));
    let (to, from_here) = pipe();
    let (back, to_here) = pipe();
    let partner = partner(&to, &to_here, ROUNDS);
    claim(1 << 20);
    thread::yield_now();
    for _ in 0..ROUNDS {
        from_here.write(&[0]).expect("room");
        back.read(&mut [0]).expect("a token");
    }
    let _ = process::kill(forger, 9);
    process::wait(forger).expect("the child");
    assert_eq!(process::wait(partner).expect("the child").code, 0);
    drop(counted);
    let mut turns = Vec::with_capacity(1 << 16);
    counts.fill(&mut turns).expect("it can be read");
    turns.len() as u64
}

fn partner(to: &OwnedFd, back: &OwnedFd, rounds: usize) -> Pid {
    process::spawn(|| {
        claim(1 << 20);
        thread::yield_now();
        for _ in 0..rounds {
            to.read(&mut [0]).expect("a token");
            back.write(&[0]).expect("room");
        }
        0
    })
    .expect("a process")
}

/// Tests that a forger gets no turn while a process at level 20 is ready.
///
/// The forger has only levels less urgent than 20. It gets at most the turn that it was in.
fn all_ones_delays_no_other_process() {
    assert!(turns_of(|_| !0, FROM_40) <= 2);
}

fn random_claims_delay_no_other_process() {
    let random = |turn: u64| (turn + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    assert!(turns_of(random, FROM_40) <= 2);
}

fn flipping_claims_delay_no_other_process() {
    assert!(turns_of(|turn| if turn % 2 == 0 { 1 } else { 1 << 60 }, FROM_40) <= 2);
}

/// Claims deadlines that are past, always about to come, or beyond all time, at every level.
fn forged_timers(turn: u64) -> u64 {
    let random = (turn + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for level in 0..64 {
        let due = match (random >> level) % 4 {
            0 => 0,
            1 => time::nanoseconds() + (random >> 54) * 100,
            2 => u64::MAX - (turn & 1),
            _ => random.rotate_left(level as u32),
        };
        claim_timer(level, due);
    }
    1 << 60
}

fn false_timers_delay_no_other_process() {
    assert!(turns_of(forged_timers, FROM_40) <= 2);
}

/// Tests that the same forger gets its turns with every level, so the tests above would have seen
/// it.
fn a_forger_with_every_level_delays_others() {
    assert!(turns_of(|_| !0, !0) > 100);
    assert!(turns_of(forged_timers, !0) > 100);
}

/// Tests that a process that spins is charged for it, although it claims next to nothing.
///
/// A process that waits is not charged, although it claims everything. Together they cannot have
/// been in more harts than there are.
fn each_is_charged_for_its_own_time() {
    const ENOUGH: u64 = 30_000;
    let (gate, gatekeeper) = pipe();
    let waits = process::spawn(|| {
        drop(OwnedFd::from_number(gatekeeper.number()));
        claim(!0);
        gate.read(&mut [0]).map_or(1, |_| 0)
    })
    .expect("a process");
    let spins = process::spawn(|| {
        claim(1 << 63);
        loop {
            core::hint::spin_loop();
        }
    })
    .expect("a process");
    let times = || -> Vec<(u64, u64)> {
        let records = information::processes().expect("memory");
        records
            .iter()
            .map(|record| (record.pid, record.time))
            .collect()
    };
    let of = |times: &[(u64, u64)], pid: Pid| {
        let found = times.iter().find(|(number, _)| *number == pid as u64);
        found.expect("it is there").1
    };
    // By now the process that waits is waiting.
    spin_for_ticks(2);
    let begin = time::nanoseconds();
    let before = times();
    let mut after = times();
    for _ in 0..1000 {
        if of(&after, spins) - of(&before, spins) >= ENOUGH {
            break;
        }
        time::sleep(Duration::from_millis(10));
        after = times();
    }
    let elapsed = (time::nanoseconds() - begin) / 1000;
    assert!(of(&after, spins) - of(&before, spins) >= ENOUGH);
    assert_eq!(of(&after, waits), of(&before, waits));
    let sum = |times: &[(u64, u64)]| times.iter().map(|(_, time)| time).sum::<u64>();
    let together = sum(&after) - sum(&before);
    let most = process::harts() as u64 * (elapsed + 1);
    assert!(together <= most, "{together} µs of {most}");
    kill_and_wait(spins);
    drop(gatekeeper);
    assert_eq!(process::wait(waits).expect("the child").code, 0);
}
