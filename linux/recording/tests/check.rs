//! Recordings that keep the rules pass, and each broken one names its rule.

mod common;

use common::{Script, id, settings};
use corank_recording::{Id, Kind, check};

/// Returns the rule that a scene breaks, and how.
fn broken(script: &Script) -> (&'static str, String) {
    let violation = check(&script.read()).expect_err("it breaks a rule");
    assert!(
        violation.scene.last().unwrap().starts_with('>'),
        "the last line is the wrong step"
    );
    (violation.rule, violation.message)
}

#[track_caller]
fn passes(script: &Script) {
    if let Err(violation) = check(&script.read()) {
        panic!("{violation}");
    }
}

#[test]
fn a_whole_life_passes() {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9).add(Kind::Spawn, 1, 3);
    script.add(Kind::Pick, 1, 3).add(Kind::Yield, 1, 3);
    script.add(Kind::Pick, 1, 3).add(Kind::Block, 1, 0);
    script.add(Kind::Pick, 0, 9);
    script.add(Kind::Wake, 1, 0).add(Kind::Ready, 1, 3);
    script.add(Kind::Wake, 0, 0).add(Kind::Wake, 1, 0);
    script.add(Kind::Yield, 0, 9);
    script.add(Kind::Pick, 1, 3).add(Kind::Finish, 1, 0);
    script.add(Kind::Cancel, 0, 0);
    let next = Id {
        slot: 1,
        generation: 1,
    };
    script.on(0, Kind::Spawn, next, 5);
    script.on(0, Kind::Pick, next, 5);
    script.on(0, Kind::Panic, next, 0);
    passes(&script);
    let checked = check(&script.read()).unwrap();
    assert_eq!(
        (checked.steps, checked.picks, checked.limits.len()),
        (18, 5, 0)
    );
}

#[test]
fn a_lost_wake_of_a_blocked_coroutine_breaks_w1() {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9).add(Kind::Spawn, 1, 10);
    script.add(Kind::Pick, 0, 9).add(Kind::Block, 0, 0);
    script.add(Kind::Wake, 0, 0).add(Kind::Pick, 1, 10);
    let (rule, message) = broken(&script);
    assert_eq!(rule, "W1");
    assert!(message.contains("0.0"), "{message}");
}

#[test]
fn a_lost_wake_of_a_running_coroutine_breaks_w3() {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9).add(Kind::Pick, 0, 9);
    script.add(Kind::Wake, 0, 0).add(Kind::Block, 0, 0);
    assert_eq!(broken(&script).0, "W3");
}

#[test]
fn a_coroutine_that_becomes_ready_twice_breaks_o4() {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9).add(Kind::Ready, 0, 9);
    assert_eq!(broken(&script).0, "O4");
}

#[test]
fn a_pick_of_something_less_urgent_breaks_o1() {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9).add(Kind::Spawn, 1, 3);
    script.add(Kind::Pick, 0, 9);
    let (rule, message) = broken(&script);
    assert_eq!(rule, "O1");
    assert!(message.contains("ready at level 3"), "{message}");
}

#[test]
fn a_pick_that_is_not_the_head_breaks_o2() {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9).add(Kind::Spawn, 1, 9);
    script.add(Kind::Pick, 1, 9);
    assert_eq!(broken(&script).0, "O2");
}

#[test]
fn a_yield_that_keeps_its_place_breaks_o2() {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9).add(Kind::Spawn, 1, 9);
    script.add(Kind::Pick, 0, 9).add(Kind::Yield, 0, 9);
    script.add(Kind::Pick, 0, 9);
    assert_eq!(broken(&script).0, "O2");
}

#[test]
fn a_new_level_moves_to_the_tail() {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9).add(Kind::Spawn, 1, 9);
    script.add(Kind::Base, 0, 5).add(Kind::Level, 0, 5);
    script.add(Kind::Base, 0, 9).add(Kind::Level, 0, 9);
    script.add(Kind::Pick, 1, 9);
    passes(&script);
}

#[test]
fn a_new_level_that_overtakes_breaks_r2() {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9).add(Kind::Spawn, 1, 5);
    script.add(Kind::Base, 1, 9).add(Kind::Level, 1, 9);
    script.add(Kind::Pick, 1, 9);
    assert_eq!(broken(&script).0, "R2");
}

