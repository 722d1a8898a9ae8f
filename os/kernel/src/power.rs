//! The end: switching the machine off, with an exit code for the program that started it.
use crate::boot::Machine;
use crate::{fs, hart, net, println, process, stretch};
use corank::Priority;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicUsize, Ordering};

/// QEMU's exit status after a panic of the kernel.
const PANIC: i32 = 101;

static REGISTER: AtomicUsize = AtomicUsize::new(0);

/// Remembers the device that ends QEMU.
pub(crate) fn init(machine: &Machine) {
    if let Some(registers) = &machine.power {
        REGISTER.store(registers.start, Ordering::Relaxed);
    }
}

/// Ends all processes, lets what they have sent go out, and writes what the disk does not have yet.
///
/// Then switches the machine off; see [`off`].
pub(crate) fn shut_down(code: i32) {
    let ending = hart::executor().spawn(Priority::MOST_URGENT, async move {
        process::end_all().await;
        net::shut_down().await;
        fs::shut_down().await;
        off(code)
    });
    if ending.is_err() {
        println!("corank: no memory to write the disk");
        off(code);
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

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    // The holder of the console's lock is this hart, or is of no importance any more.
    crate::console::break_lock();
    crate::println!("corank: kernel {info}");
    off(PANIC)
}
