//! Attacks by tables of the kernel that a program makes as long as it can, and by long chains of
//! calls.
use core::sync::atomic::{AtomicU32, Ordering};

use corank_abi::call::{
    CONDVAR_CREATE, DUP, EXIT, FAILED, KILL, MUTEX_CREATE, PROCESS_LIST, READ, RING_CANCEL,
    RING_ENTER, RING_REPRIORITIZE, RING_SETUP, SEMAPHORE_CREATE, SEMAPHORE_DOWN, SEMAPHORE_UP,
    THREAD_CREATE, WAITPID,
};
use corank_abi::page::RING_BASE;
use corank_abi::ring::{LINK, RingHeader, SILENT, SUBMISSIONS, Submission};
use corank_user::{process, thread, time};

use crate::{LAST, call, publish_level};

/// The acts of the less urgent process.
pub(crate) const ATTACKS: &[(&str, fn())] = &[
    ("a full table of files", fill_files),
    ("many semaphores, mutexes and condition variables", || {
        for kind in [SEMAPHORE_CREATE, MUTEX_CREATE, CONDVAR_CREATE] {
            while call(kind, [0; 3]) != FAILED {}
        }
    }),
    ("many calls that wait", wait_in_ring),
    ("many calls with one key", cancel_by_key),
    ("completions that are not taken", leave_completions),
    ("chains of 4,096 linked calls", chains),
    ("a chain that there is no memory for", chains_without_memory),
    ("many threads that change their level", move_threads),
    (
        "many threads that sleep until the same time",
        sleep_together,
    ),
    (
        "many processes, their list and waiting for any",
        many_processes,
    ),
];

/// As many entries as rings can have.
const ENTRIES: u32 = 4096;

/// No number of a file.
const NO_FILE: u64 = u64::MAX;

