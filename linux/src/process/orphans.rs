//! Children that nobody waits for any more: one thread of the process waits for all of them, so that none stays as a zombie. It needs no
//! runtime, because a child may outlive all of them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::process::{WaitId, WaitIdOptions, waitid};

/// The pidfd of a child.
type Orphan = Arc<OwnedFd>;

/// What the thread and those who bring orphans share.
struct Door {
    brought: Mutex<Vec<Orphan>>,
    bell: OwnedFd,
}

/// The thread's, once it was started: it stays as long as the process.
static DOOR: Mutex<Option<Arc<Door>>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics between two states.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// To be called before a child is started: what dropping it may need later is there then.
///
/// # Errors
/// No descriptors, or no thread could be started.
pub(super) fn prepare() -> io::Result<()> {
    let mut place = lock(&DOOR);
    if place.is_none() {
        let door = Arc::new(Door {
            brought: Mutex::default(),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        let inside = door.clone();
        thread::Builder::new()
            .name("corank-orphans".to_string())
            .spawn(move || inside.serve())?;
        *place = Some(door);
    }
    Ok(())
}

/// Takes over a child, which will be waited for when it ends.
pub(super) fn adopt(orphan: Orphan) {
    let door = lock(&DOOR).clone().expect("prepared when it was started");
    lock(&door.brought).push(orphan);
    // The only error is a counter that is full: then the bell rings.
    let _ = rustix::io::write(&door.bell, &1_u64.to_ne_bytes());
}

impl Door {
    fn serve(&self) {
        let mut orphans: Vec<Orphan> = Vec::new();
        loop {
            let bell = PollFd::new(&self.bell, PollFlags::IN);
            let watched = orphans
                .iter()
                .map(|orphan| PollFd::new(orphan, PollFlags::IN));
            let mut watched: Vec<_> = std::iter::once(bell).chain(watched).collect();
            // Interrupted, or no memory in the kernel: tried again.
            let _ = poll(&mut watched, None);
            let _ = rustix::io::read(&self.bell, &mut [0_u8; 8]);
            orphans.append(&mut lock(&self.brought));
            orphans.retain(|orphan| {
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
                // An error says that somebody else has waited for it.
                matches!(waitid(WaitId::PidFd(orphan.as_fd()), options), Ok(None))
            });
        }
    }
}
