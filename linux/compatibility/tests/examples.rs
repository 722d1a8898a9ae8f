//! The examples in the documentation of async crates, as coroutines of a Corank runtime. Examples
//! that wait for nothing are left out.

#![allow(
    warnings,
    clippy::all,
    reason = "they are not ours, and as they are published"
)]

include!(concat!(env!("OUT_DIR"), "/examples.rs"));

#[test]
fn what_the_examples_call_runs_coroutines() {
    let id = futures_lite::future::block_on(async { corank_linux::current() });
    assert!(id.is_some());
    assert!(corank_linux::current().is_none());
}
