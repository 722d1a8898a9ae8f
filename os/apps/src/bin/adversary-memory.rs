//! Fills the kernel's memory by every kind of object, in every order:
//! `adversary-memory [SECONDS] [SEED]`.
//!
//! Rounds follow each other. In each, the processes of a group make, keep and release whatever the
//! kernel makes for a program. A pseudo-random sequence that begins at the seed selects the acts.
//! Any call may fail. At a round's end all of the processes are killed. Then the kernel must have
//! as many free frames, coroutines and processes, and as much of its heap, as before the round.
//!
//! The kernel makes threads, rings and calls under way, completions that are never taken, files,
//! pipes and what is in them, semaphores, sockets, connections, memory, stacks, and copies of the
//! processes.
#![no_std]
#![no_main]

extern crate alloc;

use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use corank_abi::call::*;
use corank_abi::file::{DirectoryEntry, FROM_START, OPEN_CREATE, OPEN_READ_WRITE};
use corank_abi::net::{BUFFER, CLOSE_BY_RESET, ORPHAN_LIMIT, WAIT_LIMIT};
use corank_abi::page::RING_BASE;
use corank_abi::ring::{CLOSE_FILE, LINK, RingHeader, SILENT, SUBMISSIONS, Submission};
use corank_user::information::{self, SystemStatus};
use corank_user::io::Pipe;
use corank_user::{calls, net, println, process, raw};

corank_user::main!(main);

/// Duration of a round, in milliseconds.
const ROUND: u64 = 2000;
/// Signal that ends a process.
const KILL_SIGNAL: usize = 9;
/// Bytes of the kernel's heap that may be in use beyond those before a round.
///
/// Tables that never shrink reached their size before, except for effects of another order. An
/// object that is lost in every round still shows in some rounds.
const SLACK: u64 = 64 << 10;
/// Entries of each worker's rings.
const ENTRIES: u32 = 1024;
/// Bytes that a program may name in its calls.
const ROOM: usize = 80 << 10;

static BUFFER_ROOM: [AtomicU64; ROOM / 8] = [const { AtomicU64::new(0) }; ROOM / 8];

/// Makes a system call that can't harm this program.
///
/// The arguments are numbers, or pointers into [`BUFFER_ROOM`] and to what never changes.
fn call(number: usize, arguments: [usize; 3]) -> isize {
    // SAFETY: the kernel writes to `BUFFER_ROOM` alone, and the words of that are atomic.
    unsafe { raw::system_call(number, arguments) }
}

fn room() -> usize {
    BUFFER_ROOM.as_ptr().expose_provenance()
}

fn main() -> i32 {
    let mut arguments = corank_user::arguments().skip(1);
    let mut number = |default| match arguments.next() {
        None => Some(default),
        Some(text) => text.parse().ok(),
    };
    let (Some(seconds), Some(seed)) = (number(4), number(1)) else {
        println!("usage: adversary-memory [SECONDS] [SEED]");
        return 2;
    };
    // This process must need no more memory when none is left.
    core::hint::black_box([0_u8; 32 << 10]);
    println!("adversary-memory: {seconds} s from seed {seed}");
    fill_with_calls();
    fill_with_calls();
    fill_sector_cache();
    let end = time_now() + 1000 * seconds;
    let mut rounds = 0;
    let before = quiesced();
    while rounds == 0 || time_now() < end {
        let lowest = round(seed + 1000 * rounds, rounds + 1);
        rounds += 1;
        let after = quiesced();
        println!(
            "round {rounds}: at least {} frames free and at most {} KiB of heap in use; \
             {} bytes more than before",
            lowest.frames_free,
            lowest.heap_used >> 10,
            after.heap_used as i64 - before.heap_used as i64
        );
        if !is_like(&before, &after) {
            println!("FAIL: before {before:?}\nafter {after:?}");
            return 1;
        }
    }
    println!("{rounds} rounds from seed {seed}: the kernel has back what it had");
    0
}

