//! How Linux schedules the runtime's threads, by `sched_setattr`.

use std::mem::size_of;

/// The shortest slice that Linux lets a thread have, in nanoseconds.
///
/// With it a thread begins at once what it wakes for.
const SHORTEST_SLICE: u64 = 100_000;

/// Asks for a short slice of the processor for this thread, and for timers that fire when they are
/// due.
///
/// Linux honours that from 6.12 on. A thread under a real-time policy stays as it is.
pub(crate) fn request_short_slice() {
    let _ = rustix::thread::set_current_timer_slack(Some(std::num::NonZeroU64::MIN));
    if let Some(mut attributes) = attributes() {
        attributes.sched_runtime = SHORTEST_SLICE;
        set_attributes(&attributes);
    }
}

/// Returns how this thread is scheduled; `None` under a policy that needs privileges.
fn attributes() -> Option<libc::sched_attr> {
    // SAFETY: plain numbers.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>();
    // SAFETY: the kernel writes at most as many bytes as it is told, into a local.
    let code = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    let is_ordinary = matches!(
        attributes.sched_policy.cast_signed(),
        libc::SCHED_OTHER | libc::SCHED_BATCH | libc::SCHED_IDLE
    );
    (code == 0 && is_ordinary).then_some(attributes)
}

/// Schedules this thread like this. Returns false if that is not permitted.
fn set_attributes(attributes: &libc::sched_attr) -> bool {
    // SAFETY: the kernel reads as many bytes as the size in them says.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, attributes, 0) == 0 }
}
