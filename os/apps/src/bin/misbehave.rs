//! Does what a program must not: `misbehave HOW`. The kernel ends it, with the exit code that
//! `usertests` expects.
#![no_std]
#![no_main]

extern crate alloc;

use core::arch::asm;

use corank_abi::call::{FAILED, FAULT, NOT_IMPLEMENTED};
use corank_user::{println, process, raw};

corank_user::main!(main);

/// The first process; its end is the machine's end.
const FIRST: process::Pid = 1;

fn main() -> i32 {
    match corank_user::arguments().nth(1) {
        // SAFETY: the access is meant to fault.
        Some("load") => unsafe { asm!("lb zero, 0(zero)", options(nostack, readonly)) },
        // SAFETY: as above.
        Some("store") => unsafe { asm!("sb zero, 0(zero)", options(nostack)) },
        // SAFETY: as above; nothing comes back from there.
        Some("jump") => unsafe { asm!("jr zero", options(noreturn)) },
        Some("stack") => return overflow(1),
        // SAFETY: the kernel refuses the pointer.
        Some("pointer") => drop(unsafe { raw::system_call(corank_abi::call::WRITE, [1, 0, 1]) }),
        // SAFETY: the instruction is meant to trap.
        Some("illegal") => unsafe { asm!("unimp") },
        // SAFETY: as above.
        Some("privileged") => unsafe { asm!("csrr zero, sstatus") },
        // SAFETY: as above.
        Some("breakpoint") => unsafe { asm!("ebreak") },
        Some("abort") => drop(process::kill(process::id(), 6)),
        Some("panic") => panic!("as it was asked to"),
        Some("overflow") => drop(alloc::vec![0_u8; 1 << 50]),
        Some("faults") => return ask_for_faults(),
        Some("power") => return end_the_first_process(),
        Some("foreground") => return give_the_first_process_the_console(),
        _ => return 2,
    }
    0
}

/// Tries to end the first process.
///
/// Returns 0 if the kernel refuses. Otherwise the machine is switched off.
fn end_the_first_process() -> i32 {
    let ended = process::kill(FIRST, 9).is_ok();
    let ended_its_group = process::kill_group(FIRST, 9).is_ok();
    println!("the first process goes on");
    i32::from(ended || ended_its_group)
}

/// Says that the console belongs to the first process's group, and waits for Ctrl-C.
///
/// That must not end the first process.
fn give_the_first_process_the_console() -> i32 {
    let _ = process::set_group(0, FIRST);
    let _ = process::set_foreground(FIRST);
    println!("the console is given away");
    loop {
        corank_user::time::sleep(core::time::Duration::from_secs(1000));
    }
}

/// Asks for every kind of fault.
///
/// Returns 0 if the kernel does not know that call, and 1 if it does.
fn ask_for_faults() -> i32 {
    const KINDS: usize = 8;
    // Not so soon that a fault strikes before this returns.
    const STEP: usize = 1 << 40;
    // SAFETY: the arguments are numbers.
    let ask = |kind| unsafe { raw::system_call(FAULT, [kind, STEP, 80]) };
    let answers: [isize; KINDS] = core::array::from_fn(ask);
    let is_unknown = answers == [NOT_IMPLEMENTED; KINDS];
    println!("faults: {answers:?}, where {FAILED} is refused");
    i32::from(!is_unknown)
}

/// Recurses until the stack ends.
#[expect(unconditional_recursion, reason = "the stack is to overflow")]
fn overflow(depth: usize) -> i32 {
    let room = core::hint::black_box([depth as u8; 1000]);
    overflow(depth + 1) + i32::from(core::hint::black_box(room)[depth % 1000])
}
