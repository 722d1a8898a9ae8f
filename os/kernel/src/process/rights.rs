//! What a process may do to other processes and to the machine.
//!
//! Authority follows the tree of processes. A process may act on itself and on its descendants; a process whose parent has ended descends
//! from the first process alone. Beyond that there are [rights](corank_abi::rights), which children inherit and which are given up for
//! good. The first process begins with all of them.
//!
//! A group belongs to one process, which may end it: its members are that process's descendants, or were when they joined. No process is a
//! member of a group that belongs to it.
use super::Process;
use alloc::sync::Arc;
use corank_abi::rights::MACHINE;
use core::sync::atomic::Ordering;

/// How many generations the kernel looks back for an ancestor. One that is further away has no authority.
const MOST_GENERATIONS: usize = 1024;

/// The owner of the first process's group: nothing but the right [`MACHINE`] ends that.
const NO_OWNER: usize = 0;

/// A group of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// By which calls name it. Two groups of different owners may have the same.
    pub number: usize,
    /// The number of the process that may end it.
    pub owner: usize,
}

impl Group {
    /// The group in which the process with this number begins, if it is the first.
    pub(super) fn of_first(pid: usize) -> Group {
        let owner = NO_OWNER;
        Group { number: pid, owner }
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

    /// Tests whether the process may end another one or change it. At most [`MOST_GENERATIONS`] short steps.
    pub(crate) fn may_act_on(&self, other: &Process) -> bool {
        self.has_right(MACHINE) || self.pid == other.pid || other.descends_from(self)
    }

    /// Tests whether this process may end all of a group.
    pub(crate) fn may_end(&self, group: Group) -> bool {
        self.has_right(MACHINE) || group.owner == self.pid
    }

    fn descends_from(&self, ancestor: &Process) -> bool {
        let mut parent = self.parent();
        for _ in 0..MOST_GENERATIONS {
            match parent {
                Some(process) if process.pid == ancestor.pid => return true,
                Some(process) => parent = process.parent(),
                None => return false,
            }
        }
        false
    }

    fn parent(&self) -> Option<Arc<Process>> {
        self.state.lock().parent.upgrade()
    }

    /// Puts `member`, on which this process may act, into a group: its own, or one that belongs to it. Itself it puts only into one with its
    /// own number, which belongs to its parent, as if that had done it. False if it may not.
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

    /// The group that the process belongs to.
    pub(crate) fn group(&self) -> Group {
        *self.group.lock()
    }

    /// The group with this number as this process names it: its own, or else one that belongs to it.
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
