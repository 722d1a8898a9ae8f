//! The judge, which tests whether the system is as it was before.

use core::time::Duration;

use corank_abi::call::PROCESS_LIST;
use corank_user::information::{self, ENDED, ProcessRecord, SystemStatus};
use corank_user::process::{self, Pid};
use corank_user::{println, raw, time};

/// Bytes of the kernel's heap that may be in use in addition after all rounds.
///
/// The kernel's tables keep the size that they needed once, and the file system remembers
/// directories.
const HEAP: u64 = 256 << 10;

/// The time in which killed processes end, on a host of any speed.
const PATIENCE: Duration = Duration::from_secs(20);

/// SIGKILL.
const KILL: u32 = 9;

/// More processes than there are.
const ROOM: usize = 512;

/// Counts that must not change.
#[derive(Debug)]
struct Counts {
    frames_free: u64,
    processes: u64,
    coroutines: u64,
    stacks: u64,
}

pub(crate) struct Judge {
    victim: Pid,
    before: Counts,
    heap: u64,
}

/// Returns the system's status when no process is still ending.
fn system() -> SystemStatus {
    process::quiesce();
    information::system().expect("it is there")
}

impl Counts {
    fn now() -> Self {
        let system = system();
        Self {
            frames_free: system.frames_free,
            processes: system.processes,
            coroutines: system.coroutines,
            stacks: system.stacks,
        }
    }
}

impl Judge {
    /// Takes the current state, beside this victim, as the state that must be found again.
    pub(crate) fn new(victim: Pid) -> Self {
        // The stack and the list below have their memory from here on.
        records(|_| {});
        Self {
            victim,
            before: Counts::now(),
            heap: system().heap_used,
        }
    }

    /// Ends all processes but this one and the victim, and waits for them.
    pub(crate) fn end_attackers(&self) {
        let here = process::id();
        let begun = time::ticks();
        loop {
            let is_late = time::duration(time::ticks() - begun) > PATIENCE;
            let mut others = 0;
            records(|record| {
                let pid = record.pid as Pid;
                if pid != here && pid != self.victim {
                    others += 1;
                    if record.state != ENDED {
                        // It may have ended by now.
                        let _ = process::kill(pid, KILL);
                    }
                    if is_late {
                        println!("left: {record:?}");
                    }
                }
            });
            if others == 0 {
                return;
            }
            assert!(!is_late, "{others} processes were killed and do not end");
            // Orphans become this process's children.
            if !matches!(process::try_wait_any(), Ok(Some(_))) {
                time::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Compares with the beginning, or, unless `strict`, makes this the beginning.
    ///
    /// If there is more room than at the beginning, something had still been allocated back then.
    /// The current state becomes the beginning in that case.
    ///
    /// # Panics
    /// If something is left behind.
    pub(crate) fn compare(&mut self, strict: bool) {
        let now = Counts::now();
        let before = &self.before;
        let is_left = now.frames_free < before.frames_free
            || now.processes > before.processes
            || now.coroutines > before.coroutines
            || now.stacks > before.stacks;
        assert!(
            !strict || !is_left,
            "something is left behind: {before:?} before, {now:?} now"
        );
        self.before = now;
        if !strict {
            self.heap = system().heap_used;
        }
    }

    /// Compares the kernel's heap with the beginning.
    ///
    /// # Panics
    /// If more than [`HEAP`] is in use in addition.
    pub(crate) fn heap(&self) {
        let used = system().heap_used;
        assert!(
            used <= self.heap + HEAP,
            "the kernel's heap grew from {} to {used} bytes",
            self.heap
        );
    }
}

/// Shows each existing process, without memory of the heap.
fn records(mut inspect: impl FnMut(&ProcessRecord)) {
    let mut records = [ProcessRecord::default(); ROOM];
    let place = records.as_mut_ptr().expose_provenance();
    // SAFETY: the kernel writes at most so many records, and all are there.
    let count = unsafe { raw::system_call(PROCESS_LIST, [place, ROOM, 0]) };
    let count = usize::try_from(count).expect("a call that works").min(ROOM);
    records[..count].iter().for_each(&mut inspect);
}
