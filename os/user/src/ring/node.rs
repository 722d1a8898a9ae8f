//! What is known of a call that is under way, and where that lies.
//!
//! Each thread's rings have a pool of nodes that never move: a call takes one when it is submitted
//! and gives it back when it is over. The node's address is the key by which the kernel knows the
//! call, so that a completion finds its call in one step.
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::pin::Pin;

use corank::{Priority, PriorityListener};

use super::shared::Ring;

/// How many nodes are made at a time.
const CHUNK: usize = 32;

/// One call that is under way.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Node {
    /// The listener that waits. First, so that it has the address of the node.
    listener: PriorityListener,
    /// The kernel's result, once it is done.
    result: Cell<Option<isize>>,
    /// The key that the kernel knows.
    pub(super) key: Cell<u64>,
    /// Number of its entry in the submission ring, the last of several if the call is repeated.
    pub(super) number: Cell<u32>,
    /// The level that the kernel knows.
    pub(super) level: Cell<Priority>,
    /// Of which rings.
    epoch: Cell<u32>,
    /// Next free node.
    next: Cell<Option<&'static Node>>,
}

impl Node {
    fn new() -> Self {
        Self {
            // SAFETY: `Ring::follow` writes to the ring or enters the kernel.
            listener: unsafe { PriorityListener::new(level_changed) },
            result: Cell::new(None),
            key: Cell::new(0),
            number: Cell::new(0),
            level: Cell::new(Priority::DEFAULT),
            epoch: Cell::new(0),
            next: Cell::new(None),
        }
    }

    /// Returns the node at this address.
    ///
    /// # Safety
    /// It is that of a node.
    pub(super) unsafe fn at(address: usize) -> &'static Self {
        // SAFETY: nodes stay while a call has them, and the pool has exposed their addresses.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    pub(super) fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    pub(super) fn listener(&'static self) -> Pin<&'static PriorityListener> {
        Pin::static_ref(&self.listener)
    }

    /// Returns the number that distinguishes its rings from those of the process that this one was
    /// forked from.
    pub(super) fn epoch(&self) -> u32 {
        self.epoch.get()
    }

    /// Returns the level that the waiter has now.
    #[inline]
    pub(super) fn live_level(&self) -> Priority {
        self.listener.level()
    }

    /// Returns what the kernel has returned, once it has.
    #[inline]
    pub(super) fn result(&self) -> Option<isize> {
        self.result.get()
    }

    /// Stores the result when the kernel is done with the call, and wakes the waiter last.
    pub(super) fn complete(&self, result: isize) {
        self.result.set(Some(result));
        self.listener.wake();
    }
}

/// Tells the kernel the new level of the coroutine that waits.
fn level_changed(listener: &PriorityListener, level: Priority) {
    // SAFETY: every listener with this function is the first field of a node.
    let node = unsafe { Node::at(core::ptr::from_ref(listener).addr()) };
    if let Some(ring) = Ring::of(node) {
        ring.follow(node, level);
    }
}

/// The nodes that no call has.
#[derive(Debug)]
pub(super) struct Pool {
    free: Cell<Option<&'static Node>>,
    /// All nodes, free or not.
    chunks: RefCell<Vec<*mut [Node]>>,
}

impl Pool {
    pub(super) const fn new() -> Self {
        Self {
            free: Cell::new(None),
            chunks: RefCell::new(Vec::new()),
        }
    }

    /// Returns how many nodes calls have.
    pub(super) fn taken(&self) -> usize {
        let free = core::iter::successors(self.free.get(), |node| node.next.get());
        self.chunks.borrow().len() * CHUNK - free.count()
    }

    /// Takes a node for a call under its own address as key.
    #[inline]
    pub(super) fn take(&self, epoch: u32) -> &'static Node {
        let node = self.free.get().unwrap_or_else(|| self.grow());
        self.free.set(node.next.get());
        node.result.set(None);
        node.epoch.set(epoch);
        node.key.set(node.address() as u64);
        node
    }

    /// Takes a node back: its call is over, and the kernel doesn't know the key any more.
    #[inline]
    pub(super) fn give(&self, node: &'static Node) {
        node.listener.end();
        node.next.set(self.free.replace(Some(node)));
    }

    #[cold]
    fn grow(&self) -> &'static Node {
        let chunk: Box<[Node]> = (0..CHUNK).map(|_| Node::new()).collect();
        let chunk = Box::into_raw(chunk);
        self.chunks.borrow_mut().push(chunk);
        // SAFETY: it stays until the pool goes.
        let chunk: &'static [Node] = unsafe { &*chunk };
        // `Node::at` makes references of addresses again.
        let _ = chunk.as_ptr().expose_provenance();
        for pair in chunk.windows(2) {
            pair[0].next.set(Some(&pair[1]));
        }
        &chunk[0]
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // A call with a leaked future keeps its node, and all keep theirs then.
        if self.taken() == 0 {
            for chunk in self.chunks.get_mut().drain(..) {
                // SAFETY: made by `grow`; no call has a node.
                drop(unsafe { Box::from_raw(chunk) });
            }
        }
    }
}
