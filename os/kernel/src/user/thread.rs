//! Threads of programs: kernel coroutines that enter user mode.
//!
//! A thread's coroutine is the switching coroutine of COPS (section 3.3). It never holds the hart
//! for longer than up to the next clock tick. Its priority is that of the most urgent coroutine of
//! its worker.
use crate::executor::{is_more_urgent_ready, priority};
use crate::lock::Mutex;
use crate::memory::OutOfMemory;
use crate::memory::account::{self, Charge};
use crate::memory::stack::Stack;
use crate::memory::user::BadAddress;
use crate::pace;
use crate::process::{Global, MAIN, Process, Worker};
use crate::stretch::{self, Work};
use crate::trap::{self, Context, Trap};
use crate::user::{syscall, upcall};
use crate::{clock, device, hart, println};
use alloc::boxed::Box;
use alloc::sync::Arc;
use corank_abi::call::FAILED;
use corank_abi::exit_code::{ABORTED, ILLEGAL_INSTRUCTION, MEMORY_FAULT};
use corank_abi::upcall::MOST_INTERRUPTED_CALLS;
use core::pin::Pin;
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// What a thread's coroutine owns.
///
/// When it is dropped, the thread has ended.
#[derive(Debug)]
pub(crate) struct Thread {
    /// The process that it is part of.
    pub process: Arc<Process>,
    /// Its number in the process; 0 is the main thread.
    pub tid: usize,
    /// The number of the worker at whose level it runs.
    worker: AtomicUsize,
    exit_code: AtomicI32,
    /// The stack on which its calls are served, where kernel threads serve them. `None` while one
    /// is served.
    pub kernel_stack: Mutex<Option<Stack>>,
    /// The number of calls of the thread that wait below it.
    ///
    /// If any does, this stands for the thread in a handler beside those calls, and its end is not
    /// the thread's.
    interrupted_calls: usize,
    /// What its coroutine costs, or what it costs beside the thread's.
    pub charge: Charge,
}

/// The cost of a handler that runs beside a call in which its thread waits: its future, and what
/// its own calls need.
const BESIDE: usize = 4096;

impl Thread {
    /// Makes a thread of `process` that is, or has the level of, this worker.
    pub(crate) fn new(process: Arc<Process>, tid: usize, worker: usize) -> Thread {
        Thread {
            process,
            tid,
            worker: AtomicUsize::new(worker),
            exit_code: AtomicI32::new(-1),
            kernel_stack: Mutex::new(None),
            interrupted_calls: 0,
            charge: Charge::none(),
        }
    }

    /// Returns what runs a handler beside the call in which the thread waits.
    ///
    /// `None` if [`MOST_INTERRUPTED_CALLS`] wait below it, or if there is no memory. Each of those
    /// calls takes some of the hart's stack when the innermost is polled.
    pub(crate) fn beside(&self) -> Option<Thread> {
        if self.interrupted_calls >= MOST_INTERRUPTED_CALLS {
            return None;
        }
        let charge = self.process.reserve(BESIDE).ok()?;
        Some(Thread {
            process: self.process.clone(),
            tid: self.tid,
            worker: AtomicUsize::new(self.worker.load(Ordering::Relaxed)),
            exit_code: AtomicI32::new(-1),
            kernel_stack: Mutex::new(None),
            interrupted_calls: self.interrupted_calls + 1,
            charge,
        })
    }

    /// Returns the worker that it is, or whose level it has.
    #[inline(always)]
    pub(crate) fn worker(&self) -> &Worker {
        self.process.worker(self.worker.load(Ordering::Relaxed))
    }

    /// Makes it a worker; see [`Process::make_worker`].
    pub(crate) fn become_worker(&self) -> Option<&Worker> {
        let number = self.process.make_worker(self.tid)?;
        self.worker.store(number, Ordering::Relaxed);
        Some(self.process.worker(number))
    }

    /// Makes its worker count by what it says, because the thread yields or waits.
    #[inline(always)]
    pub(crate) fn come_to_rest(&self) {
        self.process.end_loan(self.tid);
        self.worker().come_to_rest(&self.process);
    }

    /// Lends its level to another thread of its process; see [`Process::lend_level`].
    pub(crate) fn lend_level(&self, tid: usize) -> bool {
        tid != self.tid && self.process.lend_level(self.worker(), tid)
    }

    /// Makes the kernel check its worker's timers from now on.
    #[inline]
    pub(crate) fn watch_timers(&self) {
        self.worker().watch_timers(&self.process);
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if self.interrupted_calls == 0 {
            self.process
                .thread_gone(self.tid, self.exit_code.load(Ordering::Relaxed));
        }
    }
}

