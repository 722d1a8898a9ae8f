//! Tests of coroutines that are preempted while they compute (rules S8 to S11).
//!
//! `handlers.rs` has processes that end meanwhile, `upcalls.rs` the kernel's side by hand. Where
//! possible, the computation itself causes the interrupt, so that the tests know at which
//! instruction it comes. It writes a byte to a pipe that a more urgent coroutine reads.
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::arch::global_asm;
use core::cell::RefCell;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use core::time::Duration;

use corank_abi::upcall::STACK_COUNT;
use corank_user::corank::{self, sync::Event, time::sleep};
use corank_user::interrupt::{preemptible, stacks};
use corank_user::io::OwnedFd;
use corank_user::runtime::{self, Global};
use corank_user::{
    Priority, SpawnError, block_on, page, process, ring, spawn, sync, thread, yield_now,
};

use crate::support::{one_hart, pipe, tests};

tests![
    a_completion_interrupts_a_long_computation,
    more_completions_than_entries_interrupt_a_long_computation,
    a_timer_interrupts_a_long_computation,
    another_thread_interrupts_a_long_computation,
    its_own_wake_interrupts_a_computation,
    what_is_ready_already_goes_first,
    equal_and_less_urgent_ones_wait,
    preemption_nests,
    at_the_last_stack_an_interrupt_stays_pending,
    registers_are_as_they_were,
    a_computation_that_waits_in_a_call_lets_others_run,
    the_heap_is_never_interrupted,
    a_locked_mutex_is_never_interrupted,
    outside_the_executor,
    without_an_executor_it_just_computes,
    calls_of_the_more_urgent_are_handed_over,
    a_strict_executor_is_interrupted_as_well,
];

pub(crate) fn level(level: u8) -> Priority {
    Priority::new(level).expect("below 64")
}

/// A log of what happened, in order, for coroutines and not for computations.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<u32>>>);

impl Log {
    fn push(&self, entry: u32) {
        self.0.borrow_mut().push(entry);
    }

    fn take(&self) -> Vec<u32> {
        self.0.take()
    }
}

/// A flag that a computation waits for by polling it.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<AtomicBool>);

impl Seen {
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Computes until the flag is set.
    ///
    /// A limit ensures that a failing test ends.
    fn spin(&self) {
        let ticks = || page::system().ticks.load(Ordering::Relaxed);
        let start = ticks();
        while !self.get() {
            assert!(
                ticks() - start < 1000,
                "the computation was not interrupted"
            );
            core::hint::spin_loop();
        }
    }
}

/// Spawns a coroutine that waits for a byte and then sets the returned `Seen`.
///
/// Writing the byte interrupts.
pub(crate) fn on_a_byte(priority: u8, then: impl FnOnce() + 'static) -> (OwnedFd, Seen) {
    let (reader, writer) = pipe();
    let seen = Seen::default();
    let set = seen.clone();
    spawn(level(priority), async move {
        let (count, _) = ring::read(&reader, Vec::with_capacity(1)).await;
        assert_eq!(count, Ok(1));
        then();
        set.set();
    })
    .expect("memory");
    (writer, seen)
}

/// Waits until every coroutine has run as far as it can.
async fn until_the_least_urgent_runs() {
    let (reader, writer) = pipe();
    spawn(Priority::LEAST_URGENT, async move {
        assert_eq!(ring::write(&writer, alloc::vec![0]).await.0, Ok(1));
    })
    .expect("memory");
    assert_eq!(ring::read(&reader, Vec::with_capacity(1)).await.0, Ok(1));
}

/// Writes a byte, and returns when the kernel has served the coroutine that waits for it.
///
/// The kernel has done so on whichever hart, unless that coroutine is less urgent.
pub(crate) fn ring_it(writer: &OwnedFd) {
    assert_eq!(writer.write(&[1]), Ok(1));
    process::quiesce();
}

