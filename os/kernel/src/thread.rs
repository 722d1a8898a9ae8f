//! Threads of programs: kernel coroutines that enter user mode.
//!
//! A thread's coroutine is the switching coroutine of seed 002 (section 3.3): it never holds the hart for longer than up to
//! the next clock tick, and its priority is that of the most urgent coroutine of its process.
use crate::memory::user::BadAddress;
use crate::process::Process;
use crate::trap::{self, Context, Trap};
use crate::{clock, device, hart, println, syscall};
use alloc::sync::Arc;
use corank_abi::exit_code::{ABORTED, ILLEGAL_INSTRUCTION, MEMORY_FAULT};
use core::sync::atomic::{AtomicI32, Ordering};

/// What a thread's coroutine owns. When it is dropped, the thread has ended.
#[derive(Debug)]
pub(crate) struct Thread {
    /// The process that it is part of.
    pub process: Arc<Process>,
    /// Its number in the process; 0 is the main thread.
    pub tid: usize,
    exit_code: AtomicI32,
}

impl Thread {
    /// A thread of `process`.
    pub(crate) fn new(process: Arc<Process>, tid: usize) -> Thread {
        Thread {
            process,
            tid,
            exit_code: AtomicI32::new(-1),
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.process
            .thread_gone(self.tid, self.exit_code.load(Ordering::Relaxed));
    }
}

/// Why a thread ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It called `exit`.
    Exit(i32),
    /// It passed the kernel an address that is not its own.
    BadPointer(BadAddress),
}

impl From<BadAddress> for End {
    fn from(bad: BadAddress) -> End {
        End::BadPointer(bad)
    }
}

/// The thread's coroutine: user mode, a trap, what the trap asks for, again.
pub(crate) async fn run(thread: Thread, mut context: Context) {
    while !thread.process.is_ending() {
        match run_until_trap(&thread.process, &mut context) {
            Trap::Call => {
                context.pc += 4;
                match syscall::serve(&thread, &mut context).await {
                    Ok(result) => context.set_result(result),
                    Err(end) => return finish(&thread, &context, end),
                }
            }
            Trap::Timer => {
                clock::tick();
                corank::yield_now().await;
            }
            Trap::Device => {
                device::interrupt();
                corank::yield_now().await;
            }
            Trap::Page(address, access) => {
                // Either a page of a stack that comes now, or the hart did not know yet that there is one.
                hart::forget_page(address);
                let fault = thread
                    .process
                    .with_memory(|space| space.translate(address, access).err(), None);
                if let Some(bad) = fault {
                    return fail(
                        &thread,
                        &context,
                        MEMORY_FAULT,
                        format_args!("page fault: {bad}"),
                    );
                }
            }
            Trap::Illegal(instruction) => {
                if !context.enable_float() {
                    let what = format_args!("illegal instruction {instruction:#x}");
                    return fail(&thread, &context, ILLEGAL_INSTRUCTION, what);
                }
            }
            Trap::Other(cause, value) => {
                let what = format_args!("exception {cause} with value {value:#x}");
                return fail(&thread, &context, ABORTED, what);
            }
        }
    }
}

fn run_until_trap(process: &Process, context: &mut Context) -> Trap {
    let satp = process.with_memory(
        |space| {
            if space.take_stale(hart::index()) {
                hart::forget(space.satp());
            }
            space.satp()
        },
        0,
    );
    assert!(
        satp != 0,
        "a process has memory until its last thread is gone"
    );
    // SAFETY: an address space lives until the process's last thread is gone or, alone in its process, runs another
    // program; every address space has the trampoline and the harts' pages.
    unsafe { trap::run_user(context, satp) }
}

#[cold]
fn finish(thread: &Thread, context: &Context, end: End) {
    match end {
        End::Exit(code) => {
            thread.exit_code.store(code, Ordering::Relaxed);
            if thread.tid == 0 {
                thread.process.end(code);
            }
        }
        End::BadPointer(bad) => {
            fail(
                thread,
                context,
                MEMORY_FAULT,
                format_args!("bad pointer in system call {}: {bad}", context.call().0),
            );
        }
    }
}

/// Ends the process with a message.
#[cold]
fn fail(thread: &Thread, context: &Context, code: i32, what: core::fmt::Arguments<'_>) {
    fail_process(
        &thread.process,
        code,
        format_args!("{what}, at pc {:#x} of thread {}", context.pc, thread.tid),
    );
    thread.exit_code.store(code, Ordering::Relaxed);
}

/// Ends the process with a message that names the cause.
pub(crate) fn fail_process(process: &Process, code: i32, what: core::fmt::Arguments<'_>) {
    println!(
        "corank: {} (process {}) ended with code {code}: {what}",
        process.name(),
        process.pid
    );
    process.end(code);
}

/// Ends the process because of a bad pointer in an asynchronous call.
pub(crate) fn fail_call(process: &Process, call: u32, bad: BadAddress) {
    fail_process(
        process,
        MEMORY_FAULT,
        format_args!("bad pointer in asynchronous system call {call}: {bad}"),
    );
}
