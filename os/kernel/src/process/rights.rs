//! What a process may do to other processes and to the machine.
//!
//! Authority follows the tree of processes. A process may act on itself and on its descendants. A
//! process whose parent has ended descends from the first process alone. Beyond that there are
//! [rights](corank_abi::rights), which children inherit and which are given up for good. The first
//! process begins with all of them.
//!
//! A group belongs to one process, which may end it. Its members are that process's descendants, or
//! were when they joined. No process is a member of a group that belongs to it.
use super::Process;
use crate::group::Group;
use crate::pace::checkpoint;
use alloc::sync::Arc;
use corank_abi::rights::MACHINE;
use core::sync::atomic::Ordering;

/// The number of generations that the kernel looks back for an ancestor.
///
/// An ancestor that is further away has no authority.
const MOST_GENERATIONS: usize = 1024;

/// The number of generations that one piece of a search for an ancestor visits.
const GENERATIONS_AT_ONCE: usize = 64;

/// The owner of the first process's group: nothing but the right [`MACHINE`] ends that.
const NO_OWNER: usize = 0;

impl Group {
    /// Returns the group in which the process with this number begins, if it is the first.
    pub(super) fn of_first(pid: usize) -> Group {
        let owner = NO_OWNER;
        Group { number: pid, owner }
    }
}

/// The ancestors of a process, the nearest first.
struct Lineage {
    next: Option<Arc<Process>>,
    left: usize,
}

impl Lineage {
    fn of(process: &Process) -> Lineage {
        Lineage {
            next: process.parent(),
            left: MOST_GENERATIONS,
        }
    }

    /// Checks [`GENERATIONS_AT_ONCE`].
    ///
    /// Returns whether the process with this number is an ancestor, once that is known.
    fn step(&mut self, pid: usize) -> Option<bool> {
        for _ in 0..GENERATIONS_AT_ONCE {
            match self.next.take() {
                Some(ancestor) if ancestor.pid == pid => return Some(true),
                Some(ancestor) if self.left > 1 => {
                    self.left -= 1;
                    self.next = ancestor.parent();
                }
                _ => return Some(false),
            }
        }
        None
    }
}

impl Process {
    /// Tests whether the process has a right.
    pub(crate) fn has_right(&self, right: usize) -> bool {
        self.rights.load(Ordering::Relaxed) & right == right
    }

    /// Takes every right that is not in the set `rights` from the process, for good.
    pub(crate) fn keep_rights(&self, rights: usize) {
        self.rights.fetch_and(rights, Ordering::Relaxed);
    }

    /// Tests whether the process may end another one or change it.
    ///
    /// Looks back through [`MOST_GENERATIONS`], in bounded pieces. A process that has had this
    /// authority at some moment of the call may be found to have it, even if a process between the
    /// two ends meanwhile.
    pub(crate) async fn may_act_on(&self, other: &Process) -> bool {
        let mut lineage = Lineage::of(other);
        loop {
            if let Some(known) = self.may_act_on_some(other, &mut lineage) {
                return known;
            }
            checkpoint().await;
        }
    }

    /// Tests the same as [`may_act_on`](Self::may_act_on), if that can be said in one piece.
    pub(crate) fn may_act_on_at_once(&self, other: &Process) -> Option<bool> {
        self.may_act_on_some(other, &mut Lineage::of(other))
    }

    fn may_act_on_some(&self, other: &Process, lineage: &mut Lineage) -> Option<bool> {
        if self.has_right(MACHINE) || self.pid == other.pid {
            return Some(true);
        }
        lineage.step(self.pid)
    }

    /// Tests whether this process may end all of a group.
    pub(crate) fn may_end(&self, group: Group) -> bool {
        self.has_right(MACHINE) || group.owner == self.pid
    }

    fn parent(&self) -> Option<Arc<Process>> {
        self.state.lock().parent.upgrade()
    }

    /// Puts `member`, on which this process may act, into a group: its own, or one that belongs to
    /// it.
    ///
    /// Itself it puts only into one with its own number, which belongs to its parent, as if that
    /// had done it. False if it may not.
    pub(crate) fn put_in_group(&self, member: &Process, number: usize) -> bool {
        let own = self.group();
        let group = if own.number == number {
            own
        } else if self.pid != member.pid {
            let owner = self.pid;
            Group { number, owner }
        } else if self.pid == number {
            let owner = self.parent().map_or(NO_OWNER, |parent| parent.pid);
            Group { number, owner }
        } else {
            return false;
        };
        let mut of_member = member.group.lock();
        if of_member.number != number {
            *of_member = group;
        }
        true
    }

    /// Returns the group that the process belongs to.
    pub(crate) fn group(&self) -> Group {
        *self.group.lock()
    }

    /// Returns the group with this number as this process names it: its own, or else one that
    /// belongs to it.
    pub(crate) fn named_group(&self, number: usize) -> Group {
        let own = self.group();
        let owner = self.pid;
        if own.number == number {
            own
        } else {
            Group { number, owner }
        }
    }
}