fn time_now() -> u64 {
    call(GET_TIME, [0; 3]) as u64
}

fn is_like(before: &SystemStatus, after: &SystemStatus) -> bool {
    let exact = |status: &SystemStatus| {
        [
            status.frames_free,
            status.coroutines,
            status.processes,
            status.stacks,
        ]
    };
    exact(before) == exact(after) && after.heap_used <= before.heap_used + SLACK
}

/// Returns the kernel's numbers when nothing is still ending.
///
/// Sockets of processes that are gone may take a moment. The kernel's services release what many
/// objects were in pieces, and are ready until they have done so.
fn quiesced() -> SystemStatus {
    loop {
        process::quiesce();
        let status = information::system().expect("it is there");
        // Without memory for the call, something is still ending.
        let has_sockets = !net::status().is_ok_and(|network| network.sockets == 0);
        if status.ready == 0 && !has_sockets {
            return status;
        }
        let _ = calls::sleep(10);
    }
}

/// Keeps as many calls under way as there is memory for, so that the kernel's tables reach their
/// largest size.
fn fill_with_calls() {
    let child = process::spawn(|| {
        let Some(rings) = Rings::new() else { return 1 };
        let mut tries = 0;
        // Once no more calls are taken, there is no room.
        while tries < 100 {
            let before = rings.taken();
            while rings.submit(1, SLEEP, [usize::MAX >> 20, 0, 0], 0) {}
            call(RING_ENTER, [0; 3]);
            tries = if rings.taken() == before {
                100
            } else {
                tries + 1
            };
        }
        0
    });
    let ended = child.and_then(process::wait).expect("memory for a process");
    assert_eq!(ended.code, 0);
}

/// Reads more sectors one by one than the kernel keeps, so that it keeps as many as it ever does.
///
/// Does nothing without a disk.
fn fill_sector_cache() {
    const SECTOR: usize = 512;
    const SECTORS: usize = 300;
    let path = c"/adversary".as_ptr().expose_provenance();
    let flags = (OPEN_CREATE | OPEN_READ_WRITE) as usize;
    let Ok(file) = usize::try_from(call(FILE_OPEN, [path, flags, 0])) else {
        return;
    };
    assert_eq!(call(TRUNCATE, [file, SECTORS * SECTOR, 0]), 0);
    for sector in 0..SECTORS {
        let position = sector * SECTOR;
        let moved = call(FILE_SEEK, [file, position, FROM_START]);
        assert_eq!(moved, position as isize);
        assert_eq!(call(READ, [file, room(), 1]), 1);
    }
    assert_eq!(call(CLOSE, [file, 0, 0]), 0);
}

/// Runs one round, before which other processes have taken all of the heap, of the frames, of both,
/// or of neither.
///
/// Returns the least frames and the most heap that were seen, with other numbers of that moment.
fn round(seed: u64, number: u64) -> SystemStatus {
    let fills = [number & 1 != 0, number & 2 != 0];
    let gate = Pipe::new().expect("memory for a pipe");
    let full = Pipe::new().expect("memory for a pipe");
    let worker = |number: usize| {
        process::spawn(|| {
            call(CLOSE, [gate.writer.number(), 0, 0]);
            // Like any program without rights.
            call(RESTRICT, [process::id(), 0, 0]);
            let mut random = Random::new(seed + number as u64);
            let rings = match number {
                0 | 1 if fills[number] => {
                    let rings = [fill_heap, fill_frames][number](&mut random);
                    call(WRITE, [full.writer.number(), room(), 1]);
                    rings
                }
                _ => None,
            };
            // The others exist when nothing is left, and begin then.
            call(READ, [gate.reader.number(), room(), 1]);
            attack(random, rings)
        })
    };
    let first = worker(0).expect("memory for a process");
    process::set_group(first, first).expect("a child");
    for number in 1..3 * process::harts() {
        // Later workers may find that nothing is left for them.
        let Ok(worker) = worker(number) else { break };
        // Before it has children, which inherit its group.
        process::set_group(worker, first).expect("a child");
    }
    for _ in fills.into_iter().filter(|fills| *fills) {
        let _ = full.reader.read(&mut [0]);
    }
    drop((gate, full));
    let begun = time_now();
    let mut seen = information::system().expect("it is there");
    while time_now() < begun + ROUND {
        let now = information::system().expect("it is there");
        seen.frames_free = seen.frames_free.min(now.frames_free);
        seen.heap_used = seen.heap_used.max(now.heap_used);
        let _ = calls::sleep(20);
    }
    loop {
        call(KILL, [first.wrapping_neg(), KILL_SIGNAL, 0]);
        match process::try_wait_any() {
            Ok(Some(_)) => {}
            Ok(None) => drop(calls::sleep(5)),
            Err(_) => return seen,
        }
    }
}