/// Tests whether the computation is ready, which it is unless it waits in a call.
///
/// This is for coroutines that interrupt it.
fn computation_is_ready() -> bool {
    page::process().ready.load(Ordering::Relaxed) >> Priority::DEFAULT.level() & 1 == 1
}

/// Answers [`ask_while_it_waits`], and returns whether that has asked too early.
///
/// It has if the computation does not wait in a call yet.
pub(crate) async fn is_too_early(tells: &OwnedFd) -> bool {
    let is_ready = computation_is_ready();
    let (count, _) = ring::write(tells, alloc::vec![u8::from(is_ready)]).await;
    assert_eq!(count, Ok(1));
    is_ready
}

/// Asks a coroutine while its computation waits in a call.
///
/// If it asks [too early](is_too_early), the answer says so, and it asks again. This is for another
/// process.
pub(crate) fn ask_while_it_waits(question: u8, asked: &OwnedFd, told: &OwnedFd) {
    for pause in 1..100 {
        corank_user::time::sleep(Duration::from_millis(pause));
        assert_eq!(asked.write(&[question]), Ok(1));
        let mut again = [1];
        assert_eq!(told.read(&mut again), Ok(1));
        if again == [0] {
            return;
        }
    }
    panic!("the computation never waited");
}

/// Tests that a completion interrupts a long computation.
///
/// The kernel completes the read inside the computation's own system call. When that call returns,
/// the urgent coroutine has run.
fn a_completion_interrupts_a_long_computation() {
    block_on(async {
        let (writer, seen) = on_a_byte(5, || {});
        preemptible(|| {
            assert!(!seen.get());
            ring_it(&writer);
            assert!(
                seen.get(),
                "the more urgent one runs before the next instruction"
            );
        });
        assert_eq!((stacks().in_use, stacks().most), (0, 1));
    });
}

/// Tests that more completions than entries interrupt a long computation.
///
/// They come all at once, from another process. The kernel keeps those for which the ring has no
/// room, and nothing comes later that would bring them.
fn more_completions_than_entries_interrupt_a_long_computation() {
    const READERS: usize = ring::ENTRIES as usize + 10;
    block_on(async {
        let (reader, writer) = pipe();
        let reader = Rc::new(reader);
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..READERS {
            let (reader, done) = (reader.clone(), done.clone());
            spawn(level(10), async move {
                let (count, _) = ring::read(&reader, Vec::with_capacity(1)).await;
                assert_eq!(count, Ok(1));
                done.fetch_add(1, Ordering::Relaxed);
            })
            .expect("memory");
        }
        until_the_least_urgent_runs().await;
        let child = process::spawn(|| i32::from(writer.write(&[1; READERS]) != Ok(READERS)));
        preemptible(|| {
            let ticks = || page::system().ticks.load(Ordering::Relaxed);
            let start = ticks();
            while done.load(Ordering::Relaxed) < READERS {
                assert!(ticks() - start < 1000, "a completion was not taken in");
                core::hint::spin_loop();
            }
        });
        let ended = child.and_then(process::wait);
        assert_eq!(ended.map(|ended| ended.code), Ok(0));
    });
}

fn a_timer_interrupts_a_long_computation() {
    block_on(async {
        let seen = Seen::default();
        let set = seen.clone();
        spawn(level(5), async move {
            for _ in 0..3 {
                sleep(Duration::from_millis(1)).await;
            }
            set.set();
        })
        .expect("memory");
        preemptible(|| seen.spin());
    });
}

fn another_thread_interrupts_a_long_computation() {
    block_on(async {
        let event = Arc::new(atomic_waker::AtomicWaker::new());
        let rung = Seen::default();
        let seen = Seen::default();
        spawn(level(5), {
            let (event, rung, seen) = (event.clone(), rung.clone(), seen.clone());
            core::future::poll_fn(move |context| {
                event.register(context.waker());
                if rung.get() {
                    seen.set();
                    return core::task::Poll::Ready(());
                }
                core::task::Poll::Pending
            })
        })
        .expect("memory");
        let started = Seen::default();
        let thread = thread::spawn({
            let (started, rung) = (started.clone(), rung.clone());
            move || {
                started.spin();
                rung.set();
                event.wake();
            }
        })
        .expect("a thread");
        preemptible(|| {
            started.set();
            seen.spin();
        });
        assert_eq!(thread.join(), Ok(()));
    });
}

