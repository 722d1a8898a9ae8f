//! Replays the conformance traces (`spec/traces/`) on `corank-mcu`, on the target. QEMU ends with 0
//! if all passed that it replays: it has neither panics that end their task alone nor demotion.
//!
//! The platform is that of the core (`core/conformance`). This program stands in for the core: it
//! has the core's names, with this executor behind them. The futures of a scene are boxed, so there
//! is a heap here.

#![no_std]
#![no_main]
#![allow(
    unreachable_pub,
    missing_docs,
    dead_code,
    reason = "parts of it stand in for public items of the core, and not all are used"
)]

extern crate alloc;
extern crate self as corank;

mod board;
#[path = "../../../../conformance/src/held.rs"]
mod held;
#[path = "../../../../conformance/src/platform.rs"]
mod platform;
mod primitives;
mod served;

use core::mem::MaybeUninit;

use board::{exit, println};
pub use corank_mcu::{CoroutineId, JoinError, Priority, State, Step, SystemView, yield_now};
use corank_model::{
    Answer, Feature, Op, Platform, Question, Reply, Script, Settings, Stepped, TRACES, Trace,
    replay,
};
use embedded_alloc::LlffHeap as Heap;
use platform::CorePlatform;
use served::Workers;
pub use served::{Config, Demotion, Policy};

#[global_allocator]
static HEAP: Heap = Heap::empty();

const HEAP_BYTES: usize = 40 << 10;

static mut MEMORY: [MaybeUninit<u8>; HEAP_BYTES] = [MaybeUninit::uninit(); HEAP_BYTES];

/// The core's platform, without what this executor does not have.
struct McuPlatform(CorePlatform);

impl Platform for McuPlatform {
    fn supports(&self, feature: Feature) -> bool {
        feature != Feature::Demotion && self.0.supports(feature)
    }

    fn start(&mut self, settings: &Settings) {
        self.0.start(settings);
    }

    fn apply(&mut self, op: Op) -> Reply {
        self.0.apply(op)
    }

    fn step(&mut self, script: &Script) -> Stepped {
        self.0.step(script)
    }

    fn observe(&mut self, question: Question) -> Option<Answer> {
        self.0.observe(question)
    }
}

/// The traces that need what this executor does not have.
fn may_skip(name: &str) -> bool {
    let panics = [
        "inherit-panic-of-the-waiter",
        "mutex-holder-finishes-or-panics",
        "panic-ends-alone",
        "panic-in-a-cancelled-poll",
        "panic-wakes-the-joiner",
    ];
    name.starts_with("demotion-") || panics.contains(&name)
}

#[cfg_attr(target_arch = "arm", cortex_m_rt::entry)]
#[cfg_attr(target_arch = "riscv32", unsafe(no_mangle))]
fn main() -> ! {
    // SAFETY: this runs once, and nothing else refers to the memory.
    unsafe { HEAP.init((&raw mut MEMORY) as usize, HEAP_BYTES) };
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, text) in TRACES.iter() {
        let Ok(trace) = Trace::parse(name, text) else {
            panic!("{name} is no trace");
        };
        match replay(&trace, &mut McuPlatform(CorePlatform::new(Workers::None))) {
            Ok(report) if report.unanswered > 0 => {
                println!("FAIL {}: a question without an answer", name);
                failed += 1;
            }
            Ok(report) if report.skipped.is_none() => passed += 1,
            Ok(_) if may_skip(name) => skipped += 1,
            Ok(_) => {
                println!("FAIL {}: skipped", name);
                failed += 1;
            }
            Err(failure) => {
                println!("FAIL {}", failure);
                failed += 1;
            }
        }
    }
    println!("{} traces need panics or demotion", skipped);
    println!("{} passed, {} failed", passed, failed);
    exit(failed == 0)
}
