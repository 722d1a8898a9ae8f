//! The console: a 16550 serial port. Without one, output goes through the SBI and there is no input.
//!
//! Input comes by interrupt, through the PLIC: the interrupt moves the bytes into a buffer and wakes the coroutines that read.
use crate::boot::Machine;
use crate::memory::user::{BadAddress, UserBuffer};
use crate::process::Process;
use crate::wait::{WaitMode, WaitQueue, until};
use alloc::collections::VecDeque;
use core::fmt::{self, Write};
use core::ptr::NonNull;
use core::task::Poll;
use spin::Mutex;
use uart_16550::backend::MmioBackend;
use uart_16550::spec::registers::IER;
use uart_16550::{Config, Uart16550};

/// How many bytes may have been typed ahead.
const TYPED_AHEAD: usize = 4096;

struct Console {
    port: Option<Uart16550<MmioBackend>>,
    plic: Option<Plic>,
    input: VecDeque<u8>,
}

// SAFETY: the port's registers are reached through this value alone, under the console's lock.
unsafe impl Send for Console {}

static CONSOLE: Mutex<Console> = Mutex::new(Console {
    port: None,
    plic: None,
    input: VecDeque::new(),
});
static READERS: WaitQueue = WaitQueue::new();

/// Finds the port and the interrupt controller, and switches the interrupt of incoming bytes on.
pub(crate) fn init(machine: &Machine) {
    let Some((registers, interrupt)) = &machine.serial else {
        return;
    };
    let Some(address) = NonNull::new(registers.start as *mut u8) else {
        return;
    };
    // SAFETY: the device tree says that a 16550 lies there, and it is mapped.
    let Ok(mut port) = (unsafe { Uart16550::new_mmio(address, 1) }) else {
        return;
    };
    if port
        .init(Config {
            interrupts: IER::DATA_READY,
            ..Config::default()
        })
        .is_err()
    {
        return;
    }
    let mut console = CONSOLE.lock();
    console.port = Some(port);
    console.plic = machine
        .interrupts
        .as_ref()
        .map(|registers| Plic::new(registers.start, *interrupt, machine.boot_hart));
}

/// The interrupt controller, used for one interrupt on one hart in supervisor mode.
struct Plic {
    base: usize,
    /// The supervisor mode of the hart that serves the interrupts: each hart has two contexts, the machine's first.
    context: usize,
}

impl Plic {
    fn new(base: usize, interrupt: u32, hart: usize) -> Plic {
        let plic = Plic {
            base,
            context: 2 * hart + 1,
        };
        let interrupt = interrupt as usize;
        plic.write(4 * interrupt, 1);
        plic.write(
            0x2000 + 0x80 * plic.context + 4 * (interrupt / 32),
            1 << (interrupt % 32),
        );
        plic.write(0x20_0000 + 0x1000 * plic.context, 0);
        plic
    }

    fn write(&self, offset: usize, value: u32) {
        // SAFETY: the device tree says that a PLIC lies there, and it is mapped.
        unsafe { ((self.base + offset) as *mut u32).write_volatile(value) }
    }

    /// Takes the interrupt that is pending; 0 for none.
    fn claim(&self) -> u32 {
        // SAFETY: as in `write`.
        unsafe { ((self.base + 0x20_0004 + 0x1000 * self.context) as *mut u32).read_volatile() }
    }

    fn complete(&self, interrupt: u32) {
        self.write(0x20_0004 + 0x1000 * self.context, interrupt);
    }
}

/// Serves the interrupts of devices: of the serial port, the only one that is switched on.
pub(crate) fn interrupt() {
    let mut console = CONSOLE.lock();
    let Console { port, plic, input } = &mut *console;
    let (Some(port), Some(plic)) = (port, plic) else {
        return;
    };
    loop {
        let interrupt = plic.claim();
        if interrupt == 0 {
            break;
        }
        while let Ok(byte) = port.try_receive_byte() {
            if input.len() < TYPED_AHEAD {
                input.push_back(byte);
            }
        }
        plic.complete(interrupt);
    }
    READERS.wake_all();
}

impl Console {
    fn put(&mut self, bytes: &[u8]) {
        match &mut self.port {
            Some(port) => port.send_bytes_exact(bytes),
            None => {
                for byte in bytes {
                    sbi_rt::console_write_byte(*byte);
                }
            }
        }
    }
}

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.put(text.as_bytes());
        Ok(())
    }
}

/// Reads at least one byte and at most what the buffer holds; waits until someone types.
///
/// # Errors
/// When the buffer is not the program's to write.
pub(crate) async fn read(
    process: &Process,
    mode: WaitMode,
    buffer: UserBuffer,
) -> Result<usize, BadAddress> {
    until(&READERS, mode, |turn| {
        let mut console = CONSOLE.lock();
        if console.input.is_empty() && buffer.length > 0 {
            turn.wait();
            return Poll::Pending;
        }
        let count = buffer.length.min(console.input.len());
        for at in 0..count {
            let byte = [console.input[at]];
            process.with_memory(
                |space| space.write(buffer.address.wrapping_add(at), &byte),
                Ok(()),
            )?;
        }
        console.input.drain(..count);
        Poll::Ready(Ok(count))
    })
    .await
}

/// Writes the buffer.
///
/// # Errors
/// When the buffer is not the program's to read; what lies in front of the bad address has been written.
pub(crate) fn write(process: &Process, mut buffer: UserBuffer) -> Result<usize, BadAddress> {
    let length = buffer.length;
    let mut part = [0; 256];
    while buffer.length > 0 {
        let part = &mut part[..buffer.length.min(256)];
        process.with_memory(|space| space.read(buffer.address, part), Ok(()))?;
        CONSOLE.lock().put(part);
        buffer.advance(part.len());
    }
    Ok(length)
}

/// Prints formatted text; use [`println!`](crate::println).
pub(crate) fn print(arguments: fmt::Arguments<'_>) {
    // Writing to the console cannot fail.
    let _ = CONSOLE.lock().write_fmt(arguments);
}

/// Frees the console for the last words of a kernel that failed while it was printing.
pub(crate) fn break_lock() {
    // SAFETY: only called when nothing else is going to run.
    unsafe { CONSOLE.force_unlock() };
}

/// Prints a line on the console.
#[macro_export]
macro_rules! println {
    ($($argument:tt)*) => { $crate::console::print(format_args!("{}\n", format_args!($($argument)*))) };
}
