//! Waits for children whose `Child` was dropped, so that none stays as a zombie.
//!
//! One thread of the process waits for all of them. It needs no runtime, because a child may
//! outlive all runtimes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::process::{WaitId, WaitIdOptions, waitid};

/// The thread's pause after a wake for which it found no child; doubled each time in a row.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The pidfd of a child.
type Orphan = Arc<OwnedFd>;

/// Shared by the thread and the code that hands orphans to it.
struct Handover {
    orphans: Mutex<Vec<Orphan>>,
    doorbell: OwnedFd,
}

/// Set once the thread was started, which lives as long as the process.
static HANDOVER: Mutex<Option<Arc<Handover>>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code between two states panics.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread and opens its descriptor; to be called before a child is started, because
/// dropping the child may need both.
///
/// # Errors
/// Fails without descriptors, and if no thread can be started.
pub(super) fn prepare() -> io::Result<()> {
    let mut slot = lock(&HANDOVER);
    if slot.is_none() {
        let handover = Arc::new(Handover {
            orphans: Mutex::default(),
            doorbell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        let thread_side = handover.clone();
        thread::Builder::new()
            .name("corank-orphans".to_string())
            .spawn(move || thread_side.serve())?;
        *slot = Some(handover);
    }
    Ok(())
}

/// Hands a child to the thread, which waits for its end.
pub(super) fn adopt(orphan: Orphan) {
    let handover = lock(&HANDOVER)
        .clone()
        .expect("prepared when it was started");
    lock(&handover.orphans).push(orphan);
    // The only error is a full counter: then the doorbell is readable.
    let _ = rustix::io::write(&handover.doorbell, &1_u64.to_ne_bytes());
}

impl Handover {
    fn serve(&self) {
        let mut orphans: Vec<Orphan> = Vec::new();
        let mut pause = FIRST_PAUSE;
        loop {
            #[cfg(test)]
            tests::TURNS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let doorbell = PollFd::new(&self.doorbell, PollFlags::IN);
            let watched = orphans
                .iter()
                .map(|orphan| PollFd::new(orphan, PollFlags::IN));
            let mut watched: Vec<_> = std::iter::once(doorbell).chain(watched).collect();
            // It may fail: interrupted, no memory in the kernel, or more orphans than the process
            // may now have descriptors.
            let _ = poll(&mut watched, None);
            let was_notified = rustix::io::read(&self.doorbell, &mut [0_u8; 8]).is_ok();
            orphans.append(&mut lock(&self.orphans));
            let before = orphans.len();
            orphans.retain(|orphan| {
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
                // An error means that other code has waited for it.
                matches!(waitid(WaitId::PidFd(orphan.as_fd()), options), Ok(None))
            });
            // A child that another process traces has ended for `poll`, but cannot be waited for
            // before the tracer has seen its end.
            pause = if was_notified || orphans.len() < before {
                FIRST_PAUSE
            } else {
                thread::sleep(pause);
                LONGEST_PAUSE.min(2 * pause)
            };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use std::io::{BufRead, BufReader, Read};
    use std::process::{Command, Stdio};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Instant;

    pub(super) static TURNS: AtomicU64 = AtomicU64::new(0);

    /// Names the child to trace, in the process that traces.
    const TRACED: &str = "CORANK_TEST_TRACED";

    #[test]
    #[allow(clippy::zombie_processes, reason = "the thread waits for the child")]
    fn a_child_whose_tracer_does_not_see_its_end_does_not_keep_the_thread_busy() {
        if let Ok(child) = std::env::var(TRACED) {
            let child = nix::unistd::Pid::from_raw(child.parse().unwrap());
            nix::sys::ptrace::seize(child, nix::sys::ptrace::Options::empty()).unwrap();
            println!("traces");
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
            return;
        }
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let test = "process::orphans::tests::a_child_whose_tracer_does_not_see_its_end_does_not_keep_the_thread_busy";
        let mut tracer = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(TRACED, child.id().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(tracer.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("traces")));

        prepare().unwrap();
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        let orphan = Arc::new(pidfd);
        child.kill().unwrap();
        poll(&mut [PollFd::new(&orphan, PollFlags::IN)], None).unwrap();
        adopt(orphan.clone());
        let (began, before) = (Instant::now(), TURNS.load(Ordering::Relaxed));
        thread::sleep(30 * FIRST_PAUSE);
        let turns = TURNS.load(Ordering::Relaxed) - before;
        let pauses = began.elapsed().as_nanos() / FIRST_PAUSE.as_nanos();
        assert!(
            u128::from(turns) <= pauses + 4,
            "{turns} in {pauses} pauses"
        );

        // Once the tracer is gone, no zombie stays: the thread has dropped its descriptor.
        drop(tracer.stdin.take());
        lines.for_each(drop);
        tracer.wait().unwrap();
        while Arc::strong_count(&orphan) > 1 {
            assert!(began.elapsed() < Duration::from_secs(60), "a zombie stays");
            thread::sleep(FIRST_PAUSE);
        }
    }
}
