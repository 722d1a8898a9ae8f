//! Attacks by pipes, by files on the disk, and by programs that are read from it.
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use core::time::Duration;

use corank_abi::call::{CLOSE, FAILED, READ, RING_ENTER, RING_SETUP};
use corank_abi::page::RING_BASE;
use corank_abi::ring::{RingHeader, SUBMISSIONS, Submission};
use corank_user::fs::{self, File, From, Options};
use corank_user::io::Pipe;
use corank_user::{process, time};

use crate::{LAST, NAME, be_at, call, may_claim};

/// The acts of the less urgent process.
pub(crate) const ATTACKS: &[(&str, fn())] = &[
    ("the close of a pipe with 4,000 readers", close_pipe),
    ("a write to a pipe with 4,000 readers", write_to_pipe),
    ("long reads and writes of a file", read_and_write),
    ("reads at the end of a long file", read_at_the_end),
    ("a search of a directory with 600 files", search),
    ("the removal of a long file", || {
        make_long();
        fs::remove(NAME).expect("it is closed");
    }),
    ("the execution of a program with too many arguments", || {
        let word = "a".repeat(110);
        for _ in 0..8 * TIMES {
            process::exec("true", &[word.as_str(); 257]).expect("one too many");
        }
    }),
    ("the execution of a program on the disk", || {
        let program = fs::read("/sh").expect("the archive has it");
        fs::write(NAME, &program).expect("room");
        let error = process::exec(NAME, &["sh", "-c", "true"]);
        panic!("{error:?}");
    }),
];

/// Length to which a file is made long, in bytes.
pub(crate) const LONG: u64 = 16 << 20;

/// Number of reads that wait for a pipe.
const READERS: u32 = 4000;

/// Number of repetitions.
const TIMES: usize = 5;

/// The rings of this process.
struct Rings(&'static RingHeader);

impl Rings {
    const ENTRIES: u32 = 4096;

    fn new() -> Rings {
        let address = call(RING_SETUP, [Rings::ENTRIES as usize, 0, 0]);
        assert_eq!(address, RING_BASE as isize);
        // SAFETY: the kernel has mapped the rings there, until the process ends.
        Rings(unsafe { &*core::ptr::with_exposed_provenance(RING_BASE) })
    }

    /// Makes a pipe for which [`READERS`] reads wait.
    fn awaited_pipe(&self) -> Pipe {
        let pipe = Pipe::new().expect("a pipe");
        let first: *mut Submission =
            core::ptr::with_exposed_provenance_mut(RING_BASE + SUBMISSIONS);
        // It stays until the process ends.
        let address = vec![0_u8].leak().as_mut_ptr().expose_provenance();
        let tail = self.0.submission_tail.load(Ordering::Relaxed);
        for number in 0..READERS {
            let submission = Submission {
                key: number.into(),
                call: READ as u32,
                level: LAST,
                arguments: [pipe.reader.number() as u64, address as u64, 1],
                ..Submission::default()
            };
            let place = tail.wrapping_add(number) % Rings::ENTRIES;
            // SAFETY: inside the ring.
            unsafe { first.add(place as usize).write(submission) };
        }
        let tail = tail.wrapping_add(READERS);
        self.0.submission_tail.store(tail, Ordering::Release);
        assert_ne!(call(RING_ENTER, [0, 0, 0]), FAILED);
        // All of them begin to wait.
        time::sleep(Duration::from_millis(10));
        pipe
    }

    /// Waits until all reads are over.
    fn wait(&self) {
        let mut left = READERS;
        while left > 0 {
            assert_ne!(call(RING_ENTER, [1, 0, 0]), FAILED);
            let tail = self.0.completion_tail.load(Ordering::Acquire);
            left -= tail.wrapping_sub(self.0.completion_head.swap(tail, Ordering::Release));
        }
    }
}

fn close_pipe() {
    let rings = Rings::new();
    for _ in 0..TIMES {
        let Pipe { reader, writer } = rings.awaited_pipe();
        assert_eq!(call(CLOSE, [writer.into_number(), 0, 0]), 0);
        rings.wait();
        drop(reader);
    }
}

fn write_to_pipe() {
    let rings = Rings::new();
    let Pipe { reader, writer } = rings.awaited_pipe();
    for _ in 0..TIMES {
        assert_eq!(writer.write(b"a"), Ok(1));
        time::sleep(Duration::from_millis(10));
    }
    drop(writer);
    rings.wait();
    drop(reader);
}

fn read_and_write() {
    let mut data = vec![0x5a; 1 << 20];
    let file = Options::read_write().create().open(NAME).expect("a disk");
    file.write_all(&data).expect("room");
    file.seek(From::Start(0)).expect("the beginning");
    let mut read = 0;
    while read < data.len() {
        read += file.read(&mut data[read..]).expect("it was written");
    }
}

fn make_long() -> File {
    let file = Options::read_write().create().open(NAME).expect("a disk");
    file.truncate(LONG).expect("room");
    file
}

fn read_at_the_end() {
    let file = make_long();
    for _ in 0..20 {
        // What is written makes the driver forget where the clusters lie.
        file.seek(From::Start(0)).expect("the beginning");
        file.write_all(b"a").expect("it is there");
        file.seek(From::End(-1)).expect("the last byte");
        assert_eq!(file.read(&mut [0]), Ok(1));
    }
}

/// Makes a directory with many files, and searches it for one that does not exist.
fn search() {
    let name = |number: u32| alloc::format!("/many/a-name-that-takes-some-entries-{number}");
    fs::make_directory("/many").expect("a disk");
    let names: Vec<_> = (0..600).map(name).collect();
    for name in &names {
        File::create(name).expect("room");
    }
    for _ in 0..20 {
        fs::status("/many/none").expect_err("there is none");
    }
    for name in &names {
        fs::remove(name).expect("it is there");
    }
    fs::remove_directory("/many").expect("it is empty");
}

/// Changes that make a long file short, or a short one long, in a less urgent process.
///
/// Urgent questions to the file system are answered between the steps.
pub(crate) const CHANGES: &[(&str, fn())] = &[
    ("a truncation to 0 bytes", || {
        let file = Options::write().open(NAME).expect("it is there");
        file.truncate(0).expect("it can be written");
    }),
    ("an opening that empties a file", || {
        let _ = Options::write().truncate().open(NAME).expect("it is there");
    }),
    ("a removal", || fs::remove(NAME).expect("it is closed")),
];

/// Asks how long the file is while a less urgent process changes its length.
///
/// Returns an answer that was neither the first nor the last one, if there was one.
pub(crate) fn length_seen_during(change: fn()) -> Option<u64> {
    drop(make_long());
    let child = process::spawn(|| {
        may_claim(LAST);
        be_at(LAST);
        change();
        0
    })
    .expect("a process");
    let mut seen = None;
    let ended = loop {
        time::sleep(Duration::from_micros(100));
        let length = fs::status(NAME).map_or(0, |status| status.size);
        if (1..LONG).contains(&length) {
            seen = Some(length);
        }
        if let Some(ended) = process::try_wait(child).expect("the child") {
            break ended;
        }
    };
    assert_eq!(ended.code, 0);
    seen
}
