//! Tests of user-level interrupts by hand (see `corank_abi::upcall`).
//!
//! They cover when interrupts are delivered, and what a program can do wrong. `preemption.rs` has
//! the library's side.
use core::arch::{asm, global_asm};
use core::hint::spin_loop;
use core::mem::offset_of;
use core::sync::atomic::{AtomicUsize, Ordering};

use corank_abi::call::*;
use corank_abi::page::{PROCESS_PAGE, ProcessPage, WORKERS};
use corank_abi::upcall::{Block, Frame, STACK_COUNT, STACK_SIZE, STACKS, stack_top};
use corank_user::io::OwnedFd;
use corank_user::process::Pid;
use corank_user::{page, process, thread};

use crate::support::{
    BAD_ADDRESS, KERNEL, UNMAPPED, call, claim_no_timers, claim_timer, exit_code, expect_end, pipe,
    tests,
};

tests![
    a_raised_interrupt_runs_its_handler_and_returns,
    a_completion_interrupts_only_while_the_flag_is_open,
    masked_interrupts_are_deferred,
    without_a_stack_interrupts_are_deferred,
    each_worker_takes_its_own_interrupts,
    another_hart_is_interrupted,
    another_thread_waits_while_an_interrupt_is_due,
    no_interrupt_is_raised_for_an_ended_thread,
    no_interrupt_is_raised_without_a_handler,
    a_bad_handler_ends_the_process,
    a_bad_block_ends_the_process,
    a_bad_stack_ends_the_process,
    a_bad_frame_ends_the_process,
    the_stacks_have_guards,
    a_program_may_return_to_a_frame_of_its_own,
    exec_removes_the_handler,
    a_child_inherits_the_handler,
    a_call_goes_on_behind_the_handler,
    a_child_does_not_wait_for_its_parents_call,
];

/// Number of times the handler has run.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static BLOCK: Block = Block::new();

// A handler that counts, says that it checks for what has arrived, and returns.
global_asm!(
    ".section .text.usertests_handler, \"ax\", @progbits",
    ".globl usertests_handler",
    "usertests_handler:",
    "la t0, {count}",
    "ld t1, (t0)",
    "addi t1, t1, 1",
    "sd t1, (t0)",
    "la t0, {block}",
    "sd zero, {deferred}(t0)",
    "li a7, {upcall_return}",
    "ecall",
    "unimp",
    count = sym COUNT,
    block = sym BLOCK,
    deferred = const offset_of!(Block, deferred),
    upcall_return = const UPCALL_RETURN,
);

// A handler that withdraws what claim_timer has said, forks, and returns on both sides.
//
// A child inherits timers, and its flag is open: one that is due would interrupt the child again.
global_asm!(
    ".section .text.usertests_fork, \"ax\", @progbits",
    ".globl usertests_fork",
    "usertests_fork:",
    "mv s1, a0",
    "li t0, {timers}",
    "sd zero, (t0)",
    "li a7, {fork}",
    "ecall",
    "la t0, {child}",
    "sd a0, (t0)",
    "mv a0, s1",
    "li a7, {upcall_return}",
    "ecall",
    "unimp",
    timers = const PROCESS_PAGE + offset_of!(ProcessPage, deadlines.levels),
    child = sym CHILD,
    fork = const FORK,
    upcall_return = const UPCALL_RETURN,
);

/// Value that `fork` returned in the handler.
static CHILD: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    fn usertests_handler();
    fn usertests_fork();
}

fn handler() -> usize {
    usertests_handler as *const () as usize
}

fn set_up() {
    BLOCK.masked.store(0, Ordering::Relaxed);
    BLOCK
        .stack
        .store(stack_top(0, 0).expect("the first"), Ordering::Relaxed);
    page::process().flag.open();
    assert_eq!(
        register(handler(), (&raw const BLOCK).expose_provenance()),
        0
    );
}

fn register(handler: usize, block: usize) -> isize {
    call(UPCALL_SETUP, [handler, block, 0])
}

fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

fn deferred() -> usize {
    BLOCK.deferred.swap(0, Ordering::Relaxed)
}

fn raise() {
    assert_eq!(call(UPCALL_RAISE, [0; 3]), 0);
}

fn a_raised_interrupt_runs_its_handler_and_returns() {
    set_up();
    for expected in 1..4 {
        raise();
        assert_eq!(count(), expected);
        assert_eq!((BLOCK.masked.load(Ordering::Relaxed), deferred()), (0, 0));
    }
}

/// Tests that a completion interrupts only while the flag is open.
///
/// What completes a call checks the flag. Between two openings it interrupts once.
fn a_completion_interrupts_only_while_the_flag_is_open() {
    set_up();
    let flag = &page::process().flag;
    let complete = || {
        // A timer that is due raises the flag at the next clock tick, as an arrival does.
        claim_timer(0, 0);
        crate::support::spin_for_ticks(3);
        claim_no_timers();
    };
    complete();
    assert_eq!(count(), 1, "three ticks and one opening");
    complete();
    assert_eq!(count(), 1);
    flag.open();
    complete();
    assert_eq!(count(), 2);
    flag.open();
    flag.close();
    complete();
    assert_eq!(count(), 2, "a worker that checks is not interrupted");
}

fn masked_interrupts_are_deferred() {
    set_up();
    BLOCK.masked.store(1, Ordering::Relaxed);
    raise();
    assert_ne!(deferred(), 0);
    raise();
    assert_ne!(deferred(), 0, "each is reported");
    BLOCK.masked.store(0, Ordering::Relaxed);
    call(GETPID, [0; 3]);
    assert_eq!(count(), 0, "what was reported is the program's");
}

fn without_a_stack_interrupts_are_deferred() {
    set_up();
    BLOCK.stack.store(0, Ordering::Relaxed);
    raise();
    assert_ne!(deferred(), 0);
    assert_eq!(count(), 0);
}

/// Tests that each worker takes its own interrupts, whatever thread raises them.
fn each_worker_takes_its_own_interrupts() {
    set_up();
    let other = thread::spawn(|| {
        // This is another worker than the one that is interrupted.
        assert_eq!(call(UPCALL_RAISE, [1, 0, 0]), FAILED);
        assert_eq!(register(handler(), UNMAPPED), 0);
        assert_eq!(register(0, 0), 0);
        assert_eq!(call(UPCALL_RAISE, [1, 0, 0]), FAILED);
        call(UPCALL_RAISE, [0; 3])
    })
    .expect("a thread");
    assert_eq!(other.join(), Ok(0));
    assert_eq!(
        count(),
        1,
        "the thread that takes them was interrupted, in its call or behind it"
    );
}

/// Tests that a thread that computes on another hart, and makes no call, is interrupted at once.
///
/// No clock tick has to come.
fn another_hart_is_interrupted() {
    if process::harts() == 1 {
        return;
    }
    /// Number of rounds that must be over before the next tick, and number of all rounds.
    ///
    /// Where only ticks interrupt, a round lasts until the next tick. The exceptions are the few
    /// rounds in which the tick has just been sent to the other hart.
    const QUIET: usize = 10;
    const ROUNDS: usize = 200;
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let ticks = || page::system().ticks.load(Ordering::Relaxed);
    set_up();
    let other = thread::spawn(|| {
        for round in 1..=ROUNDS {
            while ASKED.load(Ordering::Acquire) < round {
                spin_loop();
            }
            raise();
            // It makes no call, in which it would notice the interrupt anyway.
            while count() < round {
                spin_loop();
            }
        }
    })
    .expect("a thread");
    let mut quiet = 0;
    for round in 1..=ROUNDS {
        let before = ticks();
        // This hart has already taken the tick.
        thread::yield_now();
        ASKED.store(round, Ordering::Release);
        while count() < round {
            spin_loop();
        }
        quiet += usize::from(ticks() == before);
    }
    other.join().expect("it ends");
    assert!(quiet >= QUIET, "{quiet} of {ROUNDS} before the next tick");
}

