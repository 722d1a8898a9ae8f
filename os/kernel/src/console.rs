//! The console: a 16550 serial port. Without one, output goes through the SBI and there is no input.
//!
//! Input comes by interrupt: the interrupt moves the bytes into a buffer and wakes the coroutines that read.
use crate::boot::Machine;
use crate::device::plic;
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
    input: VecDeque<u8>,
}

// SAFETY: the port's registers are reached through this value alone, under the console's lock.
unsafe impl Send for Console {}

static CONSOLE: Mutex<Console> = Mutex::new(Console {
    port: None,
    input: VecDeque::new(),
});
static READERS: WaitQueue = WaitQueue::new();

/// Finds the port and switches the interrupt of incoming bytes on.
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
    CONSOLE.lock().port = Some(port);
    plic::enable(*interrupt, self::interrupt);
}

/// Moves the bytes that have come into the buffer.
fn interrupt() {
    let mut console = CONSOLE.lock();
    let Console { port, input } = &mut *console;
    while let Some(byte) = port.as_mut().and_then(|port| port.try_receive_byte().ok()) {
        if input.len() < TYPED_AHEAD {
            input.push_back(byte);
        }
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
