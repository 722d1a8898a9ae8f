//! What is written is read again, and what is damaged is refused.

mod common;

use common::{Script, id, settings};
use corank_recording::{Kind, Recording, Role, Summary, check};
use proptest::prelude::*;

#[test]
fn a_recording_is_read_as_it_was_written() {
    let mut script = Script::new(2);
    let name = script.writer.add_name("shop::serve");
    let (writer, ring) = (script.writer, script.ring(0));
    script.add(Kind::Spawn, 3, 9);
    ring.push(Kind::Name, 1500, u32::from(name), (3, 0), 0);
    writer.name_slot(3, 0, name);
    script.on(1, Kind::Pick, id(3), 9);
    let recording = script.read();
    assert_eq!(recording.header.settings, settings(2, 64));
    assert_eq!(recording.name(id(3)), Some("shop::serve"));
    assert_eq!(recording.name(id(2)), None);
    assert_eq!(recording.lost(), 0);
    let [first, second] = &recording.rings[..] else {
        panic!("two rings are in use");
    };
    assert_eq!(
        (first.role, first.number, first.thread),
        (Role::Worker, 0, 100)
    );
    let kinds = |ring: &corank_recording::RingEvents| {
        let events = ring.events.iter();
        events
            .map(|event| (event.kind, event.time, event.level))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        kinds(first),
        [(Kind::Spawn, 1000, 9), (Kind::Name, 1500, 0)]
    );
    assert_eq!(kinds(second), [(Kind::Pick, 2000, 9)]);
    assert!(first.events[0].order < second.events[0].order);
}

#[test]
fn a_full_ring_loses_the_oldest_and_counts_them() {
    let mut script = Script::with(&settings(1, 8));
    for _ in 0..20 {
        script.add(Kind::Spawn, 1, 5);
    }
    let recording = script.read();
    let ring = &recording.rings[0];
    // The place of the next event may be half written, so it counts as lost.
    assert_eq!((ring.lost, ring.events.len()), (13, 7));
    assert_eq!(ring.events[0].time, 14_000);
}

#[test]
fn times_beyond_32_bits_are_whole_in_a_full_ring() {
    let mut script = Script::with(&settings(1, 8));
    let starts = [1_u64 << 32, 5 << 32, 5 << 32, 7 << 40];
    for start in starts {
        script.at(start);
        for _ in 0..3 {
            script.add(Kind::Spawn, 1, 5);
        }
    }
    let times: Vec<u64> = (script.read().rings[0].events.iter())
        .map(|event| event.time)
        .collect();
    let [former, last] = [5 << 32, 7 << 40];
    let expected = [former, last].map(|start| [1000, 2000, 3000].map(|time| start + time));
    assert_eq!(times, expected.as_flattened());
}

#[test]
fn later_anchors_correct_the_frequency() {
    let mut script = Script::new(1);
    script.at(999_000).add(Kind::Spawn, 1, 5);
    script.writer.anchor(500_000, 1_000_000);
    script.writer.anchor(1_000_000, 2_000_000);
    assert_eq!(script.read().rings[0].events[0].time, 2_000_000);
}

#[test]
fn events_that_were_written_over_while_the_file_was_read_are_cut() {
    let mut script = Script::with(&settings(1, 8));
    for _ in 0..8 {
        script.add(Kind::Spawn, 1, 5);
    }
    let before = script.bytes();
    for _ in 0..3 {
        script.add(Kind::Spawn, 1, 5);
    }
    // The count of events is that of before, and the events are those of after.
    let mut mixed = script.bytes();
    let events = mixed.len() - 8 * 16;
    mixed[..events].copy_from_slice(&before[..events]);
    let recording = Recording::read(&mixed).unwrap();
    assert_eq!(recording.rings[0].events.len(), 5);
}

#[test]
fn other_files_and_versions_are_refused_with_the_reason() {
    let bytes = Script::new(1).bytes();
    let refuse = |bytes: &[u8]| Recording::read(bytes).unwrap_err().to_string();
    assert!(refuse(b"").contains("0 bytes"));
    assert!(refuse(&bytes[..bytes.len() - 1]).contains("cut off"));
    assert!(refuse(&[&bytes[..], &[0]].concat()).contains("cut off"));
    let changed = |word: usize, value: u32| {
        let mut bytes = bytes.clone();
        bytes[4 * word..4 * word + 4].copy_from_slice(&value.to_le_bytes());
        refuse(&bytes)
    };
    assert!(changed(0, 7).contains("not a recording"));
    assert!(changed(2, 2).contains("version 2"));
    assert!(changed(4, 99).contains("port 99"));
    assert!(changed(6, u32::MAX).contains("rings"));
    assert!(changed(7, 3).contains("power of two"));
    assert!(changed(10, 0).contains("no ticks"));
    assert!(changed(13, 8).contains("flags"));
    assert!(changed(30, 1000).contains("room"));
}

/// Does all that the tool does with a file.
fn use_all(bytes: &[u8]) {
    if let Ok(recording) = Recording::read(bytes) {
        let _ = check(&recording);
        let summary = Summary::of(&recording);
        let _ = summary.longest_polls();
    }
}

fn scene() -> Vec<u8> {
    let mut script = Script::with(&settings(2, 16));
    let name = script.writer.add_name("a");
    script.writer.name_slot(1, 0, name);
    script.add(Kind::Spawn, 1, 40).add(Kind::Spawn, 2, 3);
    script
        .add(Kind::Pick, 2, 3)
        .lend(Kind::Lend, 2, 1)
        .add(Kind::Level, 1, 3);
    script
        .add(Kind::Block, 2, 0)
        .on(1, Kind::Pick, id(1), 3)
        .add(Kind::Wake, 2, 0);
    script.add(Kind::Ready, 2, 3).on(1, Kind::Finish, id(1), 0);
    script.bytes()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        use_all(&bytes);
    }

    #[test]
    fn every_truncation_is_refused(length in 0_usize..1300) {
        let scene = scene();
        prop_assume!(length < scene.len());
        prop_assert!(Recording::read(&scene[..length]).is_err());
    }

    #[test]
    fn changed_words_are_refused_or_read_without_a_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u32>()), 1..6),
        near in any::<bool>(),
    ) {
        let mut bytes = scene();
        for (at, value) in changes {
            let at = 4 * at.index(bytes.len() / 4);
            // Small numbers reach further than any.
            let value = if near { value % 70 } else { value };
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        use_all(&bytes);
    }
}
