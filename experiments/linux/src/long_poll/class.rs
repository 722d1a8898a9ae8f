//! How Linux schedules a thread of a model, by `sched_setattr`; nothing here needs privileges.

use std::mem::size_of;

/// Asks for the shortest slice that Linux gives, for this thread.
pub(crate) fn request_short_slice() {
    set(libc::SCHED_OTHER, 0, 100_000);
}

/// Lets this thread run at nice 19.
pub(crate) fn become_nice() {
    set(libc::SCHED_OTHER, 19, 0);
}

/// Lets this thread run only where no other one would.
pub(crate) fn become_idle() {
    set(libc::SCHED_IDLE, 0, 0);
}

fn set(policy: i32, nice: i32, slice: u64) {
    // SAFETY: plain numbers.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size_of::<libc::sched_attr>() as u32;
    attributes.sched_policy = policy as u32;
    attributes.sched_nice = nice;
    attributes.sched_runtime = slice;
    // SAFETY: the kernel reads as many bytes as the size in them says.
    let code = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    assert_eq!(code, 0, "a thread may become less urgent");
}
