//! The console: a 16550 serial port.
//!
//! Without one, output goes through the SBI and there is no input.
//!
//! Input comes by interrupt. The interrupt moves the bytes into a buffer and wakes the coroutines
//! that read. While that is full the port keeps what comes, and its other side waits.
use crate::device::plic;
use crate::group::Group;
use crate::lock::Mutex;
use crate::machine::Machine;
use crate::memory::user::{BadAddress, UserBuffer, UserMemory};
use crate::pace::checkpoint;
use crate::print;
use crate::stretch::{self, Work};
use crate::wait::{WaitMode, WaitQueue, until};
use alloc::collections::VecDeque;
use corank_abi::console::{BACKSPACE, DELETE, END_OF_INPUT, INTERRUPT, LITERAL, NO_MORE_INPUT};
use core::fmt::{self, Write};
use core::ptr::NonNull;
use core::task::Poll;
use uart_16550::backend::MmioBackend;
use uart_16550::spec::registers::IER;
use uart_16550::{Config, Uart16550};

/// The number of bytes that may have been typed ahead.
const TYPED_AHEAD: usize = 4096;

/// One thing that has been typed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    Byte(u8),
    /// A byte that means nothing but itself.
    Literal(u8),
    /// An end of the input.
    End,
}

impl Key {
    /// Returns what a program reads.
    fn byte(self) -> Option<u8> {
        match self {
            Self::Byte(byte) | Self::Literal(byte) => Some(byte),
            Self::End => None,
        }
    }
}

struct Console {
    port: Option<Uart16550<MmioBackend>>,
    input: VecDeque<Key>,
    /// How much of it can be read.
    ///
    /// The rest is a line that is being typed.
    complete: usize,
    /// The group of processes that has the console.
    ///
    /// If none has, bytes come as they are typed.
    foreground: Option<Group>,
    /// Set if the next byte is a literal one.
    quoted: bool,
    /// Set if nothing comes after the input that is there.
    ended: bool,
    /// Set while the buffer is full.
    ///
    /// The port's interrupt is off then, and its bytes wait.
    stalled: bool,
}

// SAFETY: the port's registers are reached through this value alone, under the console's lock.
unsafe impl Send for Console {}

static CONSOLE: Mutex<Console> = Mutex::new(Console {
    port: None,
    input: VecDeque::new(),
    complete: 0,
    foreground: None,
    quoted: false,
    ended: false,
    stalled: false,
});
static READERS: WaitQueue = WaitQueue::new();

/// Groups that were interrupted and have not been ended.
static TO_END: Mutex<heapless::Deque<Group, 8>> = Mutex::new(heapless::Deque::new());
/// Where the coroutine waits that ends those groups.
static ENDER: WaitQueue = WaitQueue::new();

/// Finds the port and switches the interrupt of incoming bytes on.
///
/// What the kernel prints goes to it from then on.
pub(crate) fn init(machine: &Machine) {
    print::print_by(self::print);
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
    let interrupted = CONSOLE.lock().receive();
    READERS.wake_all();
    end(interrupted);
}

/// Gives the console to a group of processes, or to none (see [`corank_abi::call::FOREGROUND`]).
///
/// What was typed ahead counts as if it were typed now.
pub(crate) fn set_foreground(group: Option<Group>) {
    let mut interrupted = None;
    {
        let mut console = CONSOLE.lock();
        console.foreground = group;
        console.complete = 0;
        for key in core::mem::take(&mut console.input) {
            interrupted = console.press(key).or(interrupted);
        }
        if console.ended {
            console.complete = console.input.len();
        }
    }
    READERS.wake_all();
    end(interrupted);
}

/// Leaves the end of the group that was interrupted to what waits in [`interrupted`].
///
/// Without room it has to be interrupted again.
fn end(interrupted: Option<Group>) {
    if let Some(group) = interrupted {
        let _ = TO_END.lock().push_back(group);
        ENDER.wake_all();
    }
}

/// Waits until a group has been interrupted that is to end.
pub(crate) async fn interrupted() -> Group {
    until(&ENDER, WaitMode::Block, |turn| {
        stretch::works_on(Work::Service("console"));
        let mut groups = TO_END.lock();
        groups.pop_front().map_or_else(
            || {
                turn.wait(&groups);
                Poll::Pending
            },
            Poll::Ready,
        )
    })
    .await
}

impl Console {
    /// Tests whether the buffer has no room and a read will make some.
    ///
    /// A line that fills it without an end never becomes readable. The rest of it is lost.
    fn is_full(&self) -> bool {
        self.input.len() >= TYPED_AHEAD && self.complete > 0
    }

    /// Takes what the port has, as far as there is room.
    ///
    /// Returns the group of processes that was interrupted.
    fn receive(&mut self) -> Option<Group> {
        let mut interrupted = None;
        while !self.is_full() {
            let received = self.port.as_mut().map(Uart16550::try_receive_byte);
            let Some(Ok(byte)) = received else {
                self.set_stalled(false);
                return interrupted;
            };
            interrupted = self.typed(byte).or(interrupted);
        }
        self.set_stalled(true);
        interrupted
    }

