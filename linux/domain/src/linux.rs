//! The settings of a thread in Linux's scheduler, by `sched_setattr`.

use std::mem::size_of;
use std::num::NonZeroU64;

/// A thread of this process.
pub(crate) type ThreadId = libc::pid_t;

/// Policies that need no privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Other,
    Batch,
    Idle,
}

/// How Linux schedules a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) policy: Policy,
    /// -20 to 19.
    pub(crate) nice: i32,
    /// The time that it asks to run at a time, in nanoseconds; 0 is Linux's choice.
    ///
    /// Kernels before 6.12 do not have this setting.
    pub(crate) slice: u64,
}

pub(crate) fn own_thread() -> ThreadId {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Returns how the calling thread is scheduled; `None` under a policy that needs privileges.
pub(crate) fn own_settings() -> Option<Settings> {
    let mut attributes = attributes(0);
    // SAFETY: the kernel writes at most as many bytes as the size says, into a local.
    let code = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            0,
            &raw mut attributes,
            size_of::<libc::sched_attr>(),
            0,
        )
    };
    let policy = match attributes.sched_policy as i32 {
        libc::SCHED_OTHER => Policy::Other,
        libc::SCHED_BATCH => Policy::Batch,
        libc::SCHED_IDLE => Policy::Idle,
        _ => return None,
    };
    // Linux reports the slice in use. Any but the shortest is its own choice, and not a request.
    let slice = if attributes.sched_runtime == 100_000 {
        attributes.sched_runtime
    } else {
        0
    };
    (code == 0).then_some(Settings {
        policy,
        nice: attributes.sched_nice,
        slice,
    })
}

/// Schedules a thread like this. Returns false if that is not permitted, or if the thread has gone.
pub(crate) fn set(thread: ThreadId, settings: Settings) -> bool {
    let policy = match settings.policy {
        Policy::Other => libc::SCHED_OTHER,
        Policy::Batch => libc::SCHED_BATCH,
        Policy::Idle => libc::SCHED_IDLE,
    };
    let mut attributes = attributes(policy);
    attributes.sched_nice = settings.nice;
    attributes.sched_runtime = settings.slice;
    set_attributes(thread, &attributes)
}

/// Schedules a thread at the lowest real-time priority. Returns false if that is not permitted.
pub(crate) fn set_real_time(thread: ThreadId) -> bool {
    let mut attributes = attributes(libc::SCHED_FIFO);
    attributes.sched_priority = 1;
    set_attributes(thread, &attributes)
}

/// The delay by which Linux may let a thread's timers fire late, so that it wakes for several at
/// once.
///
/// In nanoseconds, mostly 50,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slack(NonZeroU64);

impl Slack {
    /// The least slack, which is as good as none.
    pub(crate) const LEAST: Self = Self(NonZeroU64::MIN);

    /// Sets the calling thread's slack, and returns the one before.
    ///
    /// Returns `None` where Linux refuses.
    pub(crate) fn set(self) -> Option<Self> {
        let before = rustix::thread::current_timer_slack().ok()?;
        rustix::thread::set_current_timer_slack(Some(self.0)).ok()?;
        NonZeroU64::new(before).map(Self)
    }
}

/// Tests whether a thread that has become this nice may become as it was again.
///
/// A thread tries it to find out.
pub(crate) fn may_return_from_nice(nice: i32) -> bool {
    let attempt = || {
        own_settings().is_some_and(|base| {
            let nicest = Settings { nice, ..base };
            set(own_thread(), nicest) && set(own_thread(), base)
        })
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, attempt);
        thread.is_ok_and(|thread| thread.join().unwrap_or(false))
    })
}

fn attributes(policy: i32) -> libc::sched_attr {
    // SAFETY: plain numbers.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size_of::<libc::sched_attr>() as u32;
    attributes.sched_policy = policy as u32;
    attributes
}

fn set_attributes(thread: ThreadId, attributes: &libc::sched_attr) -> bool {
    // SAFETY: the kernel reads as many bytes as the size in them says.
    unsafe { libc::syscall(libc::SYS_sched_setattr, thread, attributes, 0) == 0 }
}
