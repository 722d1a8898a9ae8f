//! Rights of processes: what a process may do beyond itself and its descendants.
//!
//! A process may end itself and its descendants ([`KILL`](crate::call::KILL)) and put them into
//! groups ([`GROUP_SET`](crate::call::GROUP_SET)). It may take levels and rights from itself and
//! its children ([`GRANT`](crate::call::GRANT), [`RESTRICT`](crate::call::RESTRICT)). When
//! its parent has ended, a process is a child of the first process. The kernel goes back 1024
//! generations to find an ancestor.
//!
//! The first process has all rights. Children have at first what their parent has; nothing ever
//! comes back. A program that another process runs (`exec`) has the rights of that process.
//!
//! What needs no right: reading the list of processes and the state of the system, files (which
//! have no owners), ports of the network, and the console's descriptors, for a process that has
//! them open.

/// The machine as a whole: the process may act on any process, as the first process may. So it may
/// switch the machine off by ending the first process. It may limit the harts
/// ([`HARTS_LIMIT`](crate::call::HARTS_LIMIT)), hold them up ([`QUIESCE`](crate::call::QUIESCE))
/// and ask for faults ([`FAULT`](crate::call::FAULT)).
///
/// A process from which levels are taken ([`GRANT`](crate::call::GRANT)) loses this right.
pub const MACHINE: usize = 1 << 0;
/// The console: the process may say which of its groups has it
/// ([`FOREGROUND`](crate::call::FOREGROUND)).
pub const CONSOLE: usize = 1 << 1;
/// All of them.
pub const ALL: usize = MACHINE | CONSOLE;
