//! Items that the tests share.
use alloc::vec::Vec;
use corank_user::information::{self, ProcessRecord, SystemStatus};
use corank_user::io::{OwnedFd, Pipe};
use corank_user::process::{self, Pid};
use corank_user::{calls, net, page, raw, ring, thread};
use core::sync::atomic::{AtomicUsize, Ordering};

/// A test.
pub(crate) struct Test {
    pub(crate) name: &'static str,
    /// Function that panics if the test fails.
    pub(crate) run: fn(),
}

impl Test {
    /// Runs the test, and checks that this process has no asynchronous calls left.
    ///
    /// Calls that the test has said it would [leave](leave_calls) are allowed.
    pub(crate) fn run_whole(&self) {
        (self.run)();
        let left = [&UNDER_WAY, &NOT_OVER].map(|left| left.load(Ordering::Relaxed));
        // Calls that waited for what the test has closed end when the kernel's coroutines have
        // their turn.
        let mut under_way = quiesced(calls_under_way);
        for _ in 0..TURNS {
            if under_way == left[0] {
                break;
            }
            thread::yield_now();
            under_way = quiesced(calls_under_way);
        }
        assert_eq!(
            [under_way, ring::not_over()],
            left,
            "calls under way in the kernel, and calls that are not over here"
        );
    }
}

/// Returns the kernel's record of an existing process.
pub(crate) fn record(pid: Pid) -> ProcessRecord {
    let processes = information::processes().expect("a list");
    let found = processes.iter().find(|record| record.pid == pid as u64);
    *found.expect("it is there")
}

/// Returns how many asynchronous calls of this process the kernel has taken and not completed.
pub(crate) fn calls_under_way() -> usize {
    record(process::id()).calls as usize
}

/// Number of turns that calls with a reason to end get.
const TURNS: usize = 100;

static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
static NOT_OVER: AtomicUsize = AtomicUsize::new(0);

/// Declares how many calls a test leaves under way, and how many futures it has leaked.
///
/// The end of the test's process cancels the calls under way.
pub(crate) fn leave_calls(under_way: usize, leaked: usize) {
    UNDER_WAY.store(under_way, Ordering::Relaxed);
    NOT_OVER.store(leaked, Ordering::Relaxed);
}

/// Makes a list of tests from the names of their functions.
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        pub(crate) const TESTS: &[$crate::support::Test] =
            &[$($crate::support::Test { name: stringify!($name), run: $name }),*];
    };
}
pub(crate) use tests;

/// Exit code of a process that touched or passed an address that isn't its own.
///
/// The code is the same in rCore-Tutorial-v3.
pub(crate) const BAD_ADDRESS: i32 = -11;
/// Exit code of a process that executed an instruction that it may not execute.
pub(crate) const BAD_INSTRUCTION: i32 = -4;
/// Exit code of a process that met any other exception, or that ended itself by signal 6.
pub(crate) const ABORTED: i32 = -6;
/// Signal number and, negated, exit code of a process that was killed.
pub(crate) const KILL: u32 = 9;

/// An address that no program has mapped.
pub(crate) const UNMAPPED: usize = 0x0e_0000_0000;
/// An address in the kernel's half of the address space.
pub(crate) const KERNEL: usize = 0xffff_ffff_ffff_f000;

/// Makes a system call that can't harm this process's memory.
///
/// Its arguments are numbers, or pointers that the kernel refuses or may write through.
pub(crate) fn call(number: usize, arguments: [usize; 3]) -> isize {
    // SAFETY: the tests pass pointers to memory of their own that holds plain bytes, or pointers
    // that the kernel refuses.
    unsafe { raw::system_call(number, arguments) }
}

/// Runs `child` in a process of its own and returns its exit code.
pub(crate) fn exit_code(child: impl FnOnce() -> i32) -> i32 {
    let pid = process::spawn(child).expect("a process");
    process::wait(pid).expect("the child").code
}

/// Expects that the kernel ends a process that does `deed`, with this code.
pub(crate) fn expect_end(code: i32, deed: impl FnOnce()) {
    let ended = exit_code(|| {
        deed();
        0
    });
    assert_eq!(ended, code);
}

/// Kills a process and expects that this ends it.
pub(crate) fn kill_and_wait(pid: Pid) {
    process::kill(pid, KILL).expect("the process is there");
    assert_eq!(process::wait(pid).expect("the child").code, -(KILL as i32));
}

