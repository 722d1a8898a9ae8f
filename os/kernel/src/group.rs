//! Groups of processes: processes that the console or a program may end together.

/// A group of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The number by which calls name it. Two groups of different owners may have the same.
    pub number: usize,
    /// The number of the process that may end it.
    pub owner: usize,
}