/// A waiter of level 2 donates to a holder of level 40.
fn donation() -> Script {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 40).add(Kind::Spawn, 1, 2);
    script.add(Kind::Pick, 1, 2).lend(Kind::Lend, 1, 0);
    script
}

#[test]
fn an_inheritance_that_does_not_come_breaks_i1() {
    let mut script = donation();
    script.add(Kind::Block, 1, 0).add(Kind::Pick, 0, 40);
    assert_eq!(broken(&script).0, "I1");
}

#[test]
fn an_inheritance_that_is_not_given_back_breaks_i4() {
    let mut script = donation();
    script.add(Kind::Level, 0, 2).add(Kind::Block, 1, 0);
    script.add(Kind::Pick, 0, 2).lend(Kind::Unlend, 1, 0);
    script.add(Kind::Wake, 1, 0).add(Kind::Ready, 1, 2);
    script.add(Kind::Yield, 0, 2).add(Kind::Pick, 1, 2);
    let (rule, message) = broken(&script);
    assert_eq!(rule, "I4");
    assert!(message.contains("not given back"), "{message}");
}

#[test]
fn an_inheritance_that_is_given_back_passes() {
    let mut script = donation();
    script.add(Kind::Level, 0, 2).add(Kind::Block, 1, 0);
    script.add(Kind::Pick, 0, 2).lend(Kind::Unlend, 1, 0);
    script.add(Kind::Level, 0, 40);
    script.add(Kind::Wake, 1, 0).add(Kind::Ready, 1, 2);
    script.add(Kind::Yield, 0, 40).add(Kind::Pick, 1, 2);
    passes(&script);
}

#[test]
fn levels_in_a_cycle_are_not_judged() {
    let mut script = donation();
    script.add(Kind::Level, 0, 2).add(Kind::Block, 1, 0);
    script.add(Kind::Pick, 0, 2).lend(Kind::Lend, 0, 1);
    script.lend(Kind::Lend, 0, 0);
    script.add(Kind::Block, 0, 0);
    script.add(Kind::Spawn, 2, 50).add(Kind::Pick, 2, 50);
    passes(&script);
}

#[test]
fn a_base_level_that_does_not_count_breaks_r1() {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9).add(Kind::Base, 0, 12);
    script.add(Kind::Pick, 0, 9);
    assert_eq!(broken(&script).0, "R1");
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9).add(Kind::Base, 0, 5);
    script.add(Kind::Pick, 0, 9);
    assert_eq!(broken(&script).0, "R1");
}

#[test]
fn two_polls_of_one_coroutine_break_h1() {
    let mut script = Script::new(2);
    script.add(Kind::Spawn, 0, 9).add(Kind::Pick, 0, 9);
    script.on(1, Kind::Pick, id(0), 9);
    assert_eq!(broken(&script).0, "H1");
}

#[test]
fn two_polls_of_one_worker_break_s3() {
    let mut script = Script::new(2);
    script.add(Kind::Spawn, 0, 9).add(Kind::Spawn, 1, 9);
    script.add(Kind::Pick, 0, 9).add(Kind::Pick, 1, 9);
    assert_eq!(broken(&script).0, "S3");
}

#[test]
fn a_pick_of_a_blocked_coroutine_breaks_s3() {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9).add(Kind::Pick, 0, 9);
    script.add(Kind::Block, 0, 0).add(Kind::Pick, 0, 9);
    assert_eq!(broken(&script).0, "S3");
}

#[test]
fn a_ready_coroutine_without_a_block_before_breaks_s6() {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9).add(Kind::Pick, 0, 9);
    script.add(Kind::Ready, 0, 9);
    assert_eq!(broken(&script).0, "S6");
}

#[test]
fn what_happens_after_an_exit_breaks_s7() {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9).add(Kind::Pick, 0, 9);
    script.add(Kind::Finish, 0, 0).add(Kind::Ready, 0, 9);
    assert_eq!(broken(&script).0, "S7");
}

#[test]
fn a_slot_that_is_used_twice_breaks_c2() {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9).add(Kind::Spawn, 0, 9);
    assert_eq!(broken(&script).0, "C2");
}

