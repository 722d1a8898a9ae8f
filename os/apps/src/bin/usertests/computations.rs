//! Tests of what a computation that can be preempted keeps, and of what it can do (rules S8 to
//! S11).
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::arch::global_asm;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;

use corank_user::corank::{self, sync::Event, time::sleep};
use corank_user::interrupt::{preemptible, stacks};
use corank_user::{SpawnError, block_on, process, ring, spawn, sync};

use crate::interrupting::{
    ask_while_it_waits, computation_is_ready, is_too_early, level, on_a_byte, write_and_wait,
};
use crate::support::{one_hart, pipe, tests};

tests![
    an_interrupt_preserves_all_registers,
    a_computation_that_waits_in_a_call_lets_others_run,
    the_heap_is_never_interrupted,
    a_locked_mutex_is_never_interrupted,
    a_computation_is_outside_the_executor,
    without_an_executor_it_just_computes,
];

// All registers but the pointers (sp, gp, tp) get values of their own. A system call interrupts,
// and each register is checked again. a0 is what the call returns, so it is checked last and apart.
global_asm!(
    ".attribute arch, \"rv64imafdc\"",
    ".section .text.check_registers, \"ax\", @progbits",
    ".globl usertests_check_registers",
    // a0: a pipe's write end, a1: a byte. Returns the sum of what is wrong: 0.
    "usertests_check_registers:",
    "addi sp, sp, -16*8",
    "sd ra, 0*8(sp)",
    ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11",
    "sd s\\r, (\\r+1)*8(sp)",
    ".endr",
    "frcsr t0",
    "sd t0, 13*8(sp)",
    ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "li t0, 0x400921fb54442d00 + \\r",
    "fmv.d.x f\\r, t0",
    ".endr",
    "li t0, 0x61",
    "fscsr t0",
    ".irp r, 1,5,6,7,8,9,13,14,15,16,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "li x\\r, 0x1234567812345600 + \\r",
    ".endr",
    "li a2, 1",
    "li a7, 64",
    "ecall",
    "sd t0, 14*8(sp)",
    "addi a0, a0, -1",
    // t0 and the sum in a0 are free from here on.
    ".irp r, 1,6,7,8,9,13,14,15,16,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "li t0, 0x1234567812345600 + \\r",
    "xor t0, t0, x\\r",
    "or a0, a0, t0",
    ".endr",
    "ld t1, 14*8(sp)",
    "li t0, 0x1234567812345605",
    "xor t0, t0, t1",
    "or a0, a0, t0",
    "addi t0, a2, -1",
    "or a0, a0, t0",
    "addi t0, a7, -64",
    "or a0, a0, t0",
    ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "li t0, 0x400921fb54442d00 + \\r",
    "fmv.x.d t1, f\\r",
    "xor t0, t0, t1",
    "or a0, a0, t0",
    ".endr",
    "frcsr t0",
    "xori t0, t0, 0x61",
    "or a0, a0, t0",
    "ld t0, 13*8(sp)",
    "fscsr t0",
    "ld ra, 0*8(sp)",
    ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11",
    "ld s\\r, (\\r+1)*8(sp)",
    ".endr",
    "addi sp, sp, 16*8",
    "ret",
);

unsafe extern "C" {
    fn usertests_check_registers(descriptor: usize, byte: *const u8) -> usize;
}

/// Tests integer and floating-point registers, rounding mode and exceptions.
///
/// The handler computes with floating point itself.
fn an_interrupt_preserves_all_registers() {
    // On several harts the interrupt may come behind the instructions in question.
    let _one = one_hart();
    block_on(async {
        for _ in 0..3 {
            let (writer, seen) = on_a_byte(5, || {
                let mut sum = 0.1;
                for step in 0..100_u32 {
                    sum = core::hint::black_box(sum * 1.5 + f64::from(step));
                }
                assert!(sum > 1.0);
            });
            let descriptor = writer.number();
            let wrong = preemptible(|| {
                // SAFETY: keeps the calling convention, and writes the byte to the pipe.
                unsafe { usertests_check_registers(descriptor, &1) }
            });
            assert_eq!(wrong, 0);
            assert!(seen.get());
        }
    });
}

