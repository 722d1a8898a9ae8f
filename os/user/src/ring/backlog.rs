//! Calls for which the submission ring has no room. It is full when the kernel takes nothing from
//! it, because the kernel has as many calls of the process as it may. They wait here, outside of
//! the kernel, and are handed over before the next entry that finds room.
use alloc::collections::VecDeque;
use core::cell::RefCell;

use corank::Priority;
use corank_abi::ring::SILENT;

use super::call::Request;
use super::node::Node;

/// What one call has to write into the ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) request: Request,
    /// How many times, each with memory of its own.
    pub(super) times: u32,
    pub(super) flags: u8,
    pub(super) key: u64,
    pub(super) level: Priority,
    /// The node of the call; none if its result is not wanted.
    pub(super) node: Option<&'static Node>,
}

impl Entry {
    /// Returns the entry of a call with a result that is not wanted.
    pub(super) fn silent(request: Request, level: Priority) -> Self {
        Self {
            request,
            times: 1,
            flags: SILENT,
            key: 0,
            level,
            node: None,
        }
    }
}

/// The calls that wait for room, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Backlog(RefCell<VecDeque<Entry>>);

impl Backlog {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Keeps one until there is room.
    ///
    /// # Panics
    /// When memory is exhausted.
    #[cold]
    pub(super) fn keep(&self, entry: Entry) {
        self.0.borrow_mut().push_back(entry);
    }

    /// Takes the first one, if it fits.
    pub(super) fn next(&self, fits: impl FnOnce(&Entry) -> bool) -> Option<Entry> {
        self.0.borrow_mut().pop_front_if(|entry| fits(entry))
    }

    /// Removes a node's call, if it is here.
    ///
    /// Costs a check of each entry.
    pub(super) fn take(&self, node: &Node) -> Option<Entry> {
        if self.is_empty() {
            return None;
        }
        let mut entries = self.0.borrow_mut();
        let place = entries.iter().position(|entry| entry.is_of(node))?;
        entries.remove(place)
    }

    /// Gives a node's call another level, and returns whether the call is here.
    pub(super) fn follow(&self, node: &Node, level: Priority) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut entries = self.0.borrow_mut();
        let found = entries.iter_mut().find(|entry| entry.is_of(node));
        found.is_some_and(|entry| {
            entry.level = level;
            true
        })
    }
}

impl Entry {
    fn is_of(&self, node: &Node) -> bool {
        self.node.is_some_and(|own| core::ptr::eq(own, node))
    }
}