/// Tests an interrupt after which the raising thread waits before the other has come to take it.
fn another_thread_waits_while_an_interrupt_is_due() {
    set_up();
    let other = thread::spawn(|| {
        raise();
        corank_user::time::sleep(core::time::Duration::from_millis(1));
    })
    .expect("a thread");
    crate::support::spin_for_ticks(3);
    assert_eq!(other.join(), Ok(()));
    assert_eq!(count(), 1);
}

fn no_interrupt_is_raised_for_an_ended_thread() {
    let block = (&raw const BLOCK).expose_provenance();
    let other = thread::spawn(move || register(handler(), block)).expect("a thread");
    assert_eq!(other.join(), Ok(0));
    assert_eq!(call(UPCALL_RAISE, [0; 3]), FAILED);
    set_up();
    raise();
    assert_eq!(count(), 1);
}

fn no_interrupt_is_raised_without_a_handler() {
    assert_eq!(call(UPCALL_RAISE, [0; 3]), FAILED);
    set_up();
    assert_eq!(register(0, 0), 0);
    assert_eq!(call(UPCALL_RAISE, [0; 3]), FAILED);
    assert_eq!(count(), 0);
}

const NONSENSE: [usize; 6] = [
    UNMAPPED,
    KERNEL,
    1 << 38,
    usize::MAX & !7,
    8,
    0x3f_0000_1000,
];

fn a_bad_handler_ends_the_process() {
    for address in NONSENSE {
        expect_end(BAD_ADDRESS, || {
            set_up();
            assert_eq!(
                register(address & !1, (&raw const BLOCK).expose_provenance()),
                0
            );
            raise();
        });
    }
    // Memory that exists, but may not be executed.
    expect_end(BAD_ADDRESS, || {
        set_up();
        let block = (&raw const BLOCK).expose_provenance();
        assert_eq!(register(block, block), 0);
        raise();
    });
}

fn a_bad_block_ends_the_process() {
    for address in NONSENSE {
        expect_end(BAD_ADDRESS, || {
            set_up();
            assert_eq!(register(handler(), address), 0);
            raise();
        });
    }
    // Half of the block is at the end of a page behind which there is nothing.
    expect_end(BAD_ADDRESS, || {
        let end = STACKS + WORKERS * STACK_COUNT * STACK_SIZE;
        assert_eq!(register(handler(), end - offset_of!(Block, stack)), 0);
        raise();
    });
}

fn a_bad_stack_ends_the_process() {
    // The last address of the list would be in this process's own page.
    for address in
        NONSENSE[..5]
            .iter()
            .copied()
            .chain([1, size_of::<Frame>(), STACKS + size_of::<Frame>()])
    {
        expect_end(BAD_ADDRESS, || {
            set_up();
            BLOCK.stack.store(address, Ordering::Relaxed);
            raise();
        });
    }
}

fn a_bad_frame_ends_the_process() {
    for address in NONSENSE {
        expect_end(BAD_ADDRESS, || {
            set_up();
            call(UPCALL_RETURN, [address, 0, 0]);
        });
        // Nothing has been set up here.
        expect_end(BAD_ADDRESS, || {
            call(UPCALL_RETURN, [address, 0, 0]);
        });
    }
}

fn the_stacks_have_guards() {
    let touch = |address: usize| {
        // SAFETY: the kernel has given this memory to the program for stacks, which are not in use;
        // or it faults.
        unsafe { asm!("sb zero, ({})", in(reg) address, options(nostack)) }
    };
    for number in 0..STACK_COUNT {
        let top = stack_top(0, number).expect("there are so many");
        expect_end(0, || {
            touch(top - 1);
            touch(top - STACK_SIZE + page::PAGE_SIZE);
        });
        expect_end(BAD_ADDRESS, || touch(top - STACK_SIZE));
    }
    expect_end(BAD_ADDRESS, || {
        touch(STACKS + WORKERS * STACK_COUNT * STACK_SIZE)
    });
    assert_eq!(stack_top(0, STACK_COUNT), None);
}