/// The rings of this process, of which nothing but submissions is used.
#[derive(Clone, Copy)]
struct Rings(&'static RingHeader);

impl Rings {
    fn new() -> Rings {
        let address = call(RING_SETUP, [ENTRIES as usize, 0, 0]);
        assert_eq!(address, RING_BASE as isize);
        // SAFETY: the kernel has mapped the rings there, until the process ends.
        Rings(unsafe { &*core::ptr::with_exposed_provenance(RING_BASE) })
    }

    /// Submits as many entries as there may be, and enters the kernel.
    fn submit_all(self, submission: impl Fn(u32) -> Submission) {
        let first: *mut Submission =
            core::ptr::with_exposed_provenance_mut(RING_BASE + SUBMISSIONS);
        let tail = self.0.submission_tail.load(Ordering::Relaxed);
        for number in 0..ENTRIES {
            let place = (tail.wrapping_add(number) % ENTRIES) as usize;
            // SAFETY: inside the ring.
            unsafe { first.add(place).write(submission(number)) };
        }
        let tail = tail.wrapping_add(ENTRIES);
        self.0.submission_tail.store(tail, Ordering::Release);
        assert_ne!(call(RING_ENTER, [0; 3]), FAILED);
    }

    /// Tests whether the kernel has taken all that was submitted.
    fn are_empty(self) -> bool {
        let taken = self.0.submission_head.load(Ordering::Acquire);
        taken == self.0.submission_tail.load(Ordering::Relaxed)
    }
}

/// Returns a call of the ring at the last level.
fn submission(number: usize, argument: u64, flags: u8) -> Submission {
    Submission {
        call: number as u32,
        level: LAST,
        flags,
        arguments: [argument, 0, 0],
        ..Submission::default()
    }
}

fn semaphore() -> usize {
    usize::try_from(call(SEMAPHORE_CREATE, [0; 3])).expect("a semaphore")
}

fn fill_files() {
    while call(DUP, [0; 3]) != FAILED {}
    // Its child has them too.
    let child = process::spawn(|| 0).expect("a process");
    assert_eq!(process::wait(child).expect("the child").code, 0);
    let mut records = [0_u64; 64];
    let address = records.as_mut_ptr().expose_provenance();
    assert!(call(PROCESS_LIST, [address, 0, 0]) > 0);
}

fn wait_in_ring() {
    let (rings, line) = (Rings::new(), semaphore());
    for _ in 0..8 {
        rings.submit_all(|_| submission(SEMAPHORE_DOWN, line as u64, 0));
        assert!(rings.are_empty());
    }
    // All calls that wait may go, the first ones and the others.
    for _ in 0..1000 {
        assert_eq!(call(SEMAPHORE_UP, [line, 0, 0]), 0);
    }
    thread::yield_now();
}

fn cancel_by_key() {
    let (rings, line) = (Rings::new(), semaphore());
    for round in 0..8 {
        // Silent calls have no key by which they could be found.
        let flags = if round < 4 { SILENT } else { 0 };
        rings.submit_all(|number| Submission {
            key: if flags == 0 { number.into() } else { 0 },
            ..submission(SEMAPHORE_DOWN, line as u64, flags)
        });
    }
    for key in 0..64 {
        assert_eq!(call(RING_REPRIORITIZE, [key, LAST.into(), 0]), 0);
        assert_ne!(call(RING_CANCEL, [key, 0, 0]), FAILED);
    }
    for _ in 0..1000 {
        assert_eq!(call(SEMAPHORE_UP, [line, 0, 0]), 0);
    }
    thread::yield_now();
}

fn leave_completions() {
    let rings = Rings::new();
    // Until the kernel keeps no more, and they stay in their ring.
    while rings.are_empty() {
        rings.submit_all(|_| submission(READ, NO_FILE, 0));
    }
}

fn chains() {
    let (rings, line) = (Rings::new(), semaphore());
    for _ in 0..4 {
        rings.submit_all(|number| match number {
            0 => submission(SEMAPHORE_DOWN, line as u64, LINK),
            _ => submission(READ, NO_FILE, LINK | SILENT),
        });
        assert!(rings.are_empty());
    }
    // One runs to its end, the others end with the process.
    for _ in 0..2 {
        assert_eq!(call(SEMAPHORE_UP, [line, 0, 0]), 0);
        time::sleep(core::time::Duration::from_millis(20));
    }
}

fn chains_without_memory() {
    let (rings, line) = (Rings::new(), semaphore());
    process::limit_memory(2 << 20).expect("a limit");
    for _ in 0..8 {
        rings.submit_all(|number| match number {
            0 => submission(SEMAPHORE_DOWN, line as u64, LINK),
            _ => submission(READ, NO_FILE, LINK | SILENT),
        });
        assert!(rings.are_empty());
    }
}

/// Starts this many threads, each of which runs `body` with this argument and ends.
fn threads(count: usize, body: extern "C" fn(usize) -> !, argument: usize) {
    for _ in 0..count {
        if call(THREAD_CREATE, [body as *const () as usize, argument, 0]) == FAILED {
            break;
        }
    }
}

extern "C" fn wait_in_line(line: usize) -> ! {
    let _ = call(SEMAPHORE_DOWN, [line, 0, 0]);
    let _ = call(EXIT, [0; 3]);
    unreachable!("the thread has ended")
}

fn move_threads() {
    let line = semaphore();
    threads(4000, wait_in_line, line);
    thread::yield_now();
    for round in 0..64 {
        publish_level(LAST - round % 2);
        thread::yield_now();
    }
    for _ in 0..4000 {
        assert_eq!(call(SEMAPHORE_UP, [line, 0, 0]), 0);
    }
}

static SLEEPING: AtomicU32 = AtomicU32::new(0);

extern "C" fn sleep_in_ring(_: usize) -> ! {
    SLEEPING.fetch_add(1, Ordering::Relaxed);
    // Until the deadline in the ring's header.
    let _ = call(RING_ENTER, [1, 0, 0]);
    let _ = call(EXIT, [0; 3]);
    unreachable!("the thread has ended")
}

fn sleep_together() {
    const COUNT: usize = 4000;
    let rings = Rings::new();
    let deadline = time::ticks() + time::frequency() / 4;
    rings.0.deadline.store(deadline, Ordering::Relaxed);
    threads(COUNT, sleep_in_ring, 0);
    time::sleep(core::time::Duration::from_millis(300));
    assert!(SLEEPING.load(Ordering::Relaxed) > 1000);
}

fn many_processes() {
    const COUNT: usize = 1000;
    let mut pids = [0; COUNT];
    let mut count = 0;
    for pid in &mut pids {
        let Ok(child) = process::spawn(|| {
            time::sleep(core::time::Duration::from_secs(1000));
            0
        }) else {
            break;
        };
        *pid = child;
        count += 1;
    }
    for _ in 0..100 {
        assert!(call(WAITPID, [usize::MAX, 0, 0]) < 0);
    }
    // Several ticks of the clock.
    time::sleep(core::time::Duration::from_millis(50));
    for pid in &pids[..count] {
        assert_eq!(call(KILL, [*pid, 9, 0]), 0);
    }
    for pid in &pids[..count] {
        process::wait(*pid).expect("a child");
    }
}
