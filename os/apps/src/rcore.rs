//! The runtime of a program for rCore-Tutorial-v3 (chapter 8): an entry, raw system calls by their
//! numbers, `println!`.
//!
//! Nothing here comes from `corank-user` or `corank-abi`. These programs test that the kernel keeps
//! that system's interface, so they know it from nowhere else. They have no heap and no shared
//! pages.
#![allow(dead_code, reason = "each program uses a part of it")]

use core::fmt::{self, Write};

const SYSCALL_DUP: usize = 24;
const SYSCALL_CONNECT: usize = 29;
const SYSCALL_LISTEN: usize = 30;
const SYSCALL_ACCEPT: usize = 31;
const SYSCALL_OPEN: usize = 56;
const SYSCALL_CLOSE: usize = 57;
const SYSCALL_PIPE: usize = 59;
const SYSCALL_READ: usize = 63;
const SYSCALL_WRITE: usize = 64;
const SYSCALL_EXIT: usize = 93;
const SYSCALL_SLEEP: usize = 101;
const SYSCALL_YIELD: usize = 124;
const SYSCALL_KILL: usize = 129;
const SYSCALL_GET_TIME: usize = 169;
const SYSCALL_GETPID: usize = 172;
const SYSCALL_FORK: usize = 220;
const SYSCALL_EXEC: usize = 221;
const SYSCALL_WAITPID: usize = 260;
const SYSCALL_THREAD_CREATE: usize = 1000;
const SYSCALL_GETTID: usize = 1001;
const SYSCALL_WAITTID: usize = 1002;
const SYSCALL_MUTEX_CREATE: usize = 1010;
const SYSCALL_MUTEX_LOCK: usize = 1011;
const SYSCALL_MUTEX_UNLOCK: usize = 1012;
const SYSCALL_SEMAPHORE_CREATE: usize = 1020;
const SYSCALL_SEMAPHORE_UP: usize = 1021;
const SYSCALL_SEMAPHORE_DOWN: usize = 1022;
const SYSCALL_CONDVAR_CREATE: usize = 1030;
const SYSCALL_CONDVAR_SIGNAL: usize = 1031;
const SYSCALL_CONDVAR_WAIT: usize = 1032;

/// A mask, as in chapter 8.
pub(crate) const SIGABRT: i32 = 1 << 6;

fn syscall(id: usize, args: [usize; 3]) -> isize {
    let ret: isize;
    // SAFETY: the callers below pass pointers to memory of their own that is valid for the call.
    unsafe {
        core::arch::asm!(
            "ecall",
            inlateout("x10") args[0] as isize => ret,
            in("x11") args[1],
            in("x12") args[2],
            in("x17") id,
        );
    }
    ret
}

pub(crate) const RDONLY: u32 = 0;
pub(crate) const WRONLY: u32 = 1 << 0;
pub(crate) const RDWR: u32 = 1 << 1;
pub(crate) const CREATE: u32 = 1 << 9;

pub(crate) fn open(path: &core::ffi::CStr, flags: u32) -> isize {
    syscall(
        SYSCALL_OPEN,
        [path.as_ptr().expose_provenance(), flags as usize, 0],
    )
}

pub(crate) fn close(fd: usize) -> isize {
    syscall(SYSCALL_CLOSE, [fd, 0, 0])
}

pub(crate) fn pipe(ends: &mut [usize; 2]) -> isize {
    syscall(SYSCALL_PIPE, [ends.as_mut_ptr().expose_provenance(), 0, 0])
}

pub(crate) fn read(fd: usize, buffer: &mut [u8]) -> isize {
    syscall(
        SYSCALL_READ,
        [fd, buffer.as_mut_ptr().expose_provenance(), buffer.len()],
    )
}

pub(crate) fn write(fd: usize, buffer: &[u8]) -> isize {
    syscall(
        SYSCALL_WRITE,
        [fd, buffer.as_ptr().expose_provenance(), buffer.len()],
    )
}

/// Connects a UDP socket, as in chapter 9.
pub(crate) fn connect(address: u32, local_port: u16, remote_port: u16) -> isize {
    let ports = [local_port, remote_port].map(usize::from);
    syscall(SYSCALL_CONNECT, [address as usize, ports[0], ports[1]])
}

pub(crate) fn listen(port: u16) -> isize {
    syscall(SYSCALL_LISTEN, [port.into(), 0, 0])
}

pub(crate) fn accept(listener: usize) -> isize {
    syscall(SYSCALL_ACCEPT, [listener, 0, 0])
}