/// Tests that a computation may wake a coroutine by its waker.
///
/// If that coroutine is more urgent, it runs at once.
fn its_own_wake_interrupts_a_computation() {
    block_on(async {
        let waker = Arc::new(atomic_waker::AtomicWaker::new());
        let polls = Arc::new(AtomicU32::new(0));
        let handle = spawn(level(5), {
            let (waker, polls) = (waker.clone(), polls.clone());
            core::future::poll_fn(move |context| {
                waker.register(context.waker());
                match polls.fetch_add(1, Ordering::Relaxed) {
                    3 => core::task::Poll::Ready(()),
                    _ => core::task::Poll::Pending,
                }
            })
        })
        .expect("memory");
        preemptible(|| {
            for expected in 1..4 {
                assert_eq!(polls.load(Ordering::Relaxed), expected);
                waker.wake();
            }
            assert_eq!(polls.load(Ordering::Relaxed), 4);
        });
        handle.await.expect("it ends");
    });
}

fn what_is_ready_already_goes_first() {
    block_on(async {
        let log = Log::default();
        for priority in [33, 10, 31, 32] {
            let log = log.clone();
            spawn(level(priority), async move { log.push(priority.into()) }).expect("memory");
        }
        preemptible(|| ());
        log.push(0);
        until_the_least_urgent_runs().await;
        assert_eq!(log.take(), [10, 31, 0, 32, 33]);
    });
}

fn equal_and_less_urgent_ones_wait() {
    // On several harts the kernel serves the less urgent ones in any order.
    let _one = one_hart();
    runtime::run(level(20), Global::Relaxed, async {
        let log = Log::default();
        let (all_done, done) = pipe();
        let writers: Vec<_> = [20, 21, 62, 19]
            .map(|priority| {
                let log = log.clone();
                let done = done.duplicate().expect("a descriptor");
                on_a_byte(priority, move || {
                    log.push(priority.into());
                    assert_eq!(done.write(&[1]), Ok(1));
                })
            })
            .into_iter()
            .collect();
        until_the_least_urgent_runs().await;
        preemptible(|| {
            for (writer, _) in &writers {
                ring_it(writer);
            }
            let seen: Vec<bool> = writers.iter().map(|(_, seen)| seen.get()).collect();
            assert_eq!(seen, [false, false, false, true]);
        });
        log.push(0);
        assert_eq!(ring::read(&all_done, Vec::with_capacity(4)).await.0, Ok(4));
        assert_eq!(log.take(), [19, 0, 20, 21, 62]);
    });
}

/// Returns nested coroutines of these levels, each of which computes and interrupts itself.
///
/// In the middle of its computation each writes a byte for the next one, and runs `check` before
/// and after that.
fn nest(
    levels: &'static [u8],
    log: Log,
    check: fn(usize, bool),
) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async move {
        let depth = stacks().in_use;
        let Some((own, rest)) = levels.split_first() else {
            return;
        };
        log.push(u32::from(*own) * 10);
        if let Some(next) = rest.first() {
            let (reader, writer) = pipe();
            let inner = log.clone();
            let seen = Seen::default();
            let set = seen.clone();
            spawn(level(*next), async move {
                let (count, _) = ring::read(&reader, Vec::with_capacity(1)).await;
                assert_eq!(count, Ok(1));
                nest(rest, inner, check).await;
                set.set();
            })
            .expect("memory");
            preemptible(|| {
                check(depth, seen.get());
                ring_it(&writer);
                check(depth, seen.get());
            });
        }
        assert_eq!(stacks().in_use, depth);
        log.push(u32::from(*own) * 10 + 1);
    })
}

