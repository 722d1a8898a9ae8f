//! Tests of asynchronous system calls with the rings handled directly, and with wrong entries.
//!
//! `asynchronous.rs` has the library's side.
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use corank_abi::call::*;
use corank_abi::page::RING_BASE;
use corank_abi::ring::{Completion, LINK, RingHeader, SILENT, SUBMISSIONS, Submission};
use corank_user::io::OwnedFd;
use corank_user::{process, time};

use crate::support::{
    BAD_ADDRESS, KERNEL, UNMAPPED, call, exit_code, expect_end, one_hart, pipe, tests,
};

tests![
    rings_are_set_up_once,
    sizes_out_of_range_are_refused,
    entering_without_rings_fails,
    a_call_completes,
    unknown_calls_complete_with_an_error,
    calls_complete_in_their_own_order,
    linked_calls_wait_for_each_other,
    silent_calls_complete_without_an_entry,
    a_link_at_the_end_links_nothing,
    all_entries_may_be_submitted_at_once,
    completions_are_kept_while_the_ring_is_full,
    indices_out_of_range_are_refused,
    a_bad_pointer_ends_the_process,
    a_bad_pointer_in_a_waiting_call_ends_the_process,
    a_deadline_ends_the_wait,
    a_wait_for_more_than_fits_ends_when_full,
    an_exit_with_pending_calls_leaves_nothing,
    an_exec_with_pending_calls_leaves_nothing,
    a_child_has_no_rings,
    indices_wrap_around,
    a_call_is_cancelled_by_its_key,
    a_cancelled_call_releases_what_is_linked_behind_it,
    calls_with_one_key_are_cancelled_one_by_one,
    keys_are_found_among_many,
    cancelling_without_rings_fails,
    a_call_follows_its_new_level,
    a_linked_call_follows_its_new_level,
    levels_out_of_range_are_refused,
];

/// The rings, handled without the library.
pub(crate) struct Rings {
    header: &'static RingHeader,
    entries: u32,
}

impl Rings {
    pub(crate) fn new(entries: u32) -> Self {
        Self::try_new(entries).expect("the kernel has memory for them")
    }

    /// Sets the rings up, or returns `None` if the kernel has no memory for them.
    pub(crate) fn try_new(entries: u32) -> Option<Self> {
        let address = call(RING_SETUP, [entries as usize, 0, 0]);
        if address == FAILED {
            return None;
        }
        assert_eq!(address, RING_BASE as isize);
        // SAFETY: the kernel has mapped the rings there, until the process ends.
        let header = unsafe { &*core::ptr::with_exposed_provenance::<RingHeader>(RING_BASE) };
        assert_eq!(header.entries.load(Ordering::Relaxed), entries);
        Some(Self { header, entries })
    }

    pub(crate) fn submit(&self, submission: Submission) {
        let tail = self.header.submission_tail.load(Ordering::Relaxed);
        let first: *mut Submission =
            core::ptr::with_exposed_provenance_mut(RING_BASE + SUBMISSIONS);
        // SAFETY: inside the ring.
        unsafe { first.add((tail % self.entries) as usize).write(submission) };
        self.header
            .submission_tail
            .store(tail.wrapping_add(1), Ordering::Release);
    }

    /// Returns how many submissions the kernel has taken, modulo 2^32.
    pub(crate) fn taken(&self) -> u32 {
        self.header.submission_head.load(Ordering::Relaxed)
    }

    pub(crate) fn enter(&self, wait_for: usize) -> isize {
        call(RING_ENTER, [wait_for, 0, 0])
    }

