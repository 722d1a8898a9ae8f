//! Measures how late an urgent process is while a process that is restricted to level 63 makes the
//! kernel work for it.
//!
//! Run it on one hart in a machine that counts instructions (`-icount shift=0`). Each instruction
//! takes a nanosecond there, so that all figures are the same in each run. The urgent process, at
//! level 0, sleeps for 100 µs again and again, and notes how much later than that it goes on. The
//! program fails when that is more than [`LIMIT`]. With arguments it runs only the attacks that
//! contain one of them in their names.
#![no_std]
#![no_main]

extern crate alloc;

mod ends;
mod files;
mod sockets;
mod tables;

use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use core::time::Duration;

use corank_abi::call::{FAILED, FORK, RING_ENTER, RING_SETUP, SBRK, WRITE};
use corank_abi::page::RING_BASE;
use corank_abi::ring::{RingHeader, SUBMISSIONS, Submission};
use corank_user::fs::{self, File};
use corank_user::io::Pipe;
use corank_user::net;
use corank_user::process::{self, Pid};
use corank_user::{page, println, raw, thread, time};

use files::LONG;

corank_user::main!(main);

/// How much later the urgent process may go on than it asked for.
///
/// This is the goal for one stretch of the kernel's work, and as much for the interrupt and the way
/// back.
const LIMIT: Duration = Duration::from_micros(200);

/// Time for which the urgent process sleeps.
///
/// It is so brief that a delay of more than [`LIMIT`] and this time is noticed whenever it begins.
const STEP: Duration = Duration::from_micros(100);

/// The least urgent level.
const LAST: u8 = 63;

/// The levels that the less urgent process may claim.
const LAST_TWO: u64 = 0b11 << 62;

/// More memory than any machine has, in bytes.
const TOO_MUCH: usize = 60 << 30;

const NAME: &str = "/lateness";

