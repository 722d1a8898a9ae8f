//! What differs between processors: the number of the exception that runs, and sleep.

#[cfg(target_arch = "arm")]
mod architecture {
    use core::arch::asm;

    /// Returns the number of the exception that runs; 0 in the main program.
    #[inline]
    pub(crate) fn context() -> u16 {
        let number: u32;
        // SAFETY: reads a special register that is readable in every mode.
        unsafe { asm!("mrs {}, ipsr", out(reg) number, options(nomem, nostack, preserves_flags)) };
        number as u16
    }

    /// Sleeps until an interrupt is pending, masked or not.
    #[inline]
    pub(crate) fn wait() {
        // SAFETY: both only wait. The barrier has stores seen before the processor sleeps.
        unsafe { asm!("dsb", "wfi", options(nostack, preserves_flags)) };
    }
}

#[cfg(target_arch = "riscv32")]
mod architecture {
    use core::arch::asm;

    /// Returns 0: the processor does not say whether it serves an interrupt. A handler must not
    /// call what is for tasks.
    #[inline]
    pub(crate) fn context() -> u16 {
        0
    }

    /// Sleeps until an interrupt is pending, masked or not.
    #[inline]
    pub(crate) fn wait() {
        // SAFETY: it only waits.
        unsafe { asm!("wfi", options(nostack, preserves_flags)) };
    }
}

/// Other processors, for documentation and lints of the host.
#[cfg(not(any(target_arch = "arm", target_arch = "riscv32")))]
mod architecture {
    pub(crate) fn context() -> u16 {
        0
    }

    pub(crate) fn wait() {
        core::hint::spin_loop();
    }
}

pub(crate) use architecture::{context, wait};

/// Returns the value, which the compiler of a Cortex-M0 then does not know.
#[inline(always)]
pub(crate) fn opaque(value: u8) -> u8 {
    #[cfg(all(target_arch = "arm", not(target_has_atomic = "32")))]
    let value = {
        let mut value = value;
        // SAFETY: nothing is executed.
        unsafe {
            core::arch::asm!(
                "/* {0} */",
                inout(reg) value,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        value
    };
    value
}
