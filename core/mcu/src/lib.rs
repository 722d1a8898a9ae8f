//! What both firmwares need: the context slot, the clock that counts instructions, a way out of
//! QEMU.

#![no_std]

#[cfg(not(feature = "size"))]
pub mod harness;

use core::future::poll_fn;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicPtr, Ordering};
use core::task::Poll;

use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_semihosting::debug::{self, EXIT_FAILURE, EXIT_SUCCESS};
#[cfg(not(feature = "size"))]
use cortex_m_semihosting::hprintln;

/// Which executor runs on the core. Thread mode only: an interrupt handler reads null.
static SLOT: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

struct Slot;

// SAFETY: there is one core, and interrupt handlers read null.
unsafe impl corank::ContextSlot for Slot {
    fn get() -> *const () {
        if in_interrupt() {
            core::ptr::null()
        } else {
            SLOT.load(Ordering::Relaxed).cast_const()
        }
    }

    fn set(context: *const ()) {
        SLOT.store(context.cast_mut(), Ordering::Relaxed);
    }
}

corank::context_slot!(Slot);

/// Tests whether an exception handler runs: the number of the active exception is not 0.
#[inline]
pub fn in_interrupt() -> bool {
    let exception: u32;
    // SAFETY: reads a special register that is readable in every mode, and touches nothing else.
    unsafe {
        core::arch::asm!("mrs {}, ipsr", out(reg) exception, options(nomem, nostack, preserves_flags))
    };
    exception != 0
}

/// The clock of QEMU's machine: netduinoplus2, or lm3s6965evb for a Cortex-M0.
pub const CORE_HZ: u32 = if cfg!(target_has_atomic = "32") {
    168_000_000
} else {
    12_500_000
};

/// Does nothing. embassy calls it when its queue was empty, and its executors here are polled
/// anyway.
#[cfg(all(feature = "embassy-executor", not(feature = "on-embassy")))]
#[unsafe(export_name = "__pender")]
fn pender(_context: *mut ()) {}

/// Yields as corank's `yield_now` does, for tasks of embassy-executor.
pub async fn embassy_yield() {
    let mut yielded = false;
    poll_fn(|cx| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The highest value of the 24-bit SysTick counter.
const TOP: u32 = 0x00ff_ffff;

/// SysTick as a counter of instructions.
///
/// Under `-icount shift=0` QEMU lets each instruction take one nanosecond. How many that is for
/// each tick depends on the machine, and is measured first. Instructions are not cycles: exception
/// entry and exit, flash wait states and the pipeline are not in them.
#[allow(missing_debug_implementations, reason = "the timer has none")]
pub struct InstructionCounter {
    /// Ticks of a million instructions.
    per_million: u32,
}

impl InstructionCounter {
    /// Takes the timer over.
    pub fn new(mut timer: SYST) -> Self {
        timer.disable_interrupt();
        timer.set_clock_source(SystClkSource::Core);
        timer.set_reload(TOP);
        timer.clear_current();
        timer.enable_counter();
        let per_million = ticks(|| {
            // SAFETY: 500,000 rounds of two instructions, which touch nothing but a register.
            unsafe {
                core::arch::asm!(
                    "2:",
                    "subs {rounds}, #1",
                    "bne 2b",
                    rounds = inout(reg) 500_000 => _,
                    options(nomem, nostack)
                );
            }
        });
        Self { per_million }
    }

    /// Returns how many instructions `run` takes, to within a tick; at most 99 million.
    pub fn count(&mut self, run: impl FnOnce()) -> u32 {
        (u64::from(ticks(run)) * 1_000_000 / u64::from(self.per_million)) as u32
    }
}

/// Returns how many ticks `run` takes.
fn ticks(run: impl FnOnce()) -> u32 {
    let before = SYST::get_current();
    run();
    before.wrapping_sub(SYST::get_current()) & TOP
}

/// Ends QEMU, with 0 or 1.
pub fn exit(success: bool) -> ! {
    debug::exit(if success { EXIT_SUCCESS } else { EXIT_FAILURE });
    loop {
        cortex_m::asm::wfi();
    }
}

#[cfg(feature = "size")]
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        cortex_m::asm::wfi();
    }
}

#[cfg(not(feature = "size"))]
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    hprintln!("FAILED: {}", info);
    exit(false)
}
