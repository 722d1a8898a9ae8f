//! The core replays the conformance traces of `spec/traces/`.
//!
//! It also agrees with the model on random scenes.

#![cfg(feature = "std")]

#[path = "../conformance/src/held.rs"]
mod held;
#[path = "../conformance/src/platform.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "public in the crate whose part it is"
)]
mod platform;
#[path = "../conformance/src/primitives.rs"]
mod primitives;

use corank_model as model;
use corank_model::{Demotion, Platform, Settings, TRACES, record_numbers, replay};
use platform::{CorePlatform, replay_all};
use proptest::prelude::*;

use crate::common::served::{self, Workers};

/// The step from one replayed trace to the next.
///
/// All traces are replayed. Under Miri it is one in six, other ones for each kind of workers.
const EVERY: usize = if cfg!(miri) { 6 } else { 1 };

fn every_trace_passes(workers: Workers) {
    let first = workers as usize;
    let is_chosen = |at: usize| (at + first).is_multiple_of(EVERY);
    let traces = || {
        let all = TRACES.iter().enumerate();
        all.filter(|(at, _)| is_chosen(*at)).map(|(_, trace)| trace)
    };
    let verdict = replay_all(traces(), workers);
    assert_eq!(
        (verdict.passed, verdict.skipped.len()),
        (traces().count(), 0),
        "{verdict}: {:#?}",
        verdict.failures
    );
}

#[test]
fn the_core_replays_every_trace() {
    every_trace_passes(Workers::None);
}

#[test]
fn a_shared_executor_replays_every_trace() {
    every_trace_passes(Workers::One);
}

/// Each poll of a coroutine is made by another thread.
#[test]
fn several_threads_replay_every_trace() {
    every_trace_passes(Workers::Threads);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 2000 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn core_and_model_agree(
        workers in prop_oneof![
            8 => Just(Workers::None),
            8 => Just(Workers::One),
            // A thread for each step takes its time.
            1 => Just(Workers::Threads),
        ],
        share in 0u32..4,
        demotion in proptest::option::of((1u32..4, 0u8..64)),
        capacity in proptest::option::of(1usize..8),
        permits in 0u32..3,
        room in 1u32..3,
        numbers in proptest::collection::vec(any::<(u8, u8, u8)>(), 0..120),
    ) {
        let settings = Settings {
            policy: match share { 0 => model::Policy::Strict, every => model::Policy::Bounded(every) },
            demotion: demotion.map(|(quantum, levels)| Demotion { quantum, levels }),
            capacity,
            mutexes: 3,
            semaphores: vec![permits, 0],
            events: 2,
            channels: vec![room],
            ..Settings::default()
        };
        let mut platform = CorePlatform::new(workers);
        let trace = record_numbers("random", &settings, |feature| platform.supports(feature), numbers);
        let report = replay(&trace, &mut platform);
        prop_assert!(report.is_ok(), "{}\n{trace}", report.unwrap_err());
    }
}