pub(crate) fn exit(code: i32) -> ! {
    syscall(SYSCALL_EXIT, [code as usize, 0, 0]);
    unreachable!("exit doesn't return")
}

pub(crate) fn sleep(milliseconds: usize) -> isize {
    syscall(SYSCALL_SLEEP, [milliseconds, 0, 0])
}

pub(crate) fn yield_() -> isize {
    syscall(SYSCALL_YIELD, [0; 3])
}

pub(crate) fn kill(pid: usize, signal: i32) -> isize {
    syscall(SYSCALL_KILL, [pid, signal as usize, 0])
}

pub(crate) fn get_time() -> isize {
    syscall(SYSCALL_GET_TIME, [0; 3])
}

pub(crate) fn getpid() -> isize {
    syscall(SYSCALL_GETPID, [0; 3])
}

pub(crate) fn fork() -> isize {
    syscall(SYSCALL_FORK, [0; 3])
}

/// Runs another program in this process.
///
/// `path` ends with NUL; `args` ends with a null pointer.
pub(crate) fn exec(path: &core::ffi::CStr, args: &[*const u8]) -> isize {
    syscall(
        SYSCALL_EXEC,
        [
            path.as_ptr().expose_provenance(),
            args.as_ptr().expose_provenance(),
            0,
        ],
    )
}

/// Yields until some child has ended, or the one with this number.
pub(crate) fn waitpid(pid: isize, exit_code: &mut i32) -> isize {
    loop {
        match syscall(
            SYSCALL_WAITPID,
            [
                pid as usize,
                core::ptr::from_mut(exit_code).expose_provenance(),
                0,
            ],
        ) {
            -2 => yield_(),
            result => return result,
        };
    }
}

pub(crate) fn thread_create(entry: extern "C" fn(usize) -> !, argument: usize) -> isize {
    syscall(SYSCALL_THREAD_CREATE, [entry as usize, argument, 0])
}

pub(crate) fn gettid() -> isize {
    syscall(SYSCALL_GETTID, [0; 3])
}

/// Yields until the thread has ended.
pub(crate) fn waittid(tid: usize) -> isize {
    loop {
        match syscall(SYSCALL_WAITTID, [tid, 0, 0]) {
            -2 => yield_(),
            result => return result,
        };
    }
}

pub(crate) fn mutex_create(blocking: bool) -> isize {
    syscall(SYSCALL_MUTEX_CREATE, [usize::from(blocking), 0, 0])
}

pub(crate) fn mutex_lock(id: usize) -> isize {
    syscall(SYSCALL_MUTEX_LOCK, [id, 0, 0])
}

pub(crate) fn mutex_unlock(id: usize) -> isize {
    syscall(SYSCALL_MUTEX_UNLOCK, [id, 0, 0])
}

pub(crate) fn semaphore_create(permits: usize) -> isize {
    syscall(SYSCALL_SEMAPHORE_CREATE, [permits, 0, 0])
}

pub(crate) fn semaphore_up(id: usize) -> isize {
    syscall(SYSCALL_SEMAPHORE_UP, [id, 0, 0])
}

pub(crate) fn semaphore_down(id: usize) -> isize {
    syscall(SYSCALL_SEMAPHORE_DOWN, [id, 0, 0])
}

pub(crate) fn condvar_create() -> isize {
    syscall(SYSCALL_CONDVAR_CREATE, [0; 3])
}

pub(crate) fn condvar_signal(id: usize) -> isize {
    syscall(SYSCALL_CONDVAR_SIGNAL, [id, 0, 0])
}

pub(crate) fn condvar_wait(id: usize, mutex: usize) -> isize {
    syscall(SYSCALL_CONDVAR_WAIT, [id, mutex, 0])
}

pub(crate) fn dup(fd: usize) -> isize {
    syscall(SYSCALL_DUP, [fd, 0, 0])
}

struct Stdout;

impl Write for Stdout {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if write(1, text.as_bytes()) == text.len() as isize {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}

pub(crate) fn print(args: fmt::Arguments<'_>) {
    Stdout
        .write_fmt(args)
        .expect("the console takes everything");
}

macro_rules! println {
    ($($argument:tt)*) => { $crate::rcore::print(format_args!("{}\n", format_args!($($argument)*))) };
}
pub(crate) use println;

unsafe extern "Rust" {
    /// Runs the program; each program defines it.
    fn main() -> i32;
}

#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.entry")]
extern "C" fn _start() -> ! {
    // SAFETY: every program defines it with this signature.
    exit(unsafe { main() })
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    println!("{info}");
    kill(getpid() as usize, SIGABRT);
    unreachable!("the signal ends the process")
}
