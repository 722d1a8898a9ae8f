//! Asynchronous system calls: the rings by hand, with entries that are wrong. `asynchronous.rs` has the library's side.
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use corank_abi::call::*;
use corank_abi::page::RING_BASE;
use corank_abi::ring::{Completion, LINK, RingHeader, SILENT, SUBMISSIONS, Submission};
use corank_user::{process, time};

use crate::support::{BAD_ADDRESS, KERNEL, UNMAPPED, call, exit_code, expect_end, pipe, tests};

tests![
    set_up_once,
    sizes_that_are_refused,
    entering_without_rings_fails,
    a_call_completes,
    calls_that_dont_exist,
    calls_complete_in_their_own_order,
    linked_calls_wait_for_each_other,
    silent_calls_say_nothing,
    a_link_at_the_end,
    all_entries_at_once,
    completions_are_kept_while_the_ring_is_full,
    indices_out_of_range,
    a_bad_pointer_ends_the_process,
    a_bad_pointer_in_a_waiting_call_ends_the_process,
    a_deadline_ends_the_wait,
    waiting_for_more_than_there_is,
    exit_with_calls_pending,
    exec_with_calls_pending,
    a_child_has_no_rings,
    numbers_wrap_around,
];

/// The rings, handled without the library.
struct Rings {
    header: &'static RingHeader,
    entries: u32,
}

impl Rings {
    fn new(entries: u32) -> Self {
        assert_eq!(
            call(RING_SETUP, [entries as usize, 0, 0]),
            RING_BASE as isize
        );
        // SAFETY: the kernel has mapped the rings there, until the process ends.
        let header = unsafe { &*core::ptr::with_exposed_provenance::<RingHeader>(RING_BASE) };
        assert_eq!(header.entries.load(Ordering::Relaxed), entries);
        Self { header, entries }
    }

    fn submit(&self, submission: Submission) {
        let tail = self.header.submission_tail.load(Ordering::Relaxed);
        let first: *mut Submission =
            core::ptr::with_exposed_provenance_mut(RING_BASE + SUBMISSIONS);
        // SAFETY: inside the ring.
        unsafe { first.add((tail % self.entries) as usize).write(submission) };
        self.header
            .submission_tail
            .store(tail.wrapping_add(1), Ordering::Release);
    }

    fn enter(&self, wait_for: usize) -> isize {
        call(RING_ENTER, [wait_for, 0, 0])
    }

    fn completion(&self) -> Option<(u64, i64)> {
        let head = self.header.completion_head.load(Ordering::Relaxed);
        if head == self.header.completion_tail.load(Ordering::Acquire) {
            return None;
        }
        let start = RING_BASE + SUBMISSIONS + self.entries as usize * size_of::<Submission>();
        let first: *const Completion = core::ptr::with_exposed_provenance(start);
        // SAFETY: inside the ring, and written before the tail moved.
        let completion = unsafe { first.add((head % self.entries) as usize).read() };
        self.header
            .completion_head
            .store(head.wrapping_add(1), Ordering::Release);
        Some((completion.key, completion.result))
    }

    fn completions(&self) -> Vec<(u64, i64)> {
        core::iter::from_fn(|| self.completion()).collect()
    }
}

fn submission(key: u64, number: usize, arguments: [usize; 3], flags: u8) -> Submission {
    let arguments = arguments.map(|argument| argument as u64);
    Submission {
        key,
        call: number as u32,
        level: 32,
        flags,
        reserved: 0,
        arguments,
    }
}

fn set_up_once() {
    Rings::new(8);
    assert_eq!(call(RING_SETUP, [8, 0, 0]), FAILED);
}

fn sizes_that_are_refused() {
    for entries in [0, 3, 100, 8192, usize::MAX] {
        assert_eq!(
            call(RING_SETUP, [entries, 0, 0]),
            FAILED,
            "{entries} entries"
        );
    }
    Rings::new(4096);
}

fn entering_without_rings_fails() {
    assert_eq!(call(RING_ENTER, [0, 0, 0]), FAILED);
}

fn a_call_completes() {
    let rings = Rings::new(1);
    rings.submit(submission(77, GETPID, [0; 3], 0));
    assert_eq!(
        rings.completion(),
        None,
        "nothing happens before the kernel is entered"
    );
    assert_eq!(rings.enter(1), 1);
    assert_eq!(rings.completion(), Some((77, process::id() as i64)));
    assert_eq!(rings.enter(0), 0);
}