/// Returns the ends of a new pipe.
pub(crate) fn pipe() -> (OwnedFd, OwnedFd) {
    let Pipe { reader, writer } = Pipe::new().expect("a pipe");
    (reader, writer)
}

/// A limit by which one hart runs everything until this is dropped.
///
/// All competing work then competes for one hart.
pub(crate) struct OneHart {
    before: usize,
}

/// Limits the system to one hart; see [`OneHart`].
pub(crate) fn one_hart() -> OneHart {
    let before = process::limit_harts(1).expect("all levels are granted");
    OneHart { before }
}

impl Drop for OneHart {
    fn drop(&mut self) {
        let _ = process::limit_harts(self.before);
    }
}

/// Processes of one level that keep all harts but one busy until this is dropped.
///
/// Less urgent work then competes for one hart, and the order among all harts shows.
pub(crate) struct Busy {
    spinners: Vec<Pid>,
}

/// Keeps all harts but one busy at `level`; see [`Busy`].
///
/// This process is less urgent than `level`.
pub(crate) fn busy_elsewhere(level: u8) -> Busy {
    let (begun, begins) = pipe();
    let spin = || {
        claim(1 << level);
        // The kernel checks when a process yields.
        thread::yield_now();
        begins.write(&[0]).expect("room");
        loop {
            core::hint::spin_loop();
        }
    };
    let spinners: Vec<_> = (1..process::harts())
        .map(|_| process::spawn(spin).expect("a process"))
        .collect();
    for _ in &spinners {
        assert_eq!(begun.read(&mut [0]), Ok(1));
    }
    Busy { spinners }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.spinners.drain(..).for_each(kill_and_wait);
    }
}

/// Returns what `read` sees when nothing is leaving the kernel any more.
///
/// When a parent learns of a child's end, the last of the child may still be leaving, on another
/// hart.
pub(crate) fn quiesced<T>(read: impl FnOnce() -> T) -> T {
    process::quiesce();
    read()
}

/// Returns how many frames are free; see [`quiesced`].
pub(crate) fn frames_free() -> usize {
    quiesced(process::frames_free)
}

/// Returns the kernel's numbers for a test that compares its heap to the byte.
///
/// What earlier tests have left for a while on purpose is gone then. A connection that is over
/// keeps its buffers while it waits for old frames to die out (10 s). It would go in the middle of
/// the test.
pub(crate) fn without_sockets() -> SystemStatus {
    while net::status().expect("memory").sockets > 0 {
        calls::sleep(1).expect("a call that works");
    }
    quiesced(information::system).expect("it is there")
}

/// Makes this process claim these levels, as if coroutines were ready there.
pub(crate) fn claim(levels: u64) {
    let page = page::process();
    page.executors.store(1, Ordering::Relaxed);
    page.ready.store(levels, Ordering::Release);
}

/// Takes back what [`claim`] has said, or the parent's claim, of which a child begins with a copy.
///
/// This is for a process without an executor.
pub(crate) fn claim_nothing() {
    claim(0);
    page::process().executors.store(0, Ordering::Relaxed);
}

/// Makes this process say that a timer of a coroutine at this level is due at `due`, in
/// nanoseconds.
pub(crate) fn claim_timer(level: usize, due: u64) {
    let deadlines = &page::process().deadlines;
    deadlines.bounds[level].store(due, Ordering::Relaxed);
    deadlines.levels.fetch_or(1 << level, Ordering::Release);
}

/// Takes back what [`claim_timer`] has said.
pub(crate) fn claim_no_timers() {
    page::process().deadlines.levels.store(0, Ordering::Relaxed);
}

/// Puts this process at this level from now on.
pub(crate) fn be_at(level: u8) {
    claim(1 << level);
    // The kernel checks when a process yields.
    thread::yield_now();
}

/// Runs `work` in a process of its own at this level, and returns when it has begun.
pub(crate) fn at_level(level: u8, work: impl FnOnce()) -> Pid {
    let (begun, begins) = pipe();
    let pid = process::spawn(|| {
        be_at(level);
        begins.write(&[0]).expect("room");
        work();
        0
    })
    .expect("a process");
    assert_eq!(begun.read(&mut [0]), Ok(1));
    pid
}

/// Spins until the clock has ticked this many times.
pub(crate) fn spin_for_ticks(ticks: u64) {
    let now = || page::system().ticks.load(Ordering::Relaxed);
    let start = now();
    while now() - start < ticks {
        core::hint::spin_loop();
    }
}
