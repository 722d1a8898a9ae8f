//! Tests of instructions and addresses that a program may not use.
//!
//! The kernel ends the program, with a code that says why, and goes on.
use core::arch::asm;

use corank_user::{page, thread};

use crate::support::{
    ABORTED, BAD_ADDRESS, BAD_INSTRUCTION, KERNEL, UNMAPPED, exit_code, expect_end, tests,
};

tests![
    reading_null_ends_the_process,
    writing_null_ends_the_process,
    jumping_to_null_ends_the_process,
    reading_the_kernel_ends_the_process,
    writing_code_ends_the_process,
    writing_constants_ends_the_process,
    writing_the_system_page_ends_the_process,
    executing_data_ends_the_process,
    executing_the_stack_ends_the_process,
    privileged_instructions_end_the_process,
    an_illegal_instruction_ends_the_process,
    a_breakpoint_ends_the_process,
    a_fault_in_a_thread_ends_the_process,
    floating_point_survives_switches,
];

fn read(address: usize) {
    // SAFETY: the access is meant to fault; if it doesn't, it reads a byte and does nothing with
    // it.
    unsafe { asm!("lb zero, 0({})", in(reg) address, options(nostack, readonly)) };
}

fn write(address: usize) {
    // SAFETY: the access is meant to fault; if it doesn't, the test is about to fail in a process
    // of its own.
    unsafe { asm!("sb zero, 0({})", in(reg) address, options(nostack)) };
}

fn jump(address: usize) {
    // SAFETY: the jump is meant to fault; if it doesn't, the test fails in a process of its own.
    unsafe { asm!("jalr {}", in(reg) address, clobber_abi("C")) };
}

fn reading_null_ends_the_process() {
    expect_end(BAD_ADDRESS, || read(0));
    expect_end(BAD_ADDRESS, || read(8));
}

fn writing_null_ends_the_process() {
    expect_end(BAD_ADDRESS, || write(0));
}

fn jumping_to_null_ends_the_process() {
    expect_end(BAD_ADDRESS, || jump(0));
}

fn reading_the_kernel_ends_the_process() {
    for address in [0x8020_0000, UNMAPPED, 1 << 38, KERNEL, usize::MAX] {
        expect_end(BAD_ADDRESS, || read(address));
        expect_end(BAD_ADDRESS, || write(address));
        expect_end(BAD_ADDRESS, || jump(address & !1));
    }
}

fn writing_code_ends_the_process() {
    expect_end(BAD_ADDRESS, || write(0x10000));
}

fn writing_constants_ends_the_process() {
    static CONSTANT: u8 = 1;
    expect_end(BAD_ADDRESS, || {
        write((&raw const CONSTANT).expose_provenance())
    });
}

fn writing_the_system_page_ends_the_process() {
    expect_end(0, || read(page::SYSTEM_PAGE));
    expect_end(BAD_ADDRESS, || write(page::SYSTEM_PAGE));
}

fn executing_data_ends_the_process() {
    static mut RETURN: u32 = 0x0000_8067;
    expect_end(BAD_ADDRESS, || {
        jump((&raw const RETURN).expose_provenance())
    });
}

fn executing_the_stack_ends_the_process() {
    let instruction = 0x0000_8067_u32;
    expect_end(BAD_ADDRESS, || {
        jump((&raw const instruction).expose_provenance())
    });
}

macro_rules! instruction {
    ($text:literal) => {
        (|| {
            // SAFETY: the instruction is meant to trap; if it doesn't, the test fails in a process
            // of its own.
            unsafe { asm!($text, out("t0") _) }
        }) as fn()
    };
}

fn privileged_instructions_end_the_process() {
    let instructions = [
        instruction!("csrr t0, sstatus"),
        instruction!("csrw sscratch, zero"),
        instruction!("csrw satp, zero"),
        instruction!("csrr t0, mhartid"),
        instruction!("sfence.vma"),
        instruction!("sret"),
        instruction!("mret"),
        instruction!("wfi"),
    ];
    for (number, instruction) in instructions.into_iter().enumerate() {
        let code = exit_code(|| {
            instruction();
            0
        });
        assert_eq!(code, BAD_INSTRUCTION, "instruction {number} of the list");
    }
}

fn an_illegal_instruction_ends_the_process() {
    expect_end(BAD_INSTRUCTION, instruction!("unimp"));
    expect_end(BAD_INSTRUCTION, instruction!(".word 0xffffffff"));
}

fn a_breakpoint_ends_the_process() {
    expect_end(ABORTED, instruction!("ebreak"));
}

fn a_fault_in_a_thread_ends_the_process() {
    expect_end(BAD_ADDRESS, || {
        let thread = thread::spawn(|| read(0)).expect("a thread");
        let _ = thread.join();
        unreachable!("the process ends with its thread");
    });
}

/// Tests that threads that compute with floating point keep their registers while others compute.
fn floating_point_survives_switches() {
    let threads: [_; 4] = core::array::from_fn(|number| {
        thread::spawn(move || {
            let start = number as f64;
            let mut sum = start;
            for step in 0..1000_u32 {
                sum += f64::from(step);
                thread::yield_now();
            }
            sum - start
        })
        .expect("a thread")
    });
    for thread in threads {
        assert_eq!(thread.join(), Ok(499_500.0));
    }
}