/// Tests that a program may make frames as it likes.
///
/// It gets the registers that it says, and no rights.
fn a_program_may_return_to_a_frame_of_its_own() {
    extern "C" fn exit(code: usize) -> ! {
        process::exit(code as i32 + 1)
    }
    let code = exit_code(|| {
        let stack: usize;
        let thread: usize;
        // SAFETY: reads registers.
        unsafe { asm!("mv {}, sp", "mv {}, tp", out(reg) stack, out(reg) thread) };
        let mut frame = Frame {
            x: [usize::MAX; 32],
            pc: exit as extern "C" fn(usize) -> ! as usize,
            f: [u64::MAX; 32],
            fcsr: usize::MAX,
        };
        frame.x[2] = stack & !15;
        frame.x[4] = thread;
        frame.x[10] = 6;
        call(
            UPCALL_RETURN,
            [(&raw const frame).expose_provenance(), 0, 0],
        );
        0
    });
    assert_eq!(code, 7);
    expect_end(BAD_ADDRESS, || {
        let frame = Frame {
            x: [0; 32],
            pc: KERNEL,
            f: [0; 32],
            fcsr: 0,
        };
        call(
            UPCALL_RETURN,
            [(&raw const frame).expose_provenance(), 0, 0],
        );
    });
}

fn exec_removes_the_handler() {
    let code = exit_code(|| {
        set_up();
        process::exec(
            "usertests",
            &["usertests", "no_interrupt_is_raised_without_a_handler"],
        );
        1
    });
    assert_eq!(code, 0);
}

fn a_child_inherits_the_handler() {
    set_up();
    let code = exit_code(|| {
        raise();
        count() as i32
    });
    assert_eq!((code, count()), (1, 0));
}

/// Reads a pipe while a timer is due, so that the next clock tick interrupts the call.
///
/// `write` arranges that a byte is written after that.
fn read_and_be_interrupted(write: impl FnOnce(OwnedFd) -> Option<Pid>) -> isize {
    let (reader, writer) = pipe();
    let writer = write(writer);
    claim_timer(0, 0);
    let mut byte = [0_u8];
    let result = call(
        READ,
        [reader.number(), (&raw mut byte).expose_provenance(), 1],
    );
    // A timer that is still claimed would interrupt here.
    thread::yield_now();
    claim_no_timers();
    if let Some(writer) = writer {
        assert_eq!(process::wait(writer).expect("the child").code, 0);
    }
    result
}

fn a_call_goes_on_behind_the_handler() {
    set_up();
    let later = |writer: OwnedFd| {
        let writer = process::spawn(|| {
            corank_user::time::sleep(core::time::Duration::from_millis(50));
            assert_eq!(writer.write(&[1]), Ok(1));
            0
        });
        Some(writer.expect("a process"))
    };
    assert_eq!(read_and_be_interrupted(later), 1);
    assert_eq!(count(), 1);
}

/// Tests a handler that forks while a call waits below it.
///
/// The call goes on in the parent, and has failed in the child.
fn a_child_does_not_wait_for_its_parents_call() {
    set_up();
    let fork = usertests_fork as *const () as usize;
    assert_eq!(register(fork, (&raw const BLOCK).expose_provenance()), 0);
    let mut write = None;
    let result = read_and_be_interrupted(|writer| {
        write = Some(writer.duplicate().expect("a descriptor"));
        core::mem::forget(writer);
        None
    });
    let child = CHILD.load(Ordering::Relaxed);
    if child == 0 {
        assert_eq!(result, FAILED);
        let write = write.expect("the pipe is open");
        assert_eq!(write.write(&[1]), Ok(1));
        process::exit(9);
    }
    assert_eq!(result, 1);
    assert_eq!(process::wait(child).expect("the child").code, 9);
}
