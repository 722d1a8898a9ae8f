//! Runs each fuzzer's inputs that are kept in `corpus`, and as many changed ones.
//!
//! The numbers of a change are the same in each run of the tests. `cargo fuzz run NAME` looks for
//! new inputs; one that fails belongs into the corpus, with the mend.

use corank_fuzz::{program, recording, requests, scheduler, volume};
use fastrand::Rng;
use std::fs;
use std::path::PathBuf;
use std::thread;

/// The length beyond which an input does not grow.
const LONGEST: usize = 2000;

/// Shows the input that is being run, if that panics.
struct Shown<'a>(&'a str, &'a [u8]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let Self(name, input) = self;
            eprintln!("the input of `{name}`: b\"{}\"", input.escape_ascii());
        }
    }
}

/// Runs what is kept, and then so many changed inputs.
fn run(name: &str, runs: usize, target: fn(&[u8])) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let entries = fs::read_dir(&folder).expect("the corpus is there");
    let mut files: Vec<PathBuf> = entries
        .map(|it| it.expect("it can be read").path())
        .collect();
    files.sort();
    let inputs = files
        .iter()
        .map(|file| fs::read(file).expect("it can be read"));
    let inputs: Vec<Vec<u8>> = inputs.collect();
    assert!(
        inputs.len() > 10,
        "{} has {} inputs",
        folder.display(),
        inputs.len()
    );
    let run = |input: &[u8]| {
        let _shown = Shown(name, input);
        target(input);
    };
    inputs.iter().for_each(|input| run(input));
    let mut rng = Rng::with_seed(1);
    for _ in 0..runs {
        let mut input = inputs[rng.usize(..inputs.len())].clone();
        for _ in 0..rng.usize(1..6) {
            change(&mut input, &inputs, &mut rng);
        }
        input.truncate(LONGEST);
        run(&input);
    }
}

/// Changes an input in one place, or puts a part of another one there.
fn change(input: &mut Vec<u8>, others: &[Vec<u8>], rng: &mut Rng) {
    let at = rng.usize(..=input.len());
    let end = (at + rng.usize(..8)).min(input.len());
    match rng.u8(..6) {
        0 => drop(input.drain(at..end)),
        1 => input[at..end].fill_with(|| rng.u8(..)),
        2 => input[at..end].fill([0, 1, 0x7f, 0x80, 0xff][rng.usize(..5)]),
        3 => drop(input.splice(at..at, (0..rng.u8(..8)).map(|_| rng.u8(..)))),
        4 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << rng.u8(..8);
            }
        }
        _ => {
            let other = &others[rng.usize(..others.len())];
            let from = rng.usize(..=other.len());
            let to = (from + rng.usize(..64)).min(other.len());
            drop(input.splice(at..end, other[from..to].iter().copied()));
        }
    }
}

#[test]
fn the_core_does_what_the_model_says() {
    run("core", 4000, scheduler::run);
}

#[test]
fn recordings_of_all_kinds_are_read_and_checked() {
    run("recording", 5000, recording::run);
}

#[test]
fn damaged_volumes_are_read_or_refused() {
    run("fat", 1500, volume::run);
}

#[test]
fn programs_are_loaded_as_they_say_or_refused() {
    run("elf", 40_000, program::run);
}

#[test]
fn requests_are_read_in_pieces_as_they_are_as_a_whole() {
    run("http", 30_000, requests::run);
}
