//! What the tests share.
use alloc::vec::Vec;
use corank_user::io::{OwnedFd, Pipe};
use corank_user::process::{self, Pid};
use corank_user::runtime::{self, Global};
use corank_user::{Priority, raw};

/// One test.
pub(crate) struct Test {
    pub(crate) name: &'static str,
    /// Panics if the test fails.
    pub(crate) run: fn(),
}

/// A list of tests from the names of their functions.
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        pub(crate) const TESTS: &[$crate::support::Test] =
            &[$($crate::support::Test { name: stringify!($name), run: $name }),*];
    };
}
pub(crate) use tests;

/// Exit code of a process that touched or passed an address that isn't its own (as in rCore-Tutorial-v3).
pub(crate) const BAD_ADDRESS: i32 = -11;
/// Exit code of a process that executed an instruction that it may not.
pub(crate) const BAD_INSTRUCTION: i32 = -4;
/// Exit code of a process that met any other exception, or gave up by signal 6.
pub(crate) const ABORTED: i32 = -6;
/// Signal number and, negative, exit code of a process that was killed.
pub(crate) const KILL: u32 = 9;

/// An address that no program has mapped.
pub(crate) const UNMAPPED: usize = 0x0e_0000_0000;
/// An address in the kernel's half of the address space.
pub(crate) const KERNEL: usize = 0xffff_ffff_ffff_f000;

/// A system call that can't harm this process's memory: numbers, or pointers that the kernel refuses or may write through.
pub(crate) fn call(number: usize, arguments: [usize; 3]) -> isize {
    // SAFETY: the tests pass pointers to memory of their own that holds plain bytes, or pointers that the kernel refuses.
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

/// Kills a process and expects that it ends by that.
pub(crate) fn kill_and_wait(pid: Pid) {
    process::kill(pid, KILL).expect("the process is there");
    assert_eq!(process::wait(pid).expect("the child").code, -(KILL as i32));
}

/// The ends of a new pipe.
pub(crate) fn pipe() -> (OwnedFd, OwnedFd) {
    let Pipe { reader, writer } = Pipe::new().expect("a pipe");
    (reader, writer)
}

/// Processes that keep all harts but one busy, at the most urgent level, until this is dropped: what competes then competes for one hart.
pub(crate) struct Occupied(Vec<Pid>);

/// See [`Occupied`].
pub(crate) fn occupy_other_harts() -> Occupied {
    let (begun, begins) = pipe();
    let spinners: Vec<Pid> = (1..process::harts())
        .map(|_| {
            let spin = || {
                let begins = begins.duplicate().expect("a descriptor");
                runtime::run(Priority::MOST_URGENT, Global::Relaxed, async move {
                    begins.write(&[0]).expect("room");
                    // Longer than any test takes, but not for ever if the test fails.
                    spin_for_ticks(3000);
                })
            };
            process::spawn(|| {
                spin();
                0
            })
            .expect("a process")
        })
        .collect();
    for _ in &spinners {
        assert_eq!(begun.read(&mut [0]), Ok(1));
    }
    // Each has been seen at its level by now, and has a hart.
    spin_for_ticks(2);
    Occupied(spinners)
}

impl Drop for Occupied {
    fn drop(&mut self) {
        for pid in self.0.drain(..) {
            kill_and_wait(pid);
        }
    }
}

/// What `look` sees. Where several harts run, as soon as it is `expected`, or after some clock ticks however it is: when a parent hears of a
/// child's end, the last of the child may be on its way out on another hart. On one hart it is out, and nothing is waited for.
pub(crate) fn settled<T: PartialEq>(expected: &T, look: impl Fn() -> T) -> T {
    let rounds = if process::harts() > 1 { 20 } else { 0 };
    for _ in 0..rounds {
        if look() == *expected {
            break;
        }
        spin_for_ticks(1);
    }
    look()
}

/// How many frames are free; see [`settled`].
pub(crate) fn frames_free_when(expected: usize) -> usize {
    settled(&expected, process::frames_free)
}

/// Spins until the clock has ticked this many times.
pub(crate) fn spin_for_ticks(ticks: u64) {
    let now = || {
        corank_user::page::system()
            .ticks
            .load(core::sync::atomic::Ordering::Relaxed)
    };
    let start = now();
    while now() - start < ticks {
        core::hint::spin_loop();
    }
}