#[test]
fn an_identifier_that_is_given_twice_breaks_c4() {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9).add(Kind::Cancel, 0, 0);
    script.add(Kind::Spawn, 0, 9);
    assert_eq!(broken(&script).0, "C4");
}

#[test]
fn an_identifier_of_the_lost_beginning_is_not_given_again() {
    let mut script = Script::with(&settings(1, 8));
    script.add(Kind::Spawn, 0, 9).add(Kind::Spawn, 1, 9);
    for _ in 0..4 {
        script.add(Kind::Pick, 1, 9).add(Kind::Yield, 1, 9);
    }
    script.add(Kind::Wake, 0, 0).add(Kind::Spawn, 0, 9);
    assert_eq!(broken(&script).0, "C4");
}

#[test]
fn a_stale_identifier_breaks_c3() {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9).add(Kind::Cancel, 0, 0);
    let next = Id {
        slot: 0,
        generation: 1,
    };
    script.on(0, Kind::Spawn, next, 9).add(Kind::Wake, 0, 0);
    assert_eq!(broken(&script).0, "C3");
}

#[test]
fn a_level_that_differs_from_the_last_one_breaks_p5() {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9).add(Kind::Pick, 0, 8);
    assert_eq!(broken(&script).0, "P5");
}

#[test]
fn a_missing_step_breaks_the_one_order() {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9);
    let _lost = script.writer.next();
    script.add(Kind::Pick, 0, 9);
    assert_eq!(broken(&script).0, "H");
}

#[test]
fn a_full_ring_without_steps_hides_those_before_what_is_left() {
    let mut script = Script::with(&settings(2, 8));
    script.add(Kind::Spawn, 0, 9);
    script.on(1, Kind::Pick, id(0), 9);
    script.on(1, Kind::Block, id(0), 0);
    for time in 4..12 {
        script.ring(1).push(Kind::Idle, 1000 * time, 0, (0, 0), 0);
    }
    script.at(12_000).add(Kind::Wake, 0, 0);
    script.add(Kind::Ready, 0, 9).add(Kind::Pick, 0, 9);
    let checked = check(&script.read()).unwrap();
    assert_eq!((checked.steps, checked.limits.len()), (3, 1));
}

#[test]
fn reserved_picks_come_once_in_k() {
    let mut settings = settings(1, 64);
    settings.bounded = 3;
    let mut script = Script::with(&settings);
    script.add(Kind::Spawn, 0, 9).add(Kind::Spawn, 1, 3);
    for _ in 0..2 {
        for _ in 0..2 {
            script.add(Kind::Pick, 1, 3).add(Kind::Yield, 1, 3);
        }
        script.add(Kind::Pick, 0, 9).add(Kind::Yield, 0, 9);
    }
    passes(&script);
    script.add(Kind::Pick, 1, 3).add(Kind::Yield, 1, 3);
    script.add(Kind::Pick, 0, 9);
    assert_eq!(broken(&script).0, "B2");
}

#[test]
fn the_first_reserved_pick_is_the_kth() {
    let mut settings = settings(1, 64);
    settings.bounded = 3;
    let mut script = Script::with(&settings);
    script.add(Kind::Spawn, 0, 9).add(Kind::Spawn, 1, 3);
    script.add(Kind::Pick, 1, 3).add(Kind::Yield, 1, 3);
    script.add(Kind::Pick, 0, 9);
    assert_eq!(broken(&script).0, "B2");
}

#[test]
fn a_recording_without_its_beginning_is_checked_from_there() {
    let mut script = Script::with(&settings(1, 8));
    script.add(Kind::Spawn, 0, 9).add(Kind::Spawn, 1, 9);
    for _ in 0..4 {
        script.add(Kind::Pick, 0, 9).add(Kind::Yield, 0, 9);
        script.add(Kind::Pick, 1, 9).add(Kind::Yield, 1, 9);
    }
    let checked = check(&script.read()).unwrap();
    assert_eq!((checked.steps, checked.limits.len()), (7, 1));
    script.add(Kind::Pick, 1, 9);
    assert_eq!(broken(&script).0, "O2");
}