/// Also those that make sense for a thread only.
fn calls_that_dont_exist() {
    let rings = Rings::new(16);
    let numbers = [
        0,
        1,
        3000,
        u32::MAX as usize,
        EXIT,
        YIELD,
        FORK,
        EXEC,
        THREAD_CREATE,
        RING_SETUP,
        RING_ENTER,
    ];
    for (key, number) in (0..).zip(numbers) {
        rings.submit(submission(key, number, [0; 3], 0));
    }
    assert_eq!(rings.enter(numbers.len()), numbers.len() as isize);
    for (key, result) in rings.completions() {
        assert!(
            result < 0,
            "call {} returned {result}",
            numbers[key as usize]
        );
    }
}

fn calls_complete_in_their_own_order() {
    let rings = Rings::new(8);
    let (reader, writer) = pipe();
    let mut byte = [0_u8];
    rings.submit(submission(
        1,
        READ,
        [reader.number(), byte.as_mut_ptr().expose_provenance(), 1],
        0,
    ));
    rings.submit(submission(2, GETPID, [0; 3], 0));
    assert_eq!(rings.enter(1), 1);
    assert_eq!(
        rings.completion(),
        Some((2, process::id() as i64)),
        "who needn't wait doesn't"
    );
    rings.submit(submission(
        3,
        WRITE,
        [writer.number(), c"x".as_ptr().expose_provenance(), 1],
        0,
    ));
    assert_eq!(rings.enter(2), 2);
    let mut completions = rings.completions();
    completions.sort_unstable();
    assert_eq!(completions, [(1, 1), (3, 1)]);
    // SAFETY: the kernel is done with it.
    assert_eq!(unsafe { (&raw const byte[0]).read_volatile() }, b'x');
}

fn linked_calls_wait_for_each_other() {
    let rings = Rings::new(8);
    let (reader, writer) = pipe();
    let mut byte = [0_u8];
    rings.submit(submission(
        1,
        READ,
        [reader.number(), byte.as_mut_ptr().expose_provenance(), 1],
        LINK,
    ));
    rings.submit(submission(2, GETPID, [0; 3], LINK));
    rings.submit(submission(3, GETPID, [0; 3], 0));
    rings.submit(submission(4, GETPID, [0; 3], 0));
    assert_eq!(rings.enter(1), 1);
    assert_eq!(
        rings.completions(),
        [(4, process::id() as i64)],
        "2 and 3 follow 1, 4 doesn't"
    );
    writer.write(&[1]).expect("room");
    assert_eq!(rings.enter(3), 3);
    let keys: Vec<u64> = rings
        .completions()
        .iter()
        .map(|completion| completion.0)
        .collect();
    assert_eq!(keys, [1, 2, 3]);
}

fn silent_calls_say_nothing() {
    let rings = Rings::new(8);
    let (reader, writer) = pipe();
    let text = c"silence".as_ptr().expose_provenance();
    rings.submit(submission(
        1,
        WRITE,
        [writer.into_number(), text, 7],
        LINK | SILENT,
    ));
    rings.submit(submission(2, CLOSE, [reader.number() + 1, 0, 0], SILENT));
    assert_eq!(rings.enter(0), 0);
    assert_eq!(rings.completion(), None);
    let mut buffer = [0; 8];
    assert_eq!(reader.read(&mut buffer), Ok(7), "written and closed");
}

fn a_link_at_the_end() {
    let rings = Rings::new(4);
    rings.submit(submission(1, GETPID, [0; 3], LINK));
    assert_eq!(rings.enter(1), 1);
    rings.submit(submission(2, GETPID, [0; 3], 0));
    assert_eq!(rings.enter(2), 2);
    assert_eq!(rings.completions().len(), 2);
}

fn all_entries_at_once() {
    let rings = Rings::new(4096);
    for key in 0..4096 {
        rings.submit(submission(key, GETPID, [0; 3], 0));
    }
    assert_eq!(rings.enter(4096), 4096);
    for key in 0..4096 {
        assert_eq!(rings.completion(), Some((key, process::id() as i64)));
    }
}

fn completions_are_kept_while_the_ring_is_full() {
    let rings = Rings::new(4);
    for round in 0..10 {
        for key in 0..4 {
            rings.submit(submission(round * 4 + key, GETPID, [0; 3], 0));
        }
        rings.enter(0);
    }
    let mut next = 0;
    while next < 40 {
        assert!(rings.enter(1) > 0, "completion {next} is lost");
        for (key, _) in rings.completions() {
            assert_eq!(key, next);
            next += 1;
        }
    }
    assert_eq!(rings.enter(0), 0);
}

