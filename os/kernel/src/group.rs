//! Groups of processes: what the console ends together, and what a program may end at once.

/// A group of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The number by which calls name it. Two groups of different owners may have the same.
    pub number: usize,
    /// The number of the process that may end it.
    pub owner: usize,
}