/// What a thread may cost beside its coroutine: floating-point registers, and calls that are under
/// way.
const THREAD: usize = 512;

/// Starts a thread, which begins with the registers that `context` returns for its number.
///
/// Returns the number.
///
/// # Errors
/// When there is no memory for it, and those of `context`.
pub(crate) fn start(
    process: &Arc<Process>,
    context: impl FnOnce(usize) -> Result<Context, OutOfMemory>,
) -> Result<usize, OutOfMemory> {
    let (tid, worker) = process.reserve_thread()?;
    let thread = Thread::new(process.clone(), tid, worker);
    // If there is no place for its coroutine, the thread stays here, and goes when nothing is held.
    let mut unstarted = Some((context(tid)?, thread));
    process.make_thread(tid, worker, |priority| {
        let thread = |charge| {
            let (context, mut thread) = unstarted.take().expect("it is called once");
            thread.charge = charge;
            run(thread, context, None)
        };
        let started = account::spawn(&process.memory.account, priority, THREAD, thread)?;
        Ok(started.id())
    })?;
    Ok(tid)
}

/// Starts the main thread of a process from these registers.
///
/// # Errors
/// When there is no memory for it.
pub(crate) fn start_main(process: &Arc<Process>, context: Context) -> Result<(), OutOfMemory> {
    start(process, |_| Ok(context)).map(drop)
}

/// Starts a thread with a stack of its own at `entry`, with `argument` and its number in its first
/// registers.
///
/// Returns its number.
///
/// # Errors
/// When there is no memory for it.
pub(crate) fn start_at(
    process: &Arc<Process>,
    entry: usize,
    argument: usize,
) -> Result<usize, OutOfMemory> {
    start(process, |tid| {
        let top = process.with_memory(|space| space.map_stack(tid), Err(OutOfMemory))?;
        let mut context = Context::new(entry, top);
        context.x[10] = argument;
        context.x[11] = tid;
        Ok(context)
    })
}

/// Why a thread does not go on after its system call.
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
    /// It has ended with this code, and its message is printed.
    Done(i32),
}

impl From<BadAddress> for End {
    fn from(bad: BadAddress) -> End {
        End::BadPointer(bad)
    }
}

/// Runs a handler of user-level interrupts, up to its return to `frame`.
///
/// Meanwhile a system call of the thread that `beside` stands for waits.
///
/// # Errors
/// When the thread ends instead, or runs another program.
pub(crate) fn run_handler(
    beside: Thread,
    context: Context,
    frame: usize,
) -> Pin<Box<dyn Future<Output = Result<(), End>> + Send>> {
    Box::pin(run(beside, context, Some(frame)))
}

