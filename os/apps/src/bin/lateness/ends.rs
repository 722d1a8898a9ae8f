//! Attacks by many processes, and by many calls under way.
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use core::time::Duration;

use corank_abi::call::{FAILED, RING_CANCEL, RING_ENTER, RING_SETUP, SLEEP};
use corank_abi::page::RING_BASE;
use corank_abi::ring::{LINK, RingHeader, SUBMISSIONS, Submission};
use corank_user::process::{self, Pid};
use corank_user::{information, thread, time};

use crate::{Attack, LAST, call};

pub(crate) const ATTACKS: &[Attack] = &[
    ("a kill of a group of many processes", |begin| {
        let group = sleepers();
        begin();
        process::kill_group(group[0], 9).expect("the group is there");
        wait_for(&group);
    }),
    (
        "the end of a process with 48,000 calls under way",
        |begin| {
            submit_sleeps(48_000, |number| (number.into(), 0));
            begin();
        },
    ),
    ("a cancellation among 36,000 linked calls", |begin| {
        submit_sleeps(48_000, |number| {
            let flags = if number % 4 < 3 { LINK } else { 0 };
            (number.into(), flags)
        });
        begin();
        assert_eq!(call(RING_CANCEL, [1 << 20, 0, 0]), FAILED);
    }),
    (
        "a cancellation among 48,000 calls with like keys",
        |begin| {
            // Equal in the part by which the kernel distinguishes them at first.
            submit_sleeps(48_000, |number| (u64::from(number) << 49, 0));
            begin();
            assert_eq!(call(RING_CANCEL, [1 << 48, 0, 0]), FAILED);
        },
    ),
];

/// Number of processes.
const PROCESSES: usize = 1000;

/// Sets up the rings of this process, with this many entries.
pub(crate) fn rings(entries: u32) -> &'static RingHeader {
    assert_eq!(
        call(RING_SETUP, [entries as usize, 0, 0]),
        RING_BASE as isize
    );
    // SAFETY: the kernel has mapped the rings there, until the process ends.
    unsafe { &*core::ptr::with_exposed_provenance::<RingHeader>(RING_BASE) }
}

/// Makes processes of one group that sleep for good.
///
/// The first one's number is the group's.
fn sleepers() -> Vec<Pid> {
    let mut group: Vec<Pid> = Vec::with_capacity(PROCESSES);
    for _ in 0..PROCESSES {
        let child = process::spawn(|| {
            time::sleep(Duration::from_secs(1 << 20));
            0
        });
        let child = child.expect("memory for a process");
        group.push(child);
        process::set_group(child, group[0]).expect("a child");
    }
    // All of them sleep when nothing is ready but this process.
    while information::system().expect("it is there").ready & 1 << LAST != 0 {
        thread::yield_now();
    }
    group
}

fn wait_for(children: &[Pid]) {
    for child in children {
        process::wait(*child).expect("a child");
    }
}

/// Submits this many calls that sleep for good; `describe` returns the key and the flags of each.
fn submit_sleeps(count: u32, describe: impl Fn(u32) -> (u64, u8)) {
    const ENTRIES: u32 = 64;
    let header = rings(ENTRIES);
    let first: *mut Submission = core::ptr::with_exposed_provenance_mut(RING_BASE + SUBMISSIONS);
    for number in 0..count {
        let (key, flags) = describe(number);
        let submission = Submission {
            key,
            call: SLEEP as u32,
            level: LAST,
            flags,
            arguments: [1 << 30, 0, 0],
            ..Submission::default()
        };
        // SAFETY: inside the ring.
        unsafe { first.add((number % ENTRIES) as usize).write(submission) };
        header.submission_tail.store(number + 1, Ordering::Release);
        if (number + 1) % ENTRIES == 0 {
            call(RING_ENTER, [0, 0, 0]);
            let taken = header.submission_head.load(Ordering::Acquire);
            assert_eq!(taken, number + 1, "there is memory for it");
        }
    }
}
