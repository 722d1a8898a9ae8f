//! Tests of interrupts in calls of handlers, and of how deep the kernel lets them nest.
//!
//! The handler unmasks interrupts, names a stack below its own and waits in a call, in which it is
//! interrupted again. Each level takes some of the kernel's stack.
use alloc::vec;
use core::mem::size_of;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use corank_abi::call::*;
use corank_abi::upcall::{Block, Frame, MOST_INTERRUPTED_CALLS};
use corank_user::{process, thread};

use crate::support::{KILL, call, exit_code, tests};

tests![
    a_few_interrupts_nest,
    interrupts_nest_to_the_last_stack,
    a_thousand_interrupts_nest_no_deeper,
    a_process_killed_at_the_deepest_level_leaves_nothing,
];

static BLOCK: Block = Block::new();
/// Number of calls that the handler's calls have interrupted, now and at most.
static DEPTH: AtomicUsize = AtomicUsize::new(0);
static DEEPEST: AtomicUsize = AtomicUsize::new(0);
/// Number of times the handler has run.
static ENTERED: AtomicUsize = AtomicUsize::new(0);
/// Whether handlers return from now on.
static IS_OVER: AtomicBool = AtomicBool::new(false);
/// The semaphore that the calls wait for.
static SEMAPHORE: AtomicUsize = AtomicUsize::new(0);

/// Bytes of a stack for one level, which hold a frame and what the handler needs.
const LEVEL: usize = 4 << 10;

/// Waits on top of the calls that it has interrupted.
extern "C" fn handler(frame: *mut Frame, call_waits: usize) -> ! {
    ENTERED.fetch_add(1, Ordering::Relaxed);
    let top = frame.addr() + size_of::<Frame>();
    // A handler that interrupts no call returns, because it takes nothing of the kernel's stack.
    if call_waits == 1 && !IS_OVER.load(Ordering::Relaxed) {
        let depth = DEPTH.fetch_add(1, Ordering::Relaxed) + 1;
        DEEPEST.fetch_max(depth, Ordering::Relaxed);
        BLOCK.stack.store(top - LEVEL, Ordering::Relaxed);
        BLOCK.masked.store(0, Ordering::Relaxed);
        down();
        BLOCK.masked.store(1, Ordering::Relaxed);
        BLOCK.stack.store(top, Ordering::Relaxed);
        DEPTH.fetch_sub(1, Ordering::Relaxed);
    }
    BLOCK.deferred.store(0, Ordering::Relaxed);
    call(UPCALL_RETURN, [frame.expose_provenance(), 0, 0]);
    unreachable!("the registers are others now");
}

fn down() {
    assert_eq!(
        call(SEMAPHORE_DOWN, [SEMAPHORE.load(Ordering::Relaxed), 0, 0]),
        0
    );
}

/// Waits in a call while another thread raises `times` interrupts, one after the other, and does
/// `then`.
///
/// Returns how deep they nested.
fn interrupted(times: usize, then: fn()) -> usize {
    let stacks = vec![0_u8; (times + 2) * LEVEL];
    let top = (stacks.as_ptr().expose_provenance() + stacks.len()) & !15;
    let semaphore = call(SEMAPHORE_CREATE, [0; 3]);
    SEMAPHORE.store(semaphore as usize, Ordering::Relaxed);
    BLOCK.stack.store(top, Ordering::Relaxed);
    BLOCK.masked.store(0, Ordering::Relaxed);
    let handler = handler as extern "C" fn(*mut Frame, usize) -> ! as usize;
    let block = (&raw const BLOCK).expose_provenance();
    assert_eq!(call(UPCALL_SETUP, [handler, block, 0]), 0);
    let raiser = thread::spawn(move || {
        for _ in 0..times {
            raise();
        }
        then();
        IS_OVER.store(true, Ordering::Relaxed);
        for _ in 0..=times {
            call(SEMAPHORE_UP, [semaphore as usize, 0, 0]);
        }
    });
    down();
    raiser.expect("a thread").join().expect("it returns");
    assert_eq!(call(UPCALL_SETUP, [0; 3]), 0);
    assert_eq!(DEPTH.load(Ordering::Relaxed), 0, "each has returned");
    DEEPEST.load(Ordering::Relaxed)
}

/// Interrupts the main thread once.
///
/// Returns when its handler has run, or the interrupt was deferred.
fn raise() {
    let entered = ENTERED.load(Ordering::Relaxed);
    BLOCK.deferred.store(0, Ordering::Relaxed);
    assert_eq!(call(UPCALL_RAISE, [0; 3]), 0);
    while ENTERED.load(Ordering::Relaxed) == entered && BLOCK.deferred.load(Ordering::Relaxed) == 0
    {
        thread::yield_now();
    }
    // An interrupt that comes before the thread waits again interrupts no call.
    for _ in 0..4 {
        thread::yield_now();
    }
}

fn a_few_interrupts_nest() {
    let deepest = interrupted(5, || ());
    assert!((1..=5).contains(&deepest), "{deepest} levels");
}

fn interrupts_nest_to_the_last_stack() {
    assert_eq!(interrupted(100, || ()), MOST_INTERRUPTED_CALLS);
}

fn a_thousand_interrupts_nest_no_deeper() {
    assert_eq!(interrupted(1000, || ()), MOST_INTERRUPTED_CALLS);
}

fn a_process_killed_at_the_deepest_level_leaves_nothing() {
    let code = exit_code(|| {
        interrupted(100, || {
            assert_eq!(DEPTH.load(Ordering::Relaxed), MOST_INTERRUPTED_CALLS);
            process::kill(process::id(), KILL).expect("alive");
        });
        3
    });
    assert_eq!(code, -(KILL as i32));
}