/// Generator of pseudo-random numbers (xorshift64*).
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, bound: u64) -> usize {
        (self.next() % bound) as usize
    }
}

/// A worker's rings, without the library.
#[derive(Clone, Copy)]
struct Rings(&'static RingHeader);

impl Rings {
    fn new() -> Option<Self> {
        if call(RING_SETUP, [ENTRIES as usize, 0, 0]) != RING_BASE as isize {
            return None;
        }
        // SAFETY: the kernel has mapped the rings there, until the process ends.
        Some(Rings(unsafe { &*ptr::with_exposed_provenance(RING_BASE) }))
    }

    fn taken(self) -> u32 {
        self.0.submission_head.load(Ordering::Relaxed)
    }

    /// Submits a call; returns false if the ring is full.
    fn submit(self, key: u64, number: usize, arguments: [usize; 3], flags: u8) -> bool {
        let tail = self.0.submission_tail.load(Ordering::Relaxed);
        if tail.wrapping_sub(self.taken()) >= ENTRIES {
            return false;
        }
        let submission = Submission {
            key,
            call: number as u32,
            level: 32,
            flags,
            reserved: 0,
            arguments: arguments.map(|argument| argument as u64),
        };
        let first: *mut Submission = ptr::with_exposed_provenance_mut(RING_BASE + SUBMISSIONS);
        // SAFETY: inside the ring.
        unsafe { first.add((tail % ENTRIES) as usize).write(submission) };
        let tail_word: &AtomicU32 = &self.0.submission_tail;
        tail_word.store(tail.wrapping_add(1), Ordering::Release);
        true
    }

    /// Forgets all completions that are in the ring.
    fn take_all(self) {
        let tail = self.0.completion_tail.load(Ordering::Acquire);
        self.0.completion_head.store(tail, Ordering::Release);
    }
}

/// Runs a thread that ends at once, with the least stack.
extern "C" fn short(_: usize) -> ! {
    call(EXIT, [0; 3]);
    unreachable!("it has ended")
}

/// Runs a thread that waits for a semaphore for ever.
extern "C" fn waiting(semaphore: usize) -> ! {
    loop {
        if call(SEMAPHORE_DOWN, [semaphore, 0, 0]) < 0 {
            call(EXIT, [0; 3]);
        }
    }
}

const NAMES: [&CStr; 6] = [c"hello", c"/", c"no/such/file", c"/adversary", c"true", c""];
const LOOPBACK: usize = 0x7f00_0001;

/// Submits calls until the kernel takes no more, then makes some holes.
///
/// Returns the rings with these calls.
fn fill_heap(random: &mut Random) -> Option<Rings> {
    let rings = Rings::new()?;
    let mut key = 8;
    loop {
        let before = rings.taken();
        while rings.submit(key, SLEEP, [usize::MAX >> 20, 0, 0], 0) {
            key += 1;
        }
        call(RING_ENTER, [0; 3]);
        if rings.taken() == before {
            break;
        }
    }
    for _ in 0..random.below(2000) {
        call(RING_CANCEL, [random.below(key), 0, 0]);
    }
    Some(rings)
}

/// Takes all frames except some.
fn fill_frames(random: &mut Random) -> Option<Rings> {
    for bytes in [1 << 20, 1 << 12] {
        while call(SBRK, [bytes, 0, 0]) >= 0 {}
    }
    call(
        SBRK,
        [
            ((random.below(400) as isize) << 12).wrapping_neg() as usize,
            0,
            0,
        ],
    );
    None
}

/// Runs one process until it is killed.
///
/// It never fails, because it has no memory of its own to lose.
fn attack(mut random: Random, mut rings: Option<Rings>) -> i32 {
    // This process prefers its own kind of object, or all kinds. `keeps` says whether it releases
    // them again.
    let favourite = random.below(2 * KINDS);
    let keeps = random.below(4);
    loop {
        let kind = match favourite as u64 {
            favourite if favourite < KINDS && random.below(4) > 0 => favourite as usize,
            _ => random.below(KINDS),
        };
        // Many of a kind in a row, or a few.
        let times = 1 << random.below(if keeps == 0 { 13 } else { 6 });
        for _ in 0..times {
            if act(kind, &mut random, &mut rings, keeps) < 0 {
                // A full table is left alone, or asked again and again.
                if random.below(4) > 0 {
                    break;
                }
            }
        }
    }
}

/// Number of kinds of acts.
const KINDS: u64 = 24;

/// Does something of this kind; returns a negative number if it failed.
fn act(kind: usize, random: &mut Random, rings: &mut Option<Rings>, keeps: usize) -> isize {
    let any = random.below(256);
    let file = random.below(if keeps == 0 { 70_000 } else { 64 });
    let name = NAMES[random.below(NAMES.len() as u64)]
        .as_ptr()
        .expose_provenance();
    match kind {
        0 => call(
            THREAD_CREATE,
            [short as extern "C" fn(usize) -> ! as usize, 0, 0],
        ),
        1 => {
            let waiting = waiting as extern "C" fn(usize) -> ! as usize;
            call(THREAD_CREATE, [waiting, any % 4, 0])
        }
        2 => call(WAITTID, [random.below(40_000), 0, 0]),
        3 => call(PIPE, [room(), 0, 0]),
        // The console stays open, and nothing that the calls write reaches it.
        4 => call(DUP, [file.max(3), 0, 0]),
        5 => call(CLOSE, [file.max(3), 0, 0]),
        6 => {
            let call_of = [SEMAPHORE_CREATE, MUTEX_CREATE, CONDVAR_CREATE][any % 3];
            call(call_of, [any & 1, 0, 0])
        }
        7 => call(SEMAPHORE_UP, [any % 4, 0, 0]),
        8 => match Rings::new() {
            Some(new) => {
                *rings = Some(new);
                0
            }
            None => -1,
        },
        9 | 10 => submit(*rings, random, file, name),
        11 => {
            if let Some(rings) = rings {
                if keeps > 1 {
                    rings.take_all();
                }
                return call(RING_ENTER, [0; 3]);
            }
            -1
        }
        12 => call(RING_CANCEL, [random.below(8), 0, 0]),
        13 => call(UDP_CONNECT, [LOOPBACK, 2000 + any, 3000]),
        14 => {
            let listener = call(TCP_LISTEN, [1000 + any % 8, 64, 0]);
            call(SOCKET_SET, [listener as usize, WAIT_LIMIT, 5]);
            listener
        }
        15 => {
            let connected = call(TCP_CONNECT, [LOOPBACK, 1000 + any % 8, 20]);
            if connected >= 0 {
                call(SOCKET_SET, [connected as usize, CLOSE_BY_RESET, 1]);
                call(SOCKET_SET, [connected as usize, ORPHAN_LIMIT, 10]);
            }
            connected
        }
        16 => {
            call(SOCKET_SET, [file, BUFFER, 64 << 10]);
            call(SOCKET_SET, [file, WAIT_LIMIT, 5]);
            let accepted = call(ACCEPT, [file, 0, 0]);
            if accepted >= 0 {
                call(SOCKET_SET, [accepted as usize, CLOSE_BY_RESET, 1]);
            }
            accepted
        }
        17 => {
            let flags = if any < 16 {
                OPEN_CREATE | OPEN_READ_WRITE
            } else {
                0
            };
            call(FILE_OPEN, [name, flags as usize, 0])
        }
        18 => {
            let bytes = random.below(1 << 20) as isize;
            let grows = !any.is_multiple_of(3);
            call(SBRK, [if grows { bytes } else { -bytes } as usize, 0, 0])
        }
        19 => information_of_all(any, name),
        20 => fork(random, rings),
        21 => call(WAITPID, [usize::MAX, 0, 0]),
        22 => rarely(random, name),
        _ => deep(random.below(12)),
    }
}

/// Leaves asynchronous calls that wait, have linked calls behind them, are silent, or give
/// completions that are never taken.
fn submit(rings: Option<Rings>, random: &mut Random, file: usize, name: usize) -> isize {
    let Some(rings) = rings else { return -1 };
    let flags = [0, 0, LINK, SILENT, CLOSE_FILE, LINK | SILENT][random.below(6)];
    let key = random.below(8) as u64;
    let (number, arguments) = match random.below(10) {
        0 => (GETPID, [0; 3]),
        1 => (SLEEP, [random.below(100_000), 0, 0]),
        2 => (SEMAPHORE_DOWN, [random.below(4), 0, 0]),
        // Never a buffer of the program that the kernel's writes would harm.
        3 => (READ, [file.max(3), room(), random.below(ROOM as u64)]),
        4 => (WRITE, [file.max(3), room(), random.below(ROOM as u64)]),
        5 => (FILE_OPEN, [name, 0, 0]),
        6 => (CONDVAR_WAIT, [random.below(4), random.below(4), 0]),
        7 => (TCP_CONNECT, [LOOPBACK, 1000 + random.below(8), 50]),
        8 => (PIPE, [room(), 0, 0]),
        _ => (WAIT_PROCESS, [usize::MAX, 0, 0]),
    };
    if rings.submit(key, number, arguments, flags) {
        return 0;
    }
    call(RING_ENTER, [0; 3])
}

fn information_of_all(any: usize, name: usize) -> isize {
    const { assert!(size_of::<DirectoryEntry>() <= ROOM) };
    match any % 4 {
        0 => call(PROCESS_LIST, [room(), 64, 0]),
        1 => call(STATUS, [name, room(), 0]),
        2 => call(DIRECTORY_ENTRY, [name, 0, room()]),
        _ => call(DIRECTORY_CHANGE, [name, 0, 0]),
    }
}

/// Forks a copy, which goes on with random numbers of its own and has no rings.
fn fork(random: &mut Random, rings: &mut Option<Rings>) -> isize {
    let child = call(FORK, [0; 3]);
    if child == 0 {
        *random = Random::new(random.next() ^ call(GETPID, [0; 3]) as u64);
        *rings = None;
    }
    child
}

/// Makes a call that ends much, or that changes how the process is treated from then on.
fn rarely(random: &mut Random, name: usize) -> isize {
    match random.below(400) {
        0 => call(EXIT, [0; 3]),
        1 => call(MEMORY_LIMIT, [random.below(8 << 20), 0, 0]),
        2 => call(EXEC, [name, 0, 0]),
        3 => call(SERVICE_MODEL, [random.below(2), 0, 0]),
        4 => call(WORKER, [0; 3]),
        5 => call(KILL, [process::id() + random.below(8), KILL_SIGNAL, 0]),
        _ => 0,
    }
}

/// Touches this many pages of the stack.
#[inline(never)]
fn deep(pages: usize) -> isize {
    let page = [MaybeUninit::<u8>::uninit(); 4000];
    core::hint::black_box(&page);
    if pages == 0 { 0 } else { deep(pages - 1) }
}
