//! QEMU's `virt` with 32 bits: start, masking, and semihosting.

use core::arch::{asm, global_asm};
use core::fmt;

global_asm!(
    ".section .init, \"ax\"",
    ".global _start",
    "_start: la sp, _stack_start",
    "j main"
);

struct Mask;
critical_section::set_impl!(Mask);

/// The bit of `mstatus` that lets interrupts come.
const MIE: usize = 1 << 3;

// SAFETY: there is one hart, and its interrupts are masked.
unsafe impl critical_section::Impl for Mask {
    unsafe fn acquire() -> bool {
        let before: usize;
        // SAFETY: masks interrupts.
        unsafe { asm!("csrrci {}, mstatus, 8", out(reg) before) };
        before & MIE != 0
    }

    unsafe fn release(were_on: bool) {
        if were_on {
            // SAFETY: interrupts were on before.
            unsafe { asm!("csrsi mstatus, 8") };
        }
    }
}

/// Asks the debugger, which is QEMU.
fn semihosting(operation: usize, argument: usize) {
    // SAFETY: the three instructions that QEMU takes for a call; it writes `a0` alone.
    unsafe {
        asm!(
            ".balign 16",
            ".option push",
            ".option norvc",
            "slli zero, zero, 0x1f",
            "ebreak",
            "srai zero, zero, 7",
            ".option pop",
            inout("a0") operation => _,
            in("a1") argument,
        );
    }
}

/// The debugger's channel.
pub(crate) struct Output;

impl fmt::Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        const WRITE_CHARACTER: usize = 3;
        for byte in text.bytes() {
            semihosting(WRITE_CHARACTER, (&raw const byte) as usize);
        }
        Ok(())
    }
}

macro_rules! println {
    ($($argument:tt)*) => {{
        use core::fmt::Write;
        let _ = writeln!($crate::board::Output, $($argument)*);
    }};
}
pub(crate) use println;

/// Ends QEMU, with 0 or 1.
pub(crate) fn exit(success: bool) -> ! {
    const EXIT_EXTENDED: usize = 0x20;
    const APPLICATION_EXIT: usize = 0x2_0026;
    let reason = [APPLICATION_EXIT, usize::from(!success)];
    semihosting(EXIT_EXTENDED, (&raw const reason) as usize);
    loop {
        // SAFETY: it only waits.
        unsafe { asm!("wfi") };
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    println!("FAILED: {}", info);
    exit(false)
}
