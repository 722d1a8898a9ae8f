//! Polls, waits and inversions of a recording.

mod common;

use common::{Script, id};
use corank_recording::{Kind, Summary};

#[test]
fn polls_and_waits_are_counted_by_level_and_name() {
    let mut script = Script::new(1);
    let name = script.writer.add_name("shop::serve::{{closure}}");
    script.writer.name_slot(0, 0, name);
    script.add(Kind::Spawn, 0, 9).at(5000);
    script.add(Kind::Pick, 0, 9).at(16_000);
    script.add(Kind::Yield, 0, 9).at(18_000);
    script.add(Kind::Pick, 0, 9).add(Kind::Finish, 0, 0);
    let summary = Summary::of(&script.read());
    let level = &summary.levels[&9];
    assert_eq!((level.polls, level.run), (2, 12_000));
    // Ready at 1 and 17 µs, picked at 6 and 19 µs.
    assert_eq!(level.waits.quantile(0.5), Some(2000));
    assert_eq!(level.waits.quantile(0.99), Some(5000));
    assert_eq!(level.waits.quantile(1.0), Some(5000));
    let task = &summary.tasks[&("shop::serve".to_string(), 9)];
    assert_eq!((task.coroutines, task.polls.polls), (1, 2));
    assert_eq!(summary.longest_polls()[0].time, (6000, 17_000));
}

#[test]
fn an_inversion_lasts_until_no_less_urgent_poll_is_left() {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 40).add(Kind::Pick, 0, 40);
    script
        .add(Kind::Spawn, 1, 3)
        .add(Kind::Spawn, 2, 2)
        .at(99_000);
    script.add(Kind::Block, 0, 0);
    script.add(Kind::Pick, 2, 2).at(199_000);
    script.add(Kind::Finish, 2, 0).add(Kind::Pick, 1, 3);
    let summary = Summary::of(&script.read());
    let found: Vec<_> = (summary.inversions.iter())
        .map(|inversion| (inversion.id, inversion.time, inversion.running.clone()))
        .collect();
    let bulk = vec![(id(0), 40)];
    assert_eq!(
        found,
        [
            (id(1), (3000, 100_000), bulk.clone()),
            (id(2), (4000, 100_000), bulk),
        ]
    );
    assert_eq!(summary.levels[&3].inversions, 1);
}

#[test]
fn a_wake_names_the_coroutine_that_made_it() {
    let mut script = Script::new(2);
    script.add(Kind::Spawn, 0, 9).add(Kind::Spawn, 1, 9);
    script.add(Kind::Pick, 0, 9).add(Kind::Block, 0, 0);
    script.add(Kind::Pick, 1, 9);
    script.add(Kind::Wake, 0, 0).add(Kind::Ready, 0, 9);
    script.on(1, Kind::Pick, id(0), 9);
    let summary = Summary::of(&script.read());
    let last = summary
        .polls
        .iter()
        .find(|poll| poll.end.is_none() && poll.ring == 1);
    let ready = last.unwrap().ready.unwrap();
    assert_eq!(
        (ready.ring, ready.by, ready.kind),
        (0, Some(id(1)), Kind::Ready)
    );
}
