//! The date: the machine's Goldfish real-time clock.
use crate::machine::Machine;
use core::sync::atomic::{AtomicUsize, Ordering};

static REGISTERS: AtomicUsize = AtomicUsize::new(0);

/// Finds the clock.
pub(crate) fn init(machine: &Machine) {
    if let Some(registers) = &machine.calendar {
        REGISTERS.store(registers.start, Ordering::Relaxed);
    }
}

/// Returns the seconds since 1970, UTC.
///
/// Returns `None` without such a clock.
pub(crate) fn seconds() -> Option<u64> {
    let registers = REGISTERS.load(Ordering::Relaxed);
    if registers == 0 {
        return None;
    }
    // SAFETY: the device tree says that the clock lies there, and it is mapped. Reading the low
    // word keeps the high one for the next read.
    let (low, high) = unsafe {
        let low = (registers as *const u32).read_volatile();
        (low, ((registers + 4) as *const u32).read_volatile())
    };
    Some((u64::from(high) << 32 | u64::from(low)) / 1_000_000_000)
}