    pub(crate) fn completion(&self) -> Option<(u64, i64)> {
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

    pub(crate) fn completions(&self) -> Vec<(u64, i64)> {
        core::iter::from_fn(|| self.completion()).collect()
    }
}

pub(crate) fn submission(key: u64, number: usize, arguments: [usize; 3], flags: u8) -> Submission {
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

fn rings_are_set_up_once() {
    Rings::new(8);
    assert_eq!(call(RING_SETUP, [8, 0, 0]), FAILED);
}

fn sizes_out_of_range_are_refused() {
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

/// Tests calls that don't exist, and those that make sense for a thread only.
fn unknown_calls_complete_with_an_error() {
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
        "a call that need not wait does not"
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

fn silent_calls_complete_without_an_entry() {
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

fn a_link_at_the_end_links_nothing() {
    let rings = Rings::new(4);
    rings.submit(submission(1, GETPID, [0; 3], LINK));
    assert_eq!(rings.enter(1), 1);
    rings.submit(submission(2, GETPID, [0; 3], 0));
    assert_eq!(rings.enter(2), 2);
    assert_eq!(rings.completions().len(), 2);
}

fn all_entries_may_be_submitted_at_once() {
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
    let kept = || u64::from(rings.header.kept.load(Ordering::Acquire));
    for round in 0..10 {
        for key in 0..4 {
            rings.submit(submission(round * 4 + key, GETPID, [0; 3], 0));
        }
        rings.enter(0);
        // The kernel says how many it keeps.
        assert_eq!(kept(), round * 4);
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
    assert_eq!(kept(), 0);
}

/// Tests that counters that can't be right are refused, and do no harm.
fn indices_out_of_range_are_refused() {
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
    // The kernel keeps its own account of these counters.
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

/// Tests that four completions are enough, because a ring of four can't have five.
fn a_wait_for_more_than_fits_ends_when_full() {
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
    // The pipe's read end stays open, but nothing reads from it.
    let _ = reader.into_number();
    rings.submit(submission(5, SLEEP, [1_000_000, 0, 0], 0));
    let semaphore = call(SEMAPHORE_CREATE, [0; 3]) as usize;
    rings.submit(submission(6, SEMAPHORE_DOWN, [semaphore, 0, 0], 0));
    assert_eq!(rings.enter(1), 1, "one of them is done at once");
}

/// Tests an exit with calls pending.
///
/// The runner counts the frames.
fn an_exit_with_pending_calls_leaves_nothing() {
    let code = exit_code(|| {
        submit_endless_calls(&Rings::new(64));
        4
    });
    assert_eq!(code, 4);
}

fn an_exec_with_pending_calls_leaves_nothing() {
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

fn indices_wrap_around() {
    let rings = Rings::new(2);
    for key in 0..1000 {
        rings.submit(submission(key, GETPID, [0; 3], 0));
        assert_eq!(rings.enter(1), 1);
        assert_eq!(rings.completion(), Some((key, process::id() as i64)));
    }
}

fn cancel(key: u64) -> isize {
    call(RING_CANCEL, [key as usize, 0, 0])
}

/// Returns a read into a buffer that stays until the process ends.
fn read_of(key: u64, file: &OwnedFd, length: usize, flags: u8) -> Submission {
    let buffer = Vec::leak(alloc::vec![0_u8; length]);
    let address = buffer.as_mut_ptr().expose_provenance();
    submission(key, READ, [file.number(), address, length], flags)
}

fn a_call_is_cancelled_by_its_key() {
    let rings = Rings::new(8);
    let (reader, writer) = pipe();
    assert_eq!(cancel(7), FAILED, "there is no such call");
    rings.submit(read_of(7, &reader, 2, 0));
    assert_eq!(cancel(7), FAILED, "the kernel has not taken it");
    assert_eq!(rings.enter(0), 0);
    assert_eq!(cancel(8), FAILED);
    assert_eq!(cancel(7), RING_CANCELLED);
    assert_eq!(cancel(7), FAILED, "it is over");
    assert_eq!(rings.enter(0), 0, "no completion comes");
    rings.submit(read_of(7, &reader, 2, 0));
    rings.enter(0);
    writer.write(b"ab").expect("room");
    // The call's coroutine may have run since or not. The call has two bytes, and is done in both
    // cases.
    assert_ne!(cancel(7), RING_CANCELLED);
    assert_eq!(rings.enter(1), 1);
    assert_eq!(rings.completions(), [(7, 2)]);
    assert_eq!(cancel(7), FAILED);
}

/// Tests that what is linked behind a cancelled call goes on.
///
/// A call that waits behind another is taken out.
fn a_cancelled_call_releases_what_is_linked_behind_it() {
    let rings = Rings::new(8);
    let (reader, _writer) = pipe();
    rings.submit(read_of(1, &reader, 1, LINK));
    rings.submit(submission(2, GETPID, [0; 3], LINK));
    rings.submit(submission(3, GET_TIME, [0; 3], LINK));
    rings.submit(read_of(4, &reader, 1, 0));
    assert_eq!(rings.enter(0), 0);
    assert_eq!(cancel(3), RING_CANCELLED);
    assert_eq!(cancel(3), FAILED);
    assert_eq!(cancel(1), RING_CANCELLED);
    assert_eq!(rings.enter(1), 1);
    assert_eq!(rings.completions(), [(2, process::id() as i64)]);
    assert_eq!(cancel(4), RING_CANCELLED, "it has begun by now");
    assert_eq!(rings.enter(0), 0);
}

fn calls_with_one_key_are_cancelled_one_by_one() {
    let rings = Rings::new(8);
    let (reader, _writer) = pipe();
    for _ in 0..3 {
        rings.submit(read_of(9, &reader, 1, 0));
    }
    rings.submit(read_of(9, &reader, 1, SILENT));
    rings.enter(0);
    assert_eq!([(); 4].map(|()| cancel(9)), [0, 0, 0, FAILED]);
    assert_eq!(rings.enter(0), 0);
}

fn keys_are_found_among_many() {
    const COUNT: u64 = 1000;
    let rings = Rings::new(64);
    let (reader, _writer) = pipe();
    // The keys are small numbers, and numbers that differ in their upper bits alone.
    let key = |number: u64| {
        if number.is_multiple_of(2) {
            number
        } else {
            number << 48
        }
    };
    for number in 0..COUNT {
        rings.submit(read_of(key(number), &reader, 1, 0));
        if number % 64 == 63 {
            rings.enter(0);
        }
    }
    rings.enter(0);
    // 387 and 1000 have no common factor, so every number comes up once.
    for number in (0..COUNT).map(|turn| turn * 387 % COUNT) {
        assert_eq!(cancel(key(number)), RING_CANCELLED, "call {number}");
        assert_eq!(cancel(key(number)), FAILED, "call {number}");
    }
}

fn cancelling_without_rings_fails() {
    assert_eq!(cancel(0), FAILED);
    assert_eq!(call(RING_REPRIORITIZE, [0, 0, 0]), FAILED);
}

/// Gives two reads their bytes in one kernel entry, the less urgent one first.
///
/// Returns the order in which they complete.
fn order_of_completion(rings: &Rings, change: impl FnOnce()) -> [u64; 2] {
    let _alone = one_hart();
    let (first, second) = (pipe(), pipe());
    rings.submit(Submission {
        level: 40,
        ..read_of(1, &first.0, 1, 0)
    });
    rings.submit(Submission {
        level: 41,
        ..read_of(2, &second.0, 1, 0)
    });
    assert_eq!(rings.enter(0), 0);
    change();
    for (_, writer) in [&second, &first] {
        let byte = c"x".as_ptr().expose_provenance();
        rings.submit(submission(0, WRITE, [writer.number(), byte, 1], SILENT));
    }
    assert_eq!(rings.enter(2), 2);
    let completions = rings.completions();
    [completions[0].0, completions[1].0]
}

fn a_call_follows_its_new_level() {
    let rings = Rings::new(8);
    let to = |key: usize, level: usize| call(RING_REPRIORITIZE, [key, level, 0]);
    assert_eq!(order_of_completion(&rings, || ()), [1, 2]);
    let more_urgent = || assert_eq!(to(2, 39), 0);
    assert_eq!(order_of_completion(&rings, more_urgent), [2, 1]);
    let less_urgent = || assert_eq!(to(1, 63), 0);
    assert_eq!(order_of_completion(&rings, less_urgent), [2, 1]);
    let there_and_back = || assert_eq!([to(1, 63), to(1, 0)], [0, 0]);
    assert_eq!(order_of_completion(&rings, there_and_back), [1, 2]);
    let through_the_ring = || {
        rings.submit(submission(3, RING_REPRIORITIZE, [2, 39, 0], 0));
        assert_eq!(rings.enter(1), 1);
        assert_eq!(rings.completions(), [(3, 0)]);
    };
    assert_eq!(order_of_completion(&rings, through_the_ring), [2, 1]);
    assert_eq!(to(1, 5), FAILED, "it is over");
}

fn a_linked_call_follows_its_new_level() {
    let _alone = one_hart();
    let rings = Rings::new(8);
    let order = |change: &dyn Fn()| {
        let (first, second, gate) = (pipe(), pipe(), pipe());
        rings.submit(read_of(9, &gate.0, 1, LINK));
        rings.submit(Submission {
            level: 41,
            ..read_of(2, &second.0, 1, 0)
        });
        rings.submit(Submission {
            level: 40,
            ..read_of(1, &first.0, 1, 0)
        });
        rings.enter(0);
        change();
        gate.1.write(b"x").expect("room");
        assert_eq!(rings.enter(1), 1);
        assert_eq!(rings.completions(), [(9, 1)]);
        // The linked read has its turn to find its pipe empty before bytes are written to it.
        rings.enter(0);
        for (_, writer) in [&second, &first] {
            let byte = c"x".as_ptr().expose_provenance();
            rings.submit(submission(0, WRITE, [writer.number(), byte, 1], SILENT));
        }
        assert_eq!(rings.enter(2), 2);
        rings
            .completions()
            .iter()
            .map(|done| done.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(order(&|| ()), [1, 2]);
    let change = || assert_eq!(call(RING_REPRIORITIZE, [2, 39, 0]), 0);
    assert_eq!(order(&change), [2, 1]);
}

fn levels_out_of_range_are_refused() {
    let rings = Rings::new(8);
    let to = |level: usize| call(RING_REPRIORITIZE, [1, level, 0]);
    let change = || assert_eq!([to(64), to(usize::MAX)], [0, 0]);
    assert_eq!(order_of_completion(&rings, change), [2, 1]);
}
