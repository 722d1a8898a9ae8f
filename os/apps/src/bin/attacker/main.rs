//! Attacks the system from inside, for `cargo xtask attack`. Run by hand, it needs no more than a
//! machine of its own.
//!
//! `attacker calls SEED ROUNDS [MICROSECONDS]` lets processes without rights make random calls with
//! damaged rings and pages. Beside them runs an urgent process that must not notice. On a machine
//! that counts instructions, that process must go on at most this much late.
//! `attacker programs NAME...` runs programs from files that may be damaged. `attacker volume SEED`
//! uses a disk that may be damaged. The last line is `unharmed` if nothing was found; a finding is
//! a panic with what was expected.
//!
//! An attacker may claim level 63 alone, so it has no right to the machine. It has no open file at
//! its beginning and ends by a signal.
#![no_std]
#![no_main]

extern crate alloc;

mod attack;
mod judge;
mod values;
mod victim;
mod volume;

use core::time::Duration;

use corank_user::{println, process, time};
use judge::Judge;
use victim::Victim;

corank_user::main!(main);

/// Least time for which the attackers of one round go on.
const ROUND: Duration = Duration::from_millis(60);
/// Time for which the victim sleeps between two checks, so that others get the hart.
const PAUSE: Duration = Duration::from_millis(2);
/// Longest time for which a damaged program may run.
const PROGRAM: Duration = Duration::from_millis(20);

fn main() -> i32 {
    let mut arguments = corank_user::arguments().skip(1);
    match arguments.next() {
        Some("calls") => {
            let mut number = || arguments.next()?.parse::<u64>().ok();
            let (Some(seed), Some(rounds)) = (number(), number()) else {
                return usage();
            };
            let limit = number().map(Duration::from_micros);
            calls(seed, rounds, limit);
        }
        Some("programs") => {
            let mut victim = Victim::start(true);
            arguments.for_each(|name| program(name, &mut victim));
            victim.end();
        }
        Some("volume") => {
            let Some(seed) = arguments.next().and_then(|seed| seed.parse().ok()) else {
                return usage();
            };
            let mut victim = Victim::start(false);
            volume::attack(seed, || victim.answers());
            victim.end();
        }
        _ => return usage(),
    }
    println!("unharmed");
    0
}

fn usage() -> i32 {
    println!("usage: attacker (calls SEED ROUNDS [MICROSECONDS] | programs NAME... | volume SEED)");
    2
}

/// Attacks in rounds, each of which must leave the system as it was.
///
/// Each round must also let this process, which is urgent, go on at most `limit` late.
fn calls(seed: u64, rounds: u64, limit: Option<Duration>) {
    let mut latest = Duration::ZERO;
    let mut victim = Victim::start(true);
    let mut judge = Judge::new(victim.pid());
    // Things that are made once, such as tables that grow, exist after a first round.
    for round in 0..=rounds {
        let seed = seed.wrapping_add(round << 32);
        println!("round {round}");
        let attackers = 1 + seed % 3;
        for number in 0..attackers {
            attack::start(seed.wrapping_mul(attackers).wrapping_add(number));
        }
        let begun = time::ticks();
        while time::duration(time::ticks() - begun) < ROUND {
            victim.answers();
            latest = latest.max(rest());
        }
        judge.end_attackers();
        victim.answers();
        judge.compare(round > 0);
    }
    judge.heap();
    victim.end();
    println!("at most {} us late", latest.as_micros());
    if let Some(limit) = limit {
        assert!(latest <= limit, "an urgent process went on too late");
    }
}

/// Sleeps for a moment, and returns how much longer that took.
fn rest() -> Duration {
    let begun = time::ticks();
    time::sleep(PAUSE);
    time::duration(time::ticks() - begun).saturating_sub(PAUSE)
}

/// Runs a program that may be damaged.
///
/// Either the program is refused, or it runs for a moment.
fn program(name: &str, victim: &mut Victim) {
    println!("program {name}");
    let mut judge = Judge::new(victim.pid());
    let child = process::spawn(|| {
        attack::give_up_rights();
        process::exec(name, &[name]);
        1
    });
    child.expect("memory for a process");
    victim.answers();
    time::sleep(PROGRAM);
    victim.answers();
    judge.end_attackers();
    judge.compare(true);
}
