//! What is known of one coroutine.

use crate::format::Id;
use std::fmt;

/// The state of a coroutine (S1), as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not known: the beginning was lost.
    Unknown,
    Ready,
    /// Polled by the worker of this ring.
    Running(usize),
    Blocked,
    /// Preempted (S8).
    WithStack,
    Exited,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "not known",
            Self::Ready => "ready",
            Self::Running(_) => "running",
            Self::Blocked => "blocked",
            Self::WithStack => "preempted",
            Self::Exited => "exited",
        })
    }
}

#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) state: State,
    /// `None` if its creation was lost, and with it the waits that it takes part in.
    pub(super) base: Option<u8>,
    /// `None` if no step has shown it yet.
    pub(super) level: Option<u8>,
    /// Its place in the queue of its level, if it is known.
    pub(super) stamp: Option<u64>,
    /// It came to that place by a new level (R2, I3).
    pub(super) has_moved: bool,
    /// A wake came during the present poll (W3).
    pub(super) woken: bool,
    /// The coroutines that donate to it, and those to which it donates, once for each wait.
    pub(super) lenders: Vec<Id>,
    pub(super) borrowers: Vec<Id>,
}

impl Task {
    pub(super) fn new(base: Option<u8>, level: Option<u8>) -> Self {
        Self {
            state: State::Ready,
            base,
            level,
            stamp: None,
            has_moved: false,
            woken: false,
            lenders: Vec::new(),
            borrowers: Vec::new(),
        }
    }
}
