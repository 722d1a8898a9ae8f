//! Threads of programs: kernel coroutines that enter user mode.
//!
//! A thread's coroutine is the switching coroutine of seed 002 (section 3.3): it never holds the hart for longer than up to
//! the next clock tick, and its priority is that of the most urgent coroutine of its process.
use crate::memory::user::BadAddress;
use crate::process::{Process, priority};
use crate::trap::{self, Context, Trap};
use crate::{clock, console, hart, println, syscall, upcall};
use alloc::boxed::Box;
use alloc::sync::Arc;
use corank_abi::exit_code::{ABORTED, ILLEGAL_INSTRUCTION, MEMORY_FAULT};
use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicI32, Ordering};
use core::task::Poll;

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

/// Why a thread does not go on behind its system call.
#[derive(Debug)]
pub(crate) enum End {
    /// It called `exit`.
    Exit(i32),
    /// It passed the kernel an address that is not its own.
    BadPointer(BadAddress),
    /// It runs another program, from these registers.
    Program(Box<Context>),
    /// It returns from a handler of user-level interrupts, to the frame at this address.
    Handler(usize),
    /// It has ended, and all is said.
    Done,
}

impl From<BadAddress> for End {
    fn from(bad: BadAddress) -> End {
        End::BadPointer(bad)
    }
}

/// The thread's coroutine.
pub(crate) async fn run(thread: Thread, mut context: Context) {
    // Whatever ends it has been said.
    let _ = run_user_mode(&thread, &mut context, None).await;
}

/// Runs a handler of user-level interrupts, up to its return to `frame`, while a system call of the thread waits.
///
/// # Errors
/// When the thread ends instead, or runs another program.
pub(crate) fn run_handler<'a>(
    thread: &'a Thread,
    mut context: Context,
    frame: usize,
) -> Pin<Box<dyn Future<Output = Result<(), End>> + 'a>> {
    Box::pin(async move { run_user_mode(thread, &mut context, Some(frame)).await })
}

/// Serves the thread's system call, and lets user-level interrupts be taken while it waits.
async fn serve(thread: &Thread, context: &Context) -> Result<isize, End> {
    let mut call = pin!(syscall::serve(thread, context));
    loop {
        let result = poll_fn(|polled| match call.as_mut().poll(polled) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if thread.process.upcalls.are_raised() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        match result.await {
            Some(result) => return result,
            None => upcall::during_call(thread, context).await?,
        }
    }
}

/// User mode, a trap, what the trap asks for, again, up to the return from a handler to the frame `until`.
///
/// # Errors
/// [`End::Done`] when the thread ends before; without `until` there is no other end.
async fn run_user_mode(
    thread: &Thread,
    context: &mut Context,
    until: Option<usize>,
) -> Result<(), End> {
    while !thread.process.is_ending() {
        if thread.process.upcalls.are_raised()
            && let Err(bad) = upcall::deliver(thread, context)
        {
            return fail(
                thread,
                context,
                MEMORY_FAULT,
                format_args!("bad address for a user-level interrupt: {bad}"),
            );
        }
        match run_until_trap(&thread.process, context) {
            Trap::Call => {
                context.pc += 4;
                match serve(thread, context).await {
                    Ok(result) => {
                        context.set_result(result);
                        // What the call has made ready may be more urgent than this process (seed 002, section 3.3).
                        if hart::is_more_urgent_ready(priority(thread.process.level())) {
                            corank::yield_now().await;
                        }
                    }
                    Err(End::Handler(frame)) => match leave_handler(thread, context, frame) {
                        Ok(()) if until == Some(frame) => return Ok(()),
                        Ok(()) => {}
                        Err(bad) => {
                            return fail(
                                thread,
                                context,
                                MEMORY_FAULT,
                                format_args!("bad address for a user-level interrupt: {bad}"),
                            );
                        }
                    },
                    Err(End::Program(fresh)) if until.is_none() => *context = *fresh,
                    Err(end) => return finish(thread, context, end),
                }
            }
            Trap::Timer => {
                clock::tick();
                corank::yield_now().await;
            }
            Trap::Device => {
                console::interrupt();
                corank::yield_now().await;
            }
            Trap::Page(address, access) => {
                // Either a page of a stack that comes now, or the hart did not know yet that there is one.
                hart::forget_page(address);
                let fault = thread
                    .process
                    .with_memory(|space| space.translate(address, access).err(), None);
                if let Some(bad) = fault {
                    let what = format_args!("page fault: {bad}");
                    return fail(thread, context, MEMORY_FAULT, what);
                }
            }
            Trap::Illegal(instruction) => {
                if !context.enable_float() {
                    let what = format_args!("illegal instruction {instruction:#x}");
                    return fail(thread, context, ILLEGAL_INSTRUCTION, what);
                }
            }
            Trap::Other(cause, value) => {
                let what = format_args!("exception {cause} with value {value:#x}");
                return fail(thread, context, ABORTED, what);
            }
        }
    }
    Err(End::Done)
}

/// Serves `upcall_return`.
///
/// # Errors
/// When the program has named bad addresses.
#[cold]
fn leave_handler(thread: &Thread, context: &mut Context, frame: usize) -> Result<(), BadAddress> {
    let registers = upcall::read_frame(thread, frame)?;
    upcall::unmask(thread)?;
    context.restore(&registers);
    // It has run what was more urgent than what it goes back to.
    thread.process.follow_level();
    Ok(())
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

/// Ends the thread, unless it goes on with another program.
#[cold]
fn finish(thread: &Thread, context: &Context, end: End) -> Result<(), End> {
    match end {
        End::Exit(code) => {
            thread.exit_code.store(code, Ordering::Relaxed);
            if thread.tid == 0 {
                thread.process.end(code);
            }
            Err(End::Done)
        }
        End::BadPointer(bad) => {
            let what = format_args!("bad pointer in system call {}: {bad}", context.call().0);
            fail(thread, context, MEMORY_FAULT, what)
        }
        End::Program(_) | End::Handler(_) | End::Done => Err(end),
    }
}

/// Ends the process with a message.
#[cold]
fn fail(
    thread: &Thread,
    context: &Context,
    code: i32,
    what: core::fmt::Arguments<'_>,
) -> Result<(), End> {
    fail_process(
        &thread.process,
        code,
        format_args!("{what}, at pc {:#x} of thread {}", context.pc, thread.tid),
    );
    thread.exit_code.store(code, Ordering::Relaxed);
    Err(End::Done)
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
