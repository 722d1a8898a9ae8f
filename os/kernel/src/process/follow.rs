//! Levels of processes and threads that follow in pieces, where a program chooses how many there
//! are.
//!
//! ```text
//!   a worker's level changes ──▶ its first threads move at once ──▶ the others: the mover, at the process's level
//!   a tick of the clock ──▶ the first processes are visited at once ──▶ the others: the visitor
//! ```
//! The mover works at the more urgent of the levels that a process had and has. So it holds up
//! nothing that is more urgent than that process. The visitor works at level 0, as a tick
//! interrupts all levels, and yields to others of level 0 behind each piece.
use super::{Process, State, table};
use crate::executor::{executor, priority};
use crate::lock::Mutex;
use crate::pace::{self, checkpoint};
use crate::stretch::{self, Work};
use alloc::collections::BTreeSet;
use corank::{Priority, Remote};
use core::future::poll_fn;
use core::task::{Poll, Waker};

/// The number of processes, or of places of a table of threads, that one piece of work visits.
const AT_ONCE: usize = 2 * pace::OBJECTS;

/// The threads of a process that have not moved to their worker's level yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moving {
    /// The number of the first thread that has not moved.
    next: usize,
    /// The level at which the mover works for the process.
    level: u8,
}

/// What the mover has to do.
///
/// Its lock is taken under that of a process, never the other way round.
struct Mover {
    /// Levels and numbers of the processes whose threads move, the most urgent one first.
    processes: BTreeSet<(u8, usize)>,
    /// Its coroutine, while there is nothing to do.
    idle: Option<Waker>,
    coroutine: Option<Remote>,
}

static MOVER: Mutex<Mover> = Mutex::new(Mover {
    processes: BTreeSet::new(),
    idle: None,
    coroutine: None,
});

/// What the visitor has to do.
struct Visitor {
    /// Set when a tick has come.
    is_due: bool,
    idle: Option<Waker>,
}

static VISITOR: Mutex<Visitor> = Mutex::new(Visitor {
    is_due: false,
    idle: None,
});

/// Starts the two coroutines.
///
/// # Panics
/// When there is no memory for them: they are made at boot.
pub(super) fn start() {
    let executor = executor();
    let mover = executor.spawn(Priority::MOST_URGENT, stretch::during(NAME, move_others()));
    MOVER.lock().coroutine = Some(mover.expect("there is memory at boot").remote());
    let visitor = executor.spawn(Priority::MOST_URGENT, stretch::during(NAME, visit_others()));
    visitor.expect("there is memory at boot");
}

const NAME: Work = Work::Service("levels");

impl State {
    /// Moves the threads that run at the level of worker 0 of the process with this number.
    ///
    /// The first ones move now, the others later.
    pub(super) fn move_threads(&mut self, pid: usize, before: u8, level: u8) {
        self.move_range(0, level);
        if self.threads.bound() > AT_ONCE {
            self.move_later(pid, before.min(level));
        }
    }

    /// Moves those of a range of [`AT_ONCE`] numbers.
    fn move_range(&self, first: usize, level: u8) {
        let until = self.threads.bound().min(first + AT_ONCE);
        for (tid, slot) in self.threads.range(first..until) {
            if let super::Slot::Live(coroutine) = slot
                && self.worker_of(tid) == 0
            {
                executor().reprioritize(*coroutine, priority(level));
            }
        }
    }

    #[cold]
    fn move_later(&mut self, pid: usize, level: u8) {
        let mut mover = MOVER.lock();
        let known = self.moving.map(|moving| moving.level);
        if let Some(known) = known {
            mover.processes.remove(&(known, pid));
        }
        let level = known.map_or(level, |known| known.min(level));
        mover.processes.insert((level, pid));
        self.moving = Some(Moving {
            next: AT_ONCE,
            level,
        });
        mover.take_level();
        let idle = mover.idle.take();
        drop(mover);
        if let Some(idle) = idle {
            idle.wake();
        }
    }
}

impl Process {
    /// Moves some of the threads that have not moved yet.
    fn move_some(&self) {
        let mut state = self.state.lock();
        let Some(moving) = state.moving else { return };
        state.move_range(moving.next, self.first.level());
        let next = moving.next + AT_ONCE;
        if next < state.threads.bound() {
            state.moving = Some(Moving { next, ..moving });
        } else {
            state.moving = None;
            MOVER.lock().processes.remove(&(moving.level, self.pid));
        }
    }
}

impl Mover {
    /// Gives the coroutine the level of what is most urgent.
    fn take_level(&self) {
        if let (Some((level, _)), Some(coroutine)) = (self.processes.first(), &self.coroutine) {
            coroutine.reprioritize(priority(*level));
        }
    }
}

async fn move_others() {
    loop {
        let (level, pid) = poll_fn(|context| {
            let mut mover = MOVER.lock();
            let first = mover.processes.first().copied();
            if first.is_none() {
                mover.idle = Some(context.waker().clone());
            }
            mover.take_level();
            first.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        // Its level may have become less urgent.
        checkpoint().await;
        match table::find(pid) {
            Some(process) => process.move_some(),
            None => drop(MOVER.lock().processes.remove(&(level, pid))),
        }
        checkpoint().await;
    }
}

/// Lets each process follow what it says of its coroutines.
pub(crate) fn follow_levels() {
    if table::visit_from(0, AT_ONCE, Process::follow_levels).is_none() {
        return;
    }
    let idle = {
        let mut visitor = VISITOR.lock();
        visitor.is_due = true;
        visitor.idle.take()
    };
    if let Some(idle) = idle {
        idle.wake();
    }
}

async fn visit_others() {
    loop {
        poll_fn(|context| {
            let mut visitor = VISITOR.lock();
            if core::mem::take(&mut visitor.is_due) {
                return Poll::Ready(());
            }
            visitor.idle = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        let mut next = Some(0);
        while let Some(first) = next {
            next = table::visit_from(first, AT_ONCE, Process::follow_levels);
            stretch::check();
            corank::yield_now().await;
        }
    }
}