/// An act of the less urgent process, with its name.
///
/// The act calls its argument when it is prepared. What it does before that does not count.
type Attack = (&'static str, fn(&dyn Fn()));

/// Acts of the less urgent process that need no preparation.
const ATTACKS: &[(&str, fn())] = &[
    ("a long write to the console", write_to_console),
    ("memory that there is not, once", || {
        assert_eq!(call(SBRK, [TOO_MUCH, 0, 0]), FAILED);
    }),
    ("memory that there is not, 64 times in a ring", grow_in_ring),
    ("much memory, taken and given back", || {
        take(64 << 20);
        assert_ne!(call(SBRK, [(64_usize << 20).wrapping_neg(), 0, 0]), FAILED);
    }),
    ("the end of a large process", || take(96 << 20)),
    ("a fork of a large process", || {
        take(32 << 20);
        match call(FORK, [0; 3]) {
            0 => process::exit(0),
            child => assert_eq!(process::wait(child as Pid).expect("the child").code, 0),
        }
    }),
    ("the execution of a program", || {
        let error = process::exec("sh", &["sh", "-c", "true"]);
        panic!("{error:?}");
    }),
    ("the end of a process with 3,000 files", open_files),
];

fn call(number: usize, arguments: [usize; 3]) -> isize {
    // SAFETY: the calls here take numbers, or addresses of memory of this program that stays as it
    // is.
    unsafe { raw::system_call(number, arguments) }
}

/// Restricts this process to this level from here on.
fn may_claim(level: u8) {
    process::grant(process::id(), 1 << level).expect("itself");
}

/// Publishes that a coroutine at this level is ready.
fn publish_level(level: u8) {
    let page = page::process();
    page.executors.store(1, Ordering::Relaxed);
    page.ready.store(1 << level, Ordering::Release);
}

fn be_at(level: u8) {
    publish_level(level);
    // The kernel checks the bitmap when a process yields.
    thread::yield_now();
}

/// Allocates memory for this process; all of it is written to.
fn take(bytes: usize) {
    assert_ne!(call(SBRK, [bytes, 0, 0]), FAILED, "memory");
}

fn write_to_console() {
    let text: Vec<u8> = b"........................................................\n".repeat(4096);
    let address = text.as_ptr().expose_provenance();
    assert_eq!(call(WRITE, [1, address, text.len()]), text.len() as isize);
}

fn grow_in_ring() {
    const COUNT: u32 = 64;
    assert_eq!(call(RING_SETUP, [COUNT as usize, 0, 0]), RING_BASE as isize);
    // SAFETY: the kernel has mapped the rings there, until the process ends.
    let header = unsafe { &*core::ptr::with_exposed_provenance::<RingHeader>(RING_BASE) };
    let first: *mut Submission = core::ptr::with_exposed_provenance_mut(RING_BASE + SUBMISSIONS);
    for number in 0..COUNT {
        let submission = Submission {
            key: number.into(),
            call: SBRK as u32,
            level: LAST,
            arguments: [TOO_MUCH as u64, 0, 0],
            ..Submission::default()
        };
        // SAFETY: inside the ring.
        unsafe { first.add(number as usize).write(submission) };
    }
    header.submission_tail.store(COUNT, Ordering::Release);
    assert_eq!(call(RING_ENTER, [COUNT as usize, 0, 0]), COUNT as isize);
}

/// Opens 3,000 files: of the disk, if there is one.
fn open_files() {
    let made = fs::write(NAME, b"text");
    for _ in 0..3000 {
        if made.is_ok() {
            core::mem::forget(File::open(NAME).expect("it is there"));
        } else {
            core::mem::forget(corank_user::io::Pipe::new().expect("a pipe"));
        }
    }
}

/// Runs `attack` at the last level.
///
/// Returns how late this process was at most since the attack was prepared, and how often it went
/// on.
fn lateness(rings: &RingHeader, attack: impl FnOnce(&dyn Fn())) -> (Duration, usize) {
    let prepared = Pipe::new().expect("a pipe");
    let child = process::spawn(|| {
        process::grant(process::id(), LAST_TWO).expect("itself");
        be_at(LAST);
        attack(&|| assert_eq!(prepared.writer.write(b"x"), Ok(1)));
        0
    })
    .expect("a process");
    drop(prepared.writer);
    // A process that has failed writes nothing, and its exit code shows that below.
    let _ = prepared.reader.read(&mut [0]);
    let (mut latest, mut count) = (Duration::ZERO, 0);
    loop {
        let until = time::ticks() + time::ticks_in(STEP);
        rings.deadline.store(until, Ordering::Relaxed);
        call(RING_ENTER, [1, 0, 0]);
        latest = latest.max(time::duration(time::ticks().saturating_sub(until)));
        count += 1;
        if let Some(ended) = process::try_wait(child).expect("the child") {
            assert_eq!(ended.code, 0);
            return (latest, count);
        }
    }
}

/// Asks the file system an urgent question while a less urgent process makes a file long.
///
/// Returns how long the file was by then.
fn length_seen_during_truncation() -> u64 {
    let file = File::create(NAME).expect("a disk");
    let child = process::spawn(|| {
        may_claim(LAST);
        be_at(LAST);
        file.truncate(LONG).expect("room");
        0
    })
    .expect("a process");
    let seen = loop {
        time::sleep(Duration::from_millis(1));
        let length = fs::status(NAME).expect("it is there").size;
        if length > 0 {
            break length;
        }
    };
    assert_eq!(process::wait(child).expect("the child").code, 0);
    assert_eq!(file.status().expect("it is open").size, LONG);
    seen
}

/// Tests whether the program is to run this attack.
///
/// With arguments it runs those with names that contain one of them.
fn is_chosen(name: &str) -> bool {
    let mut words = corank_user::arguments().skip(1).peekable();
    words.peek().is_none() || words.any(|word| name.contains(word))
}

fn main() -> i32 {
    be_at(0);
    let rings = ends::rings(1);
    let (mut passed, mut failed) = (0, 0);
    let mut judge = |is_good: bool| {
        if is_good {
            passed += 1;
            "ok  "
        } else {
            failed += 1;
            "FAIL"
        }
    };
    let by_card = match net::status().expect("memory").card {
        0 => &[],
        _ => sockets::ATTACKS_BY_CARD,
    };
    let simple = ATTACKS.iter().chain(files::ATTACKS).chain(tables::ATTACKS);
    let simple = simple.filter(|(name, _)| is_chosen(name));
    let simple = simple.map(|(name, attack)| {
        let measured = lateness(rings, |begin| {
            begin();
            attack();
        });
        (*name, measured)
    });
    let prepared = [sockets::ATTACKS, by_card, ends::ATTACKS];
    let prepared = prepared.into_iter().flatten();
    let prepared = prepared.filter(|(name, _)| is_chosen(name));
    let prepared = prepared.map(|(name, attack)| {
        sockets::wait_for_none();
        (*name, lateness(rings, attack))
    });
    for (name, (late, count)) in simple.chain(prepared) {
        let verdict = judge(late <= LIMIT);
        println!(
            "{verdict} {name}: {} us late at most, of {count} times",
            late.as_micros()
        );
    }
    if is_chosen("a truncation") && fs::space().is_ok() {
        let seen = length_seen_during_truncation();
        let verdict = judge(seen < LONG);
        println!("{verdict} a truncation to {LONG} bytes: a question was answered at {seen}");
    }
    for (name, change) in files::CHANGES.iter().filter(|(name, _)| is_chosen(name)) {
        let seen = files::length_seen_during(*change);
        let verdict = judge(seen.is_some());
        println!("{verdict} {name}: a question was answered at {seen:?}");
    }
    let _ = fs::remove(NAME);
    println!("{passed} passed, {failed} failed");
    i32::from(failed > 0)
}
