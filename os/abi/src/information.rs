//! What the kernel reports of the processes and of itself, for `ps`, `top` and tests that count.

/// The longest name that [`ProcessRecord::name`] has room for.
pub const NAME_SIZE: usize = 32;

/// [`ProcessRecord::state`]: it has threads that run or wait.
pub const RUNNING: u64 = 1;
/// It has been ended, and its threads are not gone yet.
pub const ENDING: u64 = 2;
/// It has ended, and its parent has not waited for it.
pub const ENDED: u64 = 3;

/// One process.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessRecord {
    /// Its number.
    pub pid: u64,
    /// The number of its parent; 0 for the first process.
    pub parent: u64,
    /// The number of the group that it belongs to.
    pub group: u64,
    /// One of [`RUNNING`], [`ENDING`], [`ENDED`].
    pub state: u64,
    /// The exit code, once it is ending.
    pub exit_code: i64,
    /// The level at which its threads run.
    pub level: u64,
    /// The levels that it may claim.
    pub granted: u64,
    /// What it publishes: levels with ready coroutines
    /// ([`ProcessPage::ready`](crate::page::ProcessPage)).
    pub ready: u64,
    /// The level of the coroutine that runs, as one bit.
    pub running: u64,
    /// Levels that something has arrived for.
    pub arriving: u64,
    /// Executors that run in it, as it publishes.
    pub executors: u64,
    /// The number of its coroutines, as it published with its last entry into the kernel.
    pub coroutines: u64,
    /// Stacks that hold a preempted coroutine, as it publishes.
    pub stacks: u64,
    /// Threads that have not ended.
    pub threads: u64,
    /// Asynchronous calls that the kernel has accepted and not completed.
    pub calls: u64,
    /// Microseconds for which harts have been in user mode for it. They overlap where several
    /// threads run at once.
    pub time: u64,
    /// Open files.
    pub files: u64,
    /// Pages of memory of its own, page tables not counted.
    pub pages: u64,
    /// The name of its program, cut off, padded with zeros.
    pub name: [u8; NAME_SIZE],
}

/// The system as a whole.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SystemStatus {
    /// Milliseconds since the machine was switched on.
    pub uptime: u64,
    /// Processes that have not ended.
    pub processes: u64,
    /// Coroutines of the kernel that live.
    pub coroutines: u64,
    /// Levels at which a coroutine of the kernel is ready.
    pub ready: u64,
    /// Stacks of the kernel in use.
    pub stacks: u64,
    /// Frames of memory for programs, of 4 KiB each.
    pub frames: u64,
    /// Those of them that are free.
    pub frames_free: u64,
    /// Bytes of the kernel's heap.
    pub heap: u64,
    /// Bytes of it that are in use.
    pub heap_used: u64,
    /// Requests to the disk that are done.
    pub disk_requests: u64,
    /// The largest number of requests that were under way at once.
    pub disk_most_under_way: u64,
    /// Bytes that the kernel keeps of a read that waits without a coroutine.
    pub waiting_read: u64,
}
