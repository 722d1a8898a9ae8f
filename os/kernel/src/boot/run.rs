//! The main loop of a hart.
//!
//! All harts serve one executor, so each always takes the most urgent coroutine that is ready
//! anywhere (rule H2). A hart has one stack. The kernel runs with interrupts off and never takes an
//! interrupt. It checks for pending ones between two coroutines. It sleeps with `wfi`, which a
//! pending interrupt ends even so. Therefore no interrupt handler waits for a lock that is held on
//! its own hart.

use crate::executor::executor;
use crate::hart::{self, begin_round, set_short_polls, take_call, take_own_call};
use crate::stretch::{self, Work};
use crate::{clock, device};
use corank::{Priority, Step, SystemView};

/// The number of polls in a row after which a hart serves interrupts, whatever is ready.
const POLLS_PER_CHECK: u64 = 64;

/// The view in which pending interrupts are more urgent than any coroutine.
///
/// The most urgent coroutines are the exception: interrupts wait for them (see
/// [`POLLS_PER_CHECK`]).
struct Interrupts;

impl SystemView for Interrupts {
    #[inline]
    fn most_urgent_elsewhere(&self) -> Option<Priority> {
        stretch::pick();
        let is_any = riscv::register::sip::read().bits() != 0;
        is_any.then_some(Priority::MOST_URGENT)
    }
}

/// Serves the executor, or interrupts only, for ever.
pub(super) fn run() -> ! {
    loop {
        serve();
        serve_interrupts_only();
    }
}

/// Runs the hart's main loop until the hart is beyond the limit of those that serve.
///
/// It polls the most urgent coroutine, again and again, and sleeps when none is ready.
fn serve() {
    let worker = executor().worker(hart::waker());
    // SAFETY: the worker stays where it is until there is none below.
    unsafe { hart::serve_as(&raw const worker) };
    set_short_polls(true);
    stretch::begin();
    while begin_round() {
        stretch::works_on(Work::Interrupts);
        worker.within(take_interrupts);
        stretch::pick();
        let (step, _) = worker.run_some(&Interrupts, POLLS_PER_CHECK);
        // A call that comes after the last check is pending, and so ends `wfi` at once.
        if step == Step::Idle && !take_own_call() {
            stretch::pick();
            riscv::asm::wfi();
            stretch::begin();
        }
    }
    // SAFETY: there is none.
    unsafe { hart::serve_as(core::ptr::null()) };
}

/// Serves nothing but interrupts, until the hart is to serve the executor again.
fn serve_interrupts_only() {
    loop {
        take_interrupts();
        // Behind the interrupts: a call that has been taken there was for this.
        if begin_round() {
            return;
        }
        riscv::asm::wfi();
    }
}

/// Serves the interrupts that are pending.
///
/// Costs one read of a register when none is.
fn take_interrupts() {
    let pending = riscv::register::sip::read();
    if pending.ssoft() {
        take_call();
    }
    if pending.stimer() {
        clock::tick();
    }
    if pending.sext() {
        device::interrupt();
    }
}
