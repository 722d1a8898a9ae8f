//! The end: switching the machine off, with an exit code for the program that started it.
use crate::machine::Machine;
use crate::stretch;
use core::sync::atomic::{AtomicUsize, Ordering};

static REGISTER: AtomicUsize = AtomicUsize::new(0);

/// Remembers the device that ends QEMU.
pub(crate) fn init(machine: &Machine) {
    if let Some(registers) = &machine.power {
        REGISTER.store(registers.start, Ordering::Relaxed);
    }
}

/// Switches the machine off.
///
/// QEMU ends with `code`, of which a process's exit status keeps the low 8 bits. A code that is not
/// 0 never looks like 0.
pub(crate) fn off(code: i32) -> ! {
    stretch::report();
    let register = REGISTER.load(Ordering::Relaxed);
    if register != 0 {
        let status = if code & 0xff == 0 && code != 0 {
            1
        } else {
            code as u32 & 0xff
        };
        let value = if code == 0 {
            0x5555
        } else {
            status << 16 | 0x3333
        };
        // SAFETY: the device tree says that the register is there, and it is mapped.
        unsafe { (register as *mut u32).write_volatile(value) };
    }
    sbi_rt::system_reset(sbi_rt::Shutdown, sbi_rt::SystemFailure);
    loop {
        riscv::asm::wfi();
    }
}