/// Tests that a computation that waits in a call lets others run.
///
/// The computation reads a pipe, which blocks its thread. A coroutine of the same thread writes
/// what it reads. That coroutine can run beside it, and be less or more urgent than what comes
/// after.
fn a_computation_that_waits_in_a_call_lets_others_run() {
    block_on(async {
        let (reader, answer) = pipe();
        let (question, asked) = pipe();
        let (told, tells) = pipe();
        spawn(level(5), async move {
            let mut answers = 0;
            while answers < 3 {
                let (count, data) = ring::read(&question, Vec::with_capacity(1)).await;
                assert_eq!(count, Ok(1));
                if data[0] == 0 {
                    // On another hart the kernel may still take this read while the computation
                    // asks. The computation then waits when its question is read.
                    assert!(computation_is_ready() || process::harts() > 1);
                } else if is_too_early(&tells).await {
                    continue;
                }
                let (count, _) = ring::write(&answer, alloc::vec![data[0] + 1]).await;
                assert_eq!(count, Ok(1));
                answers += 1;
            }
        })
        .expect("memory");
        let child = process::spawn(|| {
            ask_while_it_waits(1, &asked, &told);
            ask_while_it_waits(3, &asked, &told);
            0
        })
        .expect("a process");
        preemptible(|| {
            let mut data = [0];
            assert_eq!((reader.read(&mut data), data), (Ok(1), [2]));
            assert_eq!((reader.read(&mut data), data), (Ok(1), [4]));
            // The last question is its own. On one hart the answer is there before the call that
            // asks has returned.
            assert_eq!(asked.write(&[0]), Ok(1));
            assert_eq!((reader.read(&mut data), data), (Ok(1), [1]));
        });
        assert_eq!(process::wait(child).expect("the child").code, 0);
        assert_eq!(stacks().in_use, 0);
    });
}

/// Tests that the heap is never interrupted.
///
/// Interrupts come at clock ticks, wherever the computation is. It is nearly always in the heap,
/// and so are the coroutines that interrupt it.
fn the_heap_is_never_interrupted() {
    const INTERRUPTS: usize = 20;
    block_on(async {
        let interrupts = Arc::new(AtomicUsize::new(0));
        let count = interrupts.clone();
        spawn(level(5), async move {
            let mut kept: Vec<Vec<u8>> = Vec::new();
            for number in 0..INTERRUPTS {
                sleep(Duration::from_micros(1)).await;
                kept.push(alloc::vec![number as u8; 100 + number]);
                count.store(number + 1, Ordering::Relaxed);
            }
            for (number, data) in kept.iter().enumerate() {
                assert!(data.iter().all(|byte| usize::from(*byte) == number));
            }
        })
        .expect("memory");
        preemptible(|| {
            let mut round = 0_usize;
            while interrupts.load(Ordering::Relaxed) < INTERRUPTS {
                round += 1;
                let data = alloc::vec![round as u8; round % 200];
                assert!(
                    core::hint::black_box(&data)
                        .iter()
                        .all(|byte| *byte == round as u8)
                );
            }
        });
        assert_eq!(stacks().in_use, 0);
    });
}

/// Tests that an interrupt that comes while a lock is held is taken when the lock is released.
fn a_locked_mutex_is_never_interrupted() {
    block_on(async {
        let mutex = Arc::new(sync::Mutex::new(0).expect("a mutex"));
        let theirs = mutex.clone();
        let (writer, seen) = on_a_byte(5, move || *theirs.lock() += 1);
        preemptible(|| {
            let mut guard = mutex.lock();
            write_and_wait(&writer);
            assert!(!seen.get());
            *guard += 10;
            drop(guard);
            assert!(seen.get());
            assert_eq!(*mutex.lock(), 11);
        });
    });
}

fn a_computation_is_outside_the_executor() {
    block_on(async {
        let own = corank::current();
        assert!(own.is_some());
        preemptible(|| {
            assert!(matches!(
                spawn(level(1), async {}),
                Err(SpawnError::NotRunning)
            ));
            assert_eq!(corank::current(), None);
        });
        assert_eq!(corank::current(), own);
        // An executor of its own inside the computation has coroutines that can be preempted by
        // each other.
        let event = Rc::new(Event::new());
        let set = event.clone();
        spawn(level(50), async move { set.set() }).expect("memory");
        let inner = preemptible(|| {
            block_on(async {
                let urgent = spawn(level(5), async { 1 }).expect("memory");
                preemptible(|| ());
                assert!(urgent.has_exited());
                urgent.await.expect("it ends")
            })
        });
        assert_eq!(inner, 1);
        event.wait().await;
    });
}

fn without_an_executor_it_just_computes() {
    assert_eq!(preemptible(|| 3), 3);
    block_on(async {});
    assert_eq!(preemptible(|| 4), 4);
    assert_eq!(stacks().most, 0);
}
