//! Operations on the core, compared with the model of the contract.
//!
//! The numbers of an input become a scene, as in the property tests of the core: the model says
//! what each operation must do, and the core does it. A spawn at a level that does not exist, which
//! the model refuses, is one without memory here: the allocator fails in the middle of it.

use crate::allocator;
use arbitrary::{Arbitrary, Unstructured};
use corank_conformance::{CorePlatform, Workers};
use corank_model::{Demotion, Global, Platform, Policy, Settings, record_numbers, replay};

/// The most operations of one input.
const MOST: usize = 300;

#[derive(Arbitrary, Debug)]
struct Choice {
    shared: bool,
    /// Each step is made by a thread of its own, which takes its time.
    threads: u8,
    share: u8,
    demotion: Option<(u8, u8)>,
    capacity: Option<u8>,
    permits: u8,
    room: u8,
    global: bool,
}

/// Makes a scene of the input, and replays it on the core.
///
/// # Panics
/// Panics if the core does something else than the model.
pub fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let Ok(choice) = Choice::arbitrary(&mut input) else {
        return;
    };
    let settings = settings(&choice);
    let workers = match choice {
        Choice { threads: 255, .. } => Workers::Threads,
        Choice { shared: true, .. } => Workers::One,
        _ => Workers::None,
    };
    let mut platform = CorePlatform::new(workers).without_memory(allocator::limit);
    let numbers = input.take_rest().chunks_exact(3).take(MOST);
    let numbers = numbers.map(|three| (three[0], three[1], three[2]));
    let trace = record_numbers("fuzz", &settings, |it| platform.supports(it), numbers);
    let report = replay(&trace, &mut platform);
    assert!(report.is_ok(), "{report:?}\n{trace}");
}

fn settings(choice: &Choice) -> Settings {
    let demotion = choice.demotion.map(|(quantum, levels)| Demotion {
        quantum: u32::from(quantum) % 32 + 1,
        levels: levels % 64,
    });
    Settings {
        policy: match choice.share % 8 {
            0 => Policy::Strict,
            every => Policy::Bounded(u32::from(every)),
        },
        demotion,
        capacity: choice.capacity.map(|it| usize::from(it) % 12 + 1),
        global: match choice.global {
            true => Global::Strict,
            false => Settings::default().global,
        },
        mutexes: 3,
        semaphores: vec![u32::from(choice.permits) % 3, 0],
        events: 2,
        channels: vec![u32::from(choice.room) % 2 + 1, 4],
    }
}