/// Runs the thread's coroutine: user mode, a trap, what the trap asks for, again.
///
/// The coroutine of the main thread takes back what the process has, at the end. Beside a system
/// call that waits, it runs up to the return from a handler to the frame `until`.
///
/// # Errors
/// [`End::Done`] when the thread ends before; without `until` there is no other end.
pub(crate) async fn run(
    thread: Thread,
    mut context: Context,
    until: Option<usize>,
) -> Result<(), End> {
    let ended = 'ended: {
        let (thread, context) = (&thread, &mut context);
        while !thread.process.is_ending() {
            if thread.worker().upcalls.are_raised()
                && let Err(bad) = upcall::deliver(thread, context)
            {
                break 'ended fail(
                    thread,
                    context,
                    MEMORY_FAULT,
                    format_args!("bad address for a user-level interrupt: {bad}"),
                );
            }
            let Some(trap) = run_until_trap(thread, context) else {
                thread.watch_timers();
                corank::yield_now().await;
                continue;
            };
            match trap {
                Trap::Call => {
                    context.pc += 4;
                    syscall::note_call(thread, context);
                    let served = if syscall::is_ring_enter(context) {
                        syscall::enter_ring(thread, context)
                            .await
                            .map_err(End::from)
                    } else if let Some(result) = syscall::serve_at_once(thread, context) {
                        result.map_err(End::from)
                    } else {
                        let call = Work::Call(context.call().0);
                        stretch::during(call, syscall::serve(thread, context)).await
                    };
                    match served {
                        Ok(result) => {
                            context.set_result(result);
                            // What the call has made ready may be more urgent than this process
                            // (COPS, section 3.3).
                            if is_more_urgent_ready(priority(thread.worker().level())) {
                                thread.watch_timers();
                                corank::yield_now().await;
                            }
                        }
                        Err(End::Handler(frame)) => match leave_handler(thread, context, frame) {
                            Ok(()) if until == Some(frame) => break 'ended Ok(()),
                            Ok(()) => {}
                            Err(bad) => {
                                break 'ended fail(
                                    thread,
                                    context,
                                    MEMORY_FAULT,
                                    format_args!("bad address for a user-level interrupt: {bad}"),
                                );
                            }
                        },
                        Err(End::Program(fresh)) if until.is_none() => {
                            begin_program(thread, context, fresh);
                        }
                        Err(End::BadPointer(bad)) if bad.lacks_memory => {
                            context.set_result(FAILED);
                        }
                        Err(end) => break 'ended finish(thread, context, end),
                    }
                }
                Trap::Timer => {
                    stretch::works_on(Work::Interrupts);
                    clock::tick();
                    yield_after_interrupt(thread).await;
                }
                Trap::Device => {
                    stretch::works_on(Work::Interrupts);
                    device::interrupt();
                    yield_after_interrupt(thread).await;
                }
                // It stays pending, so that the hart comes back to its main loop.
                Trap::Signal => yield_after_interrupt(thread).await,
                Trap::Page(address, access) => {
                    stretch::works_on(Work::PageFault);
                    // Either a page of a stack that comes now, or the hart did not know yet that
                    // there is one.
                    hart::forget_page(address);
                    let fault = thread
                        .process
                        .with_memory(|space| space.translate(address, access).err(), None);
                    if let Some(bad) = fault {
                        let what = format_args!("page fault: {bad}");
                        break 'ended fail(thread, context, MEMORY_FAULT, what);
                    }
                }
                Trap::Illegal(instruction) => {
                    if !context.enable_float() {
                        let what = format_args!("illegal instruction {instruction:#x}");
                        break 'ended fail(thread, context, ILLEGAL_INSTRUCTION, what);
                    }
                }
                Trap::Other(cause, value) => {
                    let what = format_args!("exception {cause} with value {value:#x}");
                    break 'ended fail(thread, context, ABORTED, what);
                }
            }
        }
        Err(End::Done(thread.exit_code.load(Ordering::Relaxed)))
    };
    if thread.interrupted_calls > 0 {
        return ended;
    }
    if thread.tid == MAIN {
        // It is the process's end.
        let process = thread.process.clone();
        drop(thread);
        if let Some(this) = corank::current() {
            corank::reprioritize(this, priority(process.level()));
        }
        pace::apart(stretch::during(Work::End, process.wind_up())).await;
    } else if !thread.process.is_ending() {
        pace::apart(thread.process.end_rings(thread.tid)).await;
    }
    ended
}

/// Yields after an interrupt.
///
/// What the interrupt has made ready may be more urgent than this process, which counts by what it
/// runs now.
async fn yield_after_interrupt(thread: &Thread) {
    thread.come_to_rest();
    corank::yield_now().await;
}

/// Makes the thread run another program from now on, from these registers.
#[cold]
fn begin_program(thread: &Thread, context: &mut Context, fresh: Box<Context>) {
    // It is no worker any more.
    thread.worker.store(0, Ordering::Relaxed);
    *context = *fresh;
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
    thread.worker().follow_level(&thread.process);
    Ok(())
}

/// Runs the thread in user mode up to the next trap.
///
/// `None`: the process ends, or something more urgent became ready in the meantime.
fn run_until_trap(thread: &Thread, context: &mut Context) -> Option<Trap> {
    let process = &thread.process;
    hart::set_interruptible(process.global() == Global::Strict);
    if hart::take_own_call() {
        return None;
    }
    let satp = process.with_memory(
        |space| {
            hart::enter_user(space.satp());
            // Only now: a hart that ends or interrupts the process after this finds that this hart
            // runs it.
            if process.is_ending() || thread.worker().upcalls.are_raised_for(thread.tid) {
                return 0;
            }
            if space.take_stale(hart::index()) {
                hart::forget(space.satp());
            }
            space.satp()
        },
        0,
    );
    if satp == 0 {
        hart::leave_user();
        return None;
    }
    hart::set_short_polls(false);
    let entered = clock::now();
    stretch::check();
    // SAFETY: an address space lives until the process's last thread is gone or, alone in its
    // process, runs another program; every address space has the trampoline and the harts' pages.
    let trap = unsafe { trap::run_user(context, satp) };
    stretch::begin();
    hart::set_short_polls(true);
    process.charge(clock::now() - entered);
    Some(trap)
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
            Err(End::Done(code))
        }
        End::BadPointer(bad) => {
            let what = format_args!("bad pointer in system call {}: {bad}", context.call().0);
            fail(thread, context, MEMORY_FAULT, what)
        }
        End::Done(code) => {
            thread.exit_code.store(code, Ordering::Relaxed);
            Err(end)
        }
        End::Program(_) | End::Handler(_) => Err(end),
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
    Err(End::Done(code))
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
