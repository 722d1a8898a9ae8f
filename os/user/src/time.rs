//! Time: the processor's `time` register, which needs no system call to read.
use core::sync::atomic::Ordering;
use core::time::Duration;

use corank_abi::call;

use crate::raw::number_call;

/// Returns ticks of the `time` register since boot.
///
/// All harts and processes see the same clock.
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: reads a counter that the kernel lets programs read.
    unsafe {
        core::arch::asm!("rdtime {}", out(reg) ticks, options(nomem, nostack, preserves_flags))
    };
    ticks
}

/// Returns ticks per second.
#[must_use]
pub fn frequency() -> u64 {
    crate::page::system().timebase_hz.load(Ordering::Relaxed)
}

/// Returns how long this many ticks take.
#[must_use]
pub fn duration(ticks: u64) -> Duration {
    Duration::from_nanos_u128(u128::from(ticks) * 1_000_000_000 / u128::from(frequency()))
}

/// Returns how many ticks this takes, rounded up.
#[must_use]
pub fn ticks_in(duration: Duration) -> u64 {
    let ticks = (duration.as_nanos() * u128::from(frequency())).div_ceil(1_000_000_000);
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

/// Returns nanoseconds since boot: the clock of this process's executors, so of [`corank::time`].
#[must_use]
pub fn nanoseconds() -> u64 {
    let (ticks, frequency) = (ticks(), frequency());
    ticks / frequency * 1_000_000_000 + ticks % frequency * 1_000_000_000 / frequency
}

/// Returns the first tick at or after this many [`nanoseconds`].
pub(crate) fn ticks_at(nanoseconds: u64) -> u64 {
    ticks_in(Duration::from_nanos(nanoseconds))
}

/// Lets the calling thread sleep at least this long (in whole milliseconds, rounded up).
pub fn sleep(duration: Duration) {
    let milliseconds =
        usize::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(usize::MAX);
    let _ = crate::calls::sleep(milliseconds);
}

/// Returns milliseconds since boot, by the kernel's account.
#[must_use]
pub fn uptime_milliseconds() -> usize {
    number_call(call::GET_TIME, [0; 3]).unwrap_or(0)
}

/// Returns seconds since 1970, UTC; `None` on a machine without a calendar.
#[must_use]
pub fn calendar() -> Option<u64> {
    let seconds = number_call(call::CALENDAR, [0; 3]).ok()?;
    Some(seconds as u64)
}