    /// Switches the port's interrupt off, or on again.
    fn set_stalled(&mut self, stalled: bool) {
        if self.stalled != stalled
            && let Some(port) = &mut self.port
        {
            self.stalled = stalled;
            if stalled {
                port.disable_interrupts(IER::DATA_READY);
            } else {
                port.enable_interrupts(IER::DATA_READY);
            }
        }
    }

    fn push(&mut self, key: Key) {
        if self.input.len() < TYPED_AHEAD {
            self.input.push_back(key);
        }
    }

    /// Takes a byte from the port.
    ///
    /// Returns the group of processes that it ends.
    fn typed(&mut self, byte: u8) -> Option<Group> {
        self.ended = false;
        if core::mem::take(&mut self.quoted) {
            return self.press(Key::Literal(byte));
        }
        match byte {
            LITERAL => self.quoted = true,
            NO_MORE_INPUT => {
                self.ended = true;
                self.complete = self.input.len();
            }
            END_OF_INPUT => return self.press(Key::End),
            _ => return self.press(Key::Byte(byte)),
        }
        None
    }

    /// Takes what is typed.
    ///
    /// Returns the group of processes that it ends.
    fn press(&mut self, key: Key) -> Option<Group> {
        if self.foreground.is_none() {
            self.push(key);
            self.complete = self.input.len();
        } else if key == Key::Byte(INTERRUPT) {
            self.put(b"^C\n");
            self.input.clear();
            self.complete = 0;
            return self.foreground;
        } else {
            self.edit(key);
        }
        None
    }

    /// Takes what is typed into the line, and shows it.
    fn edit(&mut self, key: Key) {
        match key {
            Key::Byte(b'\r' | b'\n') => {
                self.push(Key::Byte(b'\n'));
                self.complete = self.input.len();
                self.put(b"\n");
            }
            Key::End => {
                self.push(Key::End);
                self.complete = self.input.len();
            }
            Key::Byte(BACKSPACE | DELETE) => {
                if self.input.len() > self.complete && self.input.pop_back().is_some() {
                    self.put(b"\x08 \x08");
                }
            }
            Key::Byte(byte) | Key::Literal(byte) => {
                self.push(key);
                self.put(&[byte]);
            }
        }
    }

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

/// Reads at least one byte and at most what the buffer holds.
///
/// Waits until something is typed. 0 bytes mean that the input has ended.
///
/// # Errors
/// When the buffer is not the program's to write.
pub(crate) async fn read(
    memory: &UserMemory,
    mode: WaitMode,
    buffer: UserBuffer,
) -> Result<usize, BadAddress> {
    let mut interrupted = None;
    let read = until(&READERS, mode, |turn| {
        let mut console = CONSOLE.lock();
        if console.complete == 0 && buffer.length > 0 {
            if console.ended {
                return Poll::Ready(Ok(0));
            }
            turn.wait(&console);
            return Poll::Pending;
        }
        let most = buffer.length.min(console.complete);
        let typed = console.input.iter().take(most).map_while(|key| key.byte());
        let mut count = 0;
        for byte in typed {
            let address = buffer.address.wrapping_add(count);
            memory.with_space(|space| space.write(address, &[byte]), Ok(()))?;
            count += 1;
        }
        // An end of the input is read alone.
        let taken = if most > 0 { count.max(1) } else { 0 };
        console.input.drain(..taken);
        console.complete -= taken;
        if console.stalled {
            interrupted = console.receive();
        }
        Poll::Ready(Ok(count))
    })
    .await;
    end(interrupted);
    read
}

/// The number of bytes that are written in one piece of work.
///
/// A port that is ready at once takes some thousand instructions for them.
const PIECE: usize = 256;

/// Writes the buffer if that is one piece of work.
///
/// Returns `None` if it is longer.
///
/// # Errors
/// As [`write()`].
pub(crate) fn write_at_once(
    memory: &UserMemory,
    mut buffer: UserBuffer,
) -> Option<Result<usize, BadAddress>> {
    let length = buffer.length;
    (length <= PIECE).then(|| write_some(memory, &mut buffer).map(|()| length))
}

/// Writes the buffer.
///
/// Other writers may write between two pieces of it.
///
/// # Errors
/// When the buffer is not the program's to read; what lies in front of the bad address has been
/// written.
pub(crate) async fn write(
    memory: &UserMemory,
    buffer: &mut UserBuffer,
) -> Result<usize, BadAddress> {
    let length = buffer.length;
    while buffer.length > 0 {
        write_some(memory, buffer)?;
        checkpoint().await;
    }
    Ok(length)
}

/// Writes one piece.
fn write_some(memory: &UserMemory, buffer: &mut UserBuffer) -> Result<(), BadAddress> {
    let mut part = [0; PIECE];
    let part = &mut part[..buffer.length.min(PIECE)];
    memory.with_space(|space| space.read(buffer.address, part), Ok(()))?;
    CONSOLE.lock().put(part);
    buffer.advance(part.len());
    Ok(())
}

fn print(arguments: fmt::Arguments<'_>) {
    // Writing to the console cannot fail.
    let _ = CONSOLE.lock().write_fmt(arguments);
}

/// Frees the console for the last words of a kernel that failed while it was printing.
pub(crate) fn break_lock() {
    // SAFETY: only called when nothing else is going to run.
    unsafe { CONSOLE.force_unlock() };
}
