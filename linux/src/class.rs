//! How Linux schedules the runtime's threads, by `sched_setattr`.

use std::mem::size_of;

/// The shortest slice that Linux lets a thread have, in nanoseconds.
///
/// With it a thread begins at once what it wakes for.
const SHORTEST_SLICE: u64 = 100_000;

/// How Linux schedules threads for work that is not urgent; none of these needs privileges.
///
/// See [`Builder::bulk`](crate::Builder::bulk).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Class {
    /// `SCHED_IDLE`: the threads run where no other thread would, of this process or another.
    Idle,
    /// `SCHED_BATCH`: the threads have their share, but interrupt nothing when they wake.
    Batch,
    /// This much nicer than other threads, at most 19.
    Nice(u8),
}

impl Class {
    /// Puts this thread into the class, for good. Without effect under a real-time policy.
    pub(crate) fn enter(self) {
        let Some(mut attributes) = attributes() else {
            return;
        };
        match self {
            Self::Idle => attributes.sched_policy = libc::SCHED_IDLE.cast_unsigned(),
            Self::Batch => attributes.sched_policy = libc::SCHED_BATCH.cast_unsigned(),
            Self::Nice(nice) => {
                let nicer = attributes.sched_nice.saturating_add(nice.into());
                attributes.sched_nice = nicer.min(NICEST);
            }
        }
        // Linux reports the slice that it has chosen, which is no request.
        attributes.sched_runtime = 0;
        set_attributes(&attributes);
    }
}

/// The greatest niceness.
const NICEST: i32 = 19;

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