/// Counters that can't be are refused, and harm nobody.
fn indices_out_of_range() {
    let rings = Rings::new(4);
    for tail in [5, 1 << 31, u32::MAX] {
        rings.header.submission_tail.store(tail, Ordering::Release);
        assert_eq!(rings.enter(0), FAILED, "tail {tail}");
    }
    rings.header.submission_tail.store(0, Ordering::Release);
    for head in [1, 1 << 31, u32::MAX] {
        rings.header.completion_head.store(head, Ordering::Release);
        rings.enter(0);
    }
    rings.header.completion_head.store(0, Ordering::Release);
    // The kernel keeps its own account of these.
    rings.header.submission_head.store(17, Ordering::Release);
    rings.header.completion_tail.store(99, Ordering::Release);
    rings.header.entries.store(u32::MAX, Ordering::Release);
    rings.submit(submission(1, GETPID, [0; 3], 0));
    assert_eq!(rings.enter(1), 1);
    assert_eq!(rings.completions(), [(1, process::id() as i64)]);
}

fn a_bad_pointer_ends_the_process() {
    for pointer in [0, UNMAPPED, KERNEL] {
        expect_end(BAD_ADDRESS, || {
            let rings = Rings::new(4);
            let (_reader, writer) = pipe();
            rings.submit(submission(1, WRITE, [writer.number(), pointer, 8], 0));
            rings.enter(1);
        });
    }
}

fn a_bad_pointer_in_a_waiting_call_ends_the_process() {
    expect_end(BAD_ADDRESS, || {
        let rings = Rings::new(4);
        let (reader, writer) = pipe();
        rings.submit(submission(1, READ, [reader.number(), UNMAPPED, 8], 0));
        rings.enter(0);
        let _ = writer.write(&[1; 8]);
        rings.enter(1);
    });
}

fn a_deadline_ends_the_wait() {
    let rings = Rings::new(4);
    let (reader, _writer) = pipe();
    let mut byte = [0_u8];
    rings.submit(submission(
        1,
        READ,
        [reader.number(), byte.as_mut_ptr().expose_provenance(), 1],
        0,
    ));
    for milliseconds in [0, 5, 25] {
        let deadline = time::ticks() + time::frequency() * milliseconds / 1000;
        rings.header.deadline.store(deadline, Ordering::Release);
        assert_eq!(rings.enter(1), 0);
        assert!(time::ticks() >= deadline);
    }
}

/// A ring of four can't have five completions: so four are enough.
fn waiting_for_more_than_there_is() {
    let rings = Rings::new(4);
    for key in 0..4 {
        rings.submit(submission(key, GETPID, [0; 3], 0));
    }
    assert_eq!(rings.enter(usize::MAX), 4);
}

fn submit_endless_calls(rings: &Rings) {
    let (reader, writer) = pipe();
    let memory = Vec::leak(alloc::vec![0_u8; 1 << 20])
        .as_mut_ptr()
        .expose_provenance();
    rings.submit(submission(1, READ, [reader.into_number(), memory, 1000], 0));
    rings.submit(submission(2, WRITE, [writer.into_number(), memory, 100], 0));
    let (reader, writer) = pipe();
    rings.submit(submission(
        3,
        WRITE,
        [writer.into_number(), memory, 1 << 20],
        LINK,
    ));
    rings.submit(submission(4, GETPID, [0; 3], 0));
    // Open, but nobody reads.
    let _ = reader.into_number();
    rings.submit(submission(5, SLEEP, [1_000_000, 0, 0], 0));
    let semaphore = call(SEMAPHORE_CREATE, [0; 3]) as usize;
    rings.submit(submission(6, SEMAPHORE_DOWN, [semaphore, 0, 0], 0));
    assert_eq!(rings.enter(1), 1, "one of them is done at once");
}

/// The runner counts the frames.
fn exit_with_calls_pending() {
    let code = exit_code(|| {
        submit_endless_calls(&Rings::new(64));
        4
    });
    assert_eq!(code, 4);
}

fn exec_with_calls_pending() {
    let code = exit_code(|| {
        submit_endless_calls(&Rings::new(64));
        process::exec("hello", &["hello"]);
        1
    });
    assert_eq!(code, 0);
}

fn a_child_has_no_rings() {
    let rings = Rings::new(4);
    rings.submit(submission(1, GETPID, [0; 3], 0));
    let code = exit_code(|| {
        assert_eq!(call(RING_ENTER, [0; 3]), FAILED);
        let own = Rings::new(8);
        own.submit(submission(2, GETPID, [0; 3], 0));
        assert_eq!(own.enter(1), 1);
        assert_eq!(own.completions(), [(2, process::id() as i64)]);
        0
    });
    assert_eq!(code, 0);
    assert_eq!(rings.enter(1), 1);
}

fn numbers_wrap_around() {
    let rings = Rings::new(2);
    for key in 0..1000 {
        rings.submit(submission(key, GETPID, [0; 3], 0));
        assert_eq!(rings.enter(1), 1);
        assert_eq!(rings.completion(), Some((key, process::id() as i64)));
    }
}
