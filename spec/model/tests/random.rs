//! Random scenes: the model keeps its own invariants, and its records replay, print and parse.

use corank_model::{
    Demotion, Id, Model, Op, Policy, Reply, Settings, State, Trace, record_numbers, replay,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn settings() -> impl Strategy<Value = Settings> {
    let capacity = proptest::option::of(1usize..6);
    (0u32..4, demotion(), capacity, 0u32..3, 1u32..3).prop_map(
        |(share, demotion, capacity, permits, room)| Settings {
            demotion,
            policy: match share {
                0 => Policy::Strict,
                every => Policy::Bounded(every),
            },
            capacity,
            mutexes: 3,
            semaphores: vec![permits, 0],
            events: 2,
            channels: vec![room],
            ..Settings::default()
        },
    )
}

fn demotion() -> impl Strategy<Value = Option<Demotion>> {
    let demotion = |(quantum, levels)| Demotion { quantum, levels };
    proptest::option::of((1u32..4, 0u8..64).prop_map(demotion))
}

type Numbers = Vec<(u8, u8, u8)>;

fn numbers() -> impl Strategy<Value = Numbers> {
    vec(any::<(u8, u8, u8)>(), 0..200)
}

/// Checks what must hold between any two operations (P3, P5, O4, S1).
fn check(model: &Model) {
    let mut bitmap = 0;
    for level in 0..64 {
        for id in model.queue(level) {
            bitmap |= 1 << level;
            assert_eq!(model.state(id), State::Ready);
            if !model.has_deadlock() {
                assert_eq!(model.level(id), Some(level));
            }
        }
    }
    assert_eq!(model.bitmap(), bitmap);
    for id in (0..model.spawned()).map(Id) {
        let queued = (0..64)
            .flat_map(|level| model.queue(level))
            .filter(|&other| other == id)
            .count();
        assert_eq!(queued, usize::from(model.state(id) == State::Ready));
        assert_eq!(
            model.running() == Some(id),
            model.state(id) == State::Running
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any operation with any number gets a reply, and the invariants hold. An invalid operation
    /// changes nothing.
    #[test]
    fn the_model_is_total(settings in settings(), numbers in numbers(), objects in 1usize..9) {
        let mut model = Model::new(&settings);
        for (kind, a, b) in numbers {
            // One number more than there are coroutines, so that unknown ones occur too.
            let op = Op::from_numbers(kind, a, b, model.spawned() + 1, objects);
            let before = format!("{model:?}");
            if model.apply(op) == Reply::Invalid {
                prop_assert_eq!(before, format!("{model:?}"));
            }
            check(&model);
        }
    }

    #[test]
    fn a_record_replays_prints_and_parses(settings in settings(), numbers in numbers()) {
        let trace = record_numbers("random", &settings, |_| true, numbers);
        replay(&trace, &mut Model::default()).unwrap();
        let read = Trace::parse("random", &trace.to_string()).unwrap();
        prop_assert_eq!(read, trace);
    }

    /// B11, with the number of levels in use: coroutines yield or wait, and each is picked within
    /// its bound.
    #[test]
    fn the_bound_within_a_level_holds(
        quantum in 1u32..4,
        every in 1u32..4,
        coroutines in vec((0u8..3, vec(any::<bool>(), 1..6)), 1..12),
    ) {
        let settings = Settings {
            policy: Policy::Bounded(every),
            demotion: Some(Demotion { quantum, levels: 0 }),
            ..Settings::default()
        };
        let mut model = Model::new(&settings);
        for &(level, _) in &coroutines {
            model.apply(Op::Spawn(Some(level)));
        }
        let used = model.bitmap().count_ones() as usize;
        // The pick by which each must run.
        let bound = |model: &Model, id: Id| {
            let level = coroutines[id.0].0;
            let ahead = |queue: Vec<Id>| queue.iter().position(|&other| other == id);
            let of_the_level = match (ahead(model.first_queue(level)), ahead(model.second_queue(level))) {
                (Some(q), None) => q + 2 + q / 15,
                (None, Some(q)) => 16 * (q + 1),
                both => panic!("{id:?} is in one queue: {both:?}"),
            };
            every as usize * used * of_the_level
        };
        let mut due: Vec<usize> = (0..coroutines.len()).map(|i| bound(&model, Id(i))).collect();
        for pick in 1..=600 {
            let Reply::Picked(id) = model.apply(Op::Pick) else { panic!("all are ready") };
            prop_assert!(pick <= due[id.0], "{id:?} ran at {pick}, due {}", due[id.0]);
            let waits = &coroutines[id.0].1;
            if waits[model.polls(id) as usize % waits.len()] {
                model.apply(Op::Block);
                model.apply(Op::Wake(id));
            } else {
                model.apply(Op::Yield);
            }
            due[id.0] = pick + bound(&model, id);
            prop_assert!(due.iter().all(|&due| due > pick), "one is overdue after {pick}");
        }
    }

    /// B12: a coroutine that never waits holds up a less urgent one for so many quanta at most.
    #[test]
    fn the_bound_between_levels_holds(
        quantum in 1u32..5,
        levels in 0u8..64,
        m in 0u8..64,
        below in 0u8..64,
        polls_before in 0u32..20,
    ) {
        let l = if levels == 0 { m } else { m.saturating_add(below).min(63) };
        let quanta = 1 + u32::from((l - m).div_ceil(levels.max(1)));
        prop_assume!(quanta <= 3);
        let demotion = Some(Demotion { quantum, levels });
        let mut model = Model::new(&Settings { demotion, ..Settings::default() });
        model.apply(Op::Spawn(Some(m)));
        for _ in 0..polls_before {
            model.apply(Op::Pick);
            model.apply(Op::Yield);
        }
        model.apply(Op::Spawn(Some(l)));
        let mut held_up = 0;
        while model.apply(Op::Pick) == Reply::Picked(Id(0)) {
            held_up += 1;
            prop_assert!(held_up <= quanta * quantum, "{held_up} polls");
            model.apply(Op::Yield);
        }
        // Coroutines of one level take turns until the first demotion (O3).
        if polls_before == 0 && l > m {
            prop_assert_eq!(held_up, quanta * quantum, "no sooner");
        }
    }

    /// B5, with the number of levels in use: all coroutines yield forever, and each is picked
    /// within k * L * (q + 1) picks.
    #[test]
    fn the_starvation_bound_holds(levels in vec(0u8..64, 1..12), every in 1u32..6) {
        let settings = Settings { policy: Policy::Bounded(every), ..Settings::default() };
        let mut model = Model::new(&settings);
        for &level in &levels {
            model.apply(Op::Spawn(Some(level)));
        }
        let used = model.bitmap().count_ones() as usize;
        // The pick by which each must run.
        let bound = |model: &Model, id: Id| {
            let ahead = model.queue(levels[id.0]).iter().position(|&other| other == id).unwrap();
            every as usize * used * (ahead + 1)
        };
        let mut due: Vec<usize> = (0..levels.len()).map(|i| bound(&model, Id(i))).collect();
        for pick in 1..=200 {
            let Reply::Picked(id) = model.apply(Op::Pick) else { panic!("all are ready") };
            prop_assert!(pick <= due[id.0], "{id:?} ran at {pick}, due {}", due[id.0]);
            model.apply(Op::Yield);
            due[id.0] = pick + bound(&model, id);
            prop_assert!(due.iter().all(|&due| due > pick), "one is overdue after {pick}");
        }
    }
}
