//! A kernel without injected faults.
use corank_abi::call::NOT_IMPLEMENTED;

/// Faults of one process: none.
#[derive(Debug)]
pub(crate) struct OwnFaults;

impl OwnFaults {
    /// Returns no faults.
    pub(crate) const fn new() -> OwnFaults {
        OwnFaults
    }

    /// Tests whether the process ends before this step: never.
    #[inline(always)]
    pub(crate) fn end_is_due(&self) -> bool {
        false
    }

    /// Waits as a slow hart would: not at all.
    #[inline(always)]
    pub(crate) fn delay_end(&self, _is_over: impl Fn() -> bool) {}
}

/// Serves the call `fault`, which does not exist.
#[inline(always)]
pub(crate) fn serve(
    _own: &OwnFaults,
    _pid: usize,
    _is_allowed: bool,
    _arguments: [usize; 3],
) -> isize {
    NOT_IMPLEMENTED
}

/// Tests whether the next allocation is to fail: never.
#[inline(always)]
pub(crate) fn fails_allocation() -> bool {
    false
}

/// Tests whether the heap counts as full, but for its reserve: never.
#[inline(always)]
pub(crate) fn fills_heap() -> bool {
    false
}

/// Tests whether a frame of this length that has come is to be damaged: never.
#[inline(always)]
pub(crate) fn damages_frame(_length: usize) -> bool {
    false
}

/// Tests whether a TCP segment between these ports is to be lost: never.
#[inline(always)]
pub(crate) fn loses_segment(_ports: [u16; 2]) -> bool {
    false
}

/// Ends the faults that a process has asked for.
#[inline(always)]
pub(crate) fn forget(_pid: usize) {}