fn preemption_nests() {
    let log = Log::default();
    let inner = log.clone();
    runtime::run(
        level(40),
        Global::Relaxed,
        nest(&[40, 30, 7, 0], inner, |_, _| ()),
    );
    assert_eq!(log.take(), [400, 300, 70, 0, 1, 71, 301, 401]);
    assert_eq!((stacks().in_use, stacks().most), (0, 3));
}

/// Tests that an interrupt stays pending while every stack is in use.
///
/// There is one coroutine for each stack, one on the thread's own, and one more. That one waits
/// until the computation on the last stack is over.
fn at_the_last_stack_an_interrupt_stays_pending() {
    static LEVELS: [u8; STACK_COUNT + 2] = {
        let mut levels = [0; STACK_COUNT + 2];
        let mut at = 0;
        while at < levels.len() {
            levels[at] = 40 - at as u8;
            at += 1;
        }
        levels
    };
    static CHECKS: AtomicUsize = AtomicUsize::new(0);
    let log = Log::default();
    let inner = log.clone();
    let check = |depth: usize, rung: bool| {
        // Twice at each depth, before the byte is written and after it.
        let behind = CHECKS.fetch_add(1, Ordering::Relaxed) > STACK_COUNT;
        assert_eq!(rung, behind && depth < STACK_COUNT, "at depth {depth}");
        assert_eq!(stacks().in_use, depth);
        assert_eq!(page::process().stacks.load(Ordering::Relaxed), depth);
    };
    runtime::run(
        level(LEVELS[0]),
        Global::Relaxed,
        nest(&LEVELS, inner, check),
    );
    let mut expected: Vec<u32> = LEVELS[..=STACK_COUNT]
        .iter()
        .map(|l| u32::from(*l) * 10)
        .collect();
    let last = u32::from(LEVELS[STACK_COUNT + 1]) * 10;
    // The last coroutine runs when the computation of the last but one is over, after that one's
    // poll.
    expected.push(u32::from(LEVELS[STACK_COUNT]) * 10 + 1);
    expected.extend([last, last + 1]);
    expected.extend(
        LEVELS[..STACK_COUNT]
            .iter()
            .rev()
            .map(|l| u32::from(*l) * 10 + 1),
    );
    assert_eq!(log.take(), expected);
    assert_eq!(stacks().most, STACK_COUNT);
}

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
fn registers_are_as_they_were() {
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
                    // On another hart this read may still be taken in while the computation asks.
                    // The computation then waits when its question is read.
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
            ring_it(&writer);
            assert!(!seen.get());
            *guard += 10;
            drop(guard);
            assert!(seen.get());
            assert_eq!(*mutex.lock(), 11);
        });
    });
}

fn outside_the_executor() {
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

/// Tests that the kernel learns of a call of a more urgent coroutine while the computation goes on.
///
/// This needs no help from the computation.
fn calls_of_the_more_urgent_are_handed_over() {
    block_on(async {
        let (writer, first) = on_a_byte(5, || {});
        let (reader, answer) = pipe();
        let second = Seen::default();
        let set = second.clone();
        spawn(level(6), async move {
            let (question, asked) = pipe();
            for _ in 0..3 {
                yield_now().await;
                let (count, data) = ring::write(&asked, alloc::vec![7]).await;
                assert_eq!(count, Ok(1));
                let (count, data) = ring::read(&question, data).await;
                assert_eq!((count, data.as_slice()), (Ok(1), &[7][..]));
            }
            assert_eq!(ring::write(&answer, alloc::vec![8]).await.0, Ok(1));
            set.set();
        })
        .expect("memory");
        preemptible(|| {
            ring_it(&writer);
            assert!(first.get());
            second.spin();
            assert_eq!(reader.read(&mut [0]), Ok(1));
        });
    });
}

fn a_strict_executor_is_interrupted_as_well() {
    runtime::run(level(40), Global::Strict, async {
        let (writer, seen) = on_a_byte(5, || {});
        preemptible(|| {
            ring_it(&writer);
            assert!(seen.get());
        });
    });
}
