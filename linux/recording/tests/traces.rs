//! The check agrees with every conformance trace, on each kind of executor.

mod common;
#[path = "common/recorder.rs"]
mod recorder;

use corank_conformance::{CorePlatform, Workers};
use corank_model::{TRACES, Trace, replay};
use corank_recording::check;

/// Replays all traces, and returns how many steps were checked.
fn check_all(workers: Workers) -> usize {
    let mut steps = 0;
    for (name, text) in TRACES.iter() {
        let trace = Trace::parse(name, text).expect("the traces are well-formed");
        let (watch, recorders) = recorder::watch();
        let mut platform = CorePlatform::configured(workers, watch);
        let result = replay(&trace, &mut platform);
        assert!(result.is_ok(), "{name}: {result:?}");
        drop(platform);
        for recorder in recorders.take() {
            match check(&recorder.read()) {
                Ok(checked) => steps += checked.steps,
                Err(violation) => panic!("{name}, {workers:?}: {violation}"),
            }
        }
    }
    steps
}

#[test]
fn every_trace_keeps_the_contract_on_every_kind_of_executor() {
    for workers in [Workers::None, Workers::One, Workers::Threads] {
        let steps = check_all(workers);
        // A recorder that sees nothing would pass.
        assert!(steps > 1000, "{workers:?}: {steps} steps");
    }
}
