//! The reader of recordings, and what it gives its result to.

use corank_recording::{
    Id, Kind, Layout, Port, Recording, Role, Settings, Summary, Writer, check, cut,
};
use std::sync::atomic::{AtomicU32, Ordering};

/// Reads the input, or what a writer makes of its numbers.
///
/// # Panics
/// Panics if what a writer has written cannot be read.
pub fn run(data: &[u8]) {
    match data.split_first() {
        Some((0, rest)) => {
            let bytes = written(rest);
            let recording = Recording::read(&bytes).expect("a writer has written it");
            judge(&recording);
        }
        _ => {
            if let Ok(recording) = Recording::read(data) {
                judge(&recording);
            }
        }
    }
}

fn judge(recording: &Recording) {
    let _ = Summary::of(recording);
    let checked = check(recording);
    let scene = cut(recording, 0..usize::MAX, "fuzz");
    if let (Ok(scene), Err(violation)) = (&scene, &checked) {
        assert_eq!(scene.broken, Some(violation.rule));
    }
    if let Ok(scene) = scene {
        let trace = corank_model::Trace::parse("fuzz.trace", &scene.text);
        assert!(trace.is_ok(), "{trace:?}\n{}", scene.text);
    }
}

/// Returns a recording whose events are these bytes, five for each.
fn written(bytes: &[u8]) -> Vec<u8> {
    let settings = Settings {
        port: Port::Linux,
        process: 1,
        rings: 2,
        events: 64,
        slots: 4,
        names: 64,
        frequency: 1_000_000_000,
        bounded: u32::from(bytes.first().copied().unwrap_or(0) % 4),
        demotes: false,
        workers: 2,
        program: "fuzz".to_string(),
    };
    let words = Layout::new(&settings).words();
    let words: Vec<AtomicU32> = (0..words).map(|_| AtomicU32::new(0)).collect();
    let words: &'static [AtomicU32] = words.leak();
    let writer = Writer::new(words, &settings, (0, 0));
    for ring in 0..settings.rings {
        writer.ring(ring).begin(Role::Worker, ring, ring, u64::MAX);
    }
    let mut time = 0;
    for event in bytes.chunks_exact(5) {
        let Some(kind) = KINDS.get(usize::from(event[0]) % KINDS.len()) else {
            continue;
        };
        time += u64::from(event[4]) << (event[3] % 32);
        let id = Id {
            slot: u32::from(event[1] % 4),
            generation: u16::from(event[1] >> 6),
        };
        let number = if kind.is_ordered() { writer.next() } else { 0 };
        let ring = writer.ring(u32::from(event[1] >> 2 & 1));
        ring.push(*kind, time, number, (id.slot, id.generation), event[2] % 64);
    }
    let bytes = words.iter();
    let bytes = bytes.flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
    let bytes = bytes.collect();
    // SAFETY: it was leaked above, and the writer is not used any more.
    drop(unsafe { Box::from_raw(std::ptr::from_ref(words).cast_mut()) });
    bytes
}

const KINDS: &[Kind] = &[
    Kind::Spawn,
    Kind::Wake,
    Kind::Ready,
    Kind::Pick,
    Kind::Yield,
    Kind::Block,
    Kind::Finish,
    Kind::Panic,
    Kind::Cancel,
    Kind::Level,
    Kind::Base,
    Kind::Borrower,
    Kind::Lend,
    Kind::Unlend,
    Kind::Preempt,
    Kind::Stall,
    Kind::Resume,
    Kind::Idle,
    Kind::Awake,
];
