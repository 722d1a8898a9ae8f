//! Tests of threads.
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use corank_abi::call::{
    BY_THREAD, FAULT, FAULT_MEMORY, SEMAPHORE_CREATE, SEMAPHORE_UP, SERVICE_MODEL,
};
use corank_user::thread::NoResult;
use corank_user::{calls, process, thread};

use crate::support::{self, BAD_ADDRESS, expect_end, frames_free, tests};

tests![
    join_returns_the_result,
    a_thousand_threads_run_at_once,
    a_thousand_threads_run_in_turn,
    a_join_may_wait_by_yielding,
    each_thread_has_its_own_number,
    a_thread_that_exits_has_a_code,
    a_panic_ends_the_thread_alone,
    a_thread_is_joined_once,
    a_thread_runs_without_being_joined,
    stacks_are_separate,
    a_deep_stack_grows,
    stack_overflow_hits_the_guard,
    main_stack_overflow_hits_the_guard,
    threads_share_the_heap,
    threads_are_preempted,
    spawning_threads_fails_when_memory_is_exhausted,
    a_refused_join_still_waits_for_its_thread,
    stacks_are_reused,
    a_store_to_the_stack_of_no_thread_is_a_fault,
    a_pointer_to_an_ended_threads_local_is_a_fault,
    a_pointer_into_a_stack_of_no_thread_fails_the_call,
];

fn join_returns_the_result() {
    let thread = thread::spawn(|| "result").expect("a thread");
    assert_eq!(thread.join(), Ok("result"));
}

fn a_thousand_threads_run_at_once() {
    let counter = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..1000)
        .map(|number| {
            let counter = Arc::clone(&counter);
            thread::spawn(move || {
                counter.fetch_add(1, Ordering::Relaxed);
                thread::yield_now();
                number
            })
            .expect("a thread")
        })
        .collect();
    for (number, thread) in threads.into_iter().enumerate() {
        assert_eq!(thread.join(), Ok(number));
    }
    assert_eq!(counter.load(Ordering::Relaxed), 1000);
}

fn a_thousand_threads_run_in_turn() {
    for number in 0..1000 {
        let thread = thread::spawn(move || number).expect("a thread");
        assert_eq!(thread.join(), Ok(number));
    }
}

fn a_join_may_wait_by_yielding() {
    process::wait_by_yielding(true);
    let threads: [_; 20] =
        core::array::from_fn(|number| thread::spawn(move || number).expect("a thread"));
    for (number, thread) in threads.into_iter().enumerate() {
        assert_eq!(thread.join_yielding(), Ok(number));
    }
}

fn each_thread_has_its_own_number() {
    assert_eq!(thread::id(), 0);
    let thread = thread::spawn(thread::id).expect("a thread");
    let number = thread.id();
    assert_ne!(number, 0);
    assert_eq!(thread.join(), Ok(number));
    let thread = thread::spawn(process::id).expect("a thread");
    assert_eq!(thread.join(), Ok(process::id()));
}

fn a_thread_that_exits_has_a_code() {
    let thread = thread::spawn(|| process::exit(17)).expect("a thread");
    assert_eq!(thread.join(), Err::<(), _>(NoResult { code: 17 }));
}

fn a_panic_ends_the_thread_alone() {
    let thread = thread::spawn(|| panic!("on purpose")).expect("a thread");
    assert_eq!(thread.join(), Err::<(), _>(NoResult { code: 101 }));
}

fn a_thread_is_joined_once() {
    let thread = thread::spawn(|| ()).expect("a thread");
    let number = thread.id();
    assert_eq!(thread.join(), Ok(()));
    assert_eq!(
        support::call(corank_abi::call::WAITTID, [number, 0, 0]),
        corank_abi::call::FAILED
    );
}

fn a_thread_runs_without_being_joined() {
    let counter = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&counter);
    drop(thread::spawn(move || theirs.store(1, Ordering::Release)).expect("a thread"));
    while counter.load(Ordering::Acquire) == 0 {
        thread::yield_now();
    }
}

fn stacks_are_separate() {
    let threads: [_; 10] = core::array::from_fn(|number| {
        thread::spawn(move || {
            let local = core::hint::black_box([number; 100]);
            for _ in 0..10 {
                thread::yield_now();
            }
            local.iter().all(|value| *value == number)
        })
        .expect("a thread")
    });
    for thread in threads {
        assert_eq!(thread.join(), Ok(true));
    }
}

/// Uses about 1 KiB of stack for each level.
#[inline(never)]
fn dig(depth: usize) -> usize {
    let mut hole = core::hint::black_box([1_u8; 1024]);
    if depth > 0 {
        hole[depth % 1024] = 1;
        return dig(depth - 1) + usize::from(core::hint::black_box(&hole)[7]);
    }
    0
}

fn a_deep_stack_grows() {
    let thread = thread::spawn(|| dig(40)).expect("a thread");
    assert_eq!(thread.join(), Ok(40));
    assert_eq!(dig(400), 400);
}

fn stack_overflow_hits_the_guard() {
    expect_end(BAD_ADDRESS, || {
        let thread = thread::spawn(|| dig(100)).expect("a thread");
        let _ = thread.join();
    });
}

fn main_stack_overflow_hits_the_guard() {
    expect_end(BAD_ADDRESS, || {
        dig(2000);
    });
}

fn threads_share_the_heap() {
    let threads: Vec<_> = (0..8_u8)
        .map(|number| {
            thread::spawn(move || {
                let mut boxes = Vec::new();
                for size in 1..200 {
                    boxes.push(alloc::vec![number; size]);
                    if size % 10 == 0 {
                        thread::yield_now();
                    }
                }
                boxes
                    .iter()
                    .all(|part| part.iter().all(|byte| *byte == number))
            })
            .expect("a thread")
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join(), Ok(true));
    }
}

/// Tests that a thread that never yields does not stop another one.
fn threads_are_preempted() {
    let flag = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&flag);
    let spinning = thread::spawn(move || {
        while theirs.load(Ordering::Acquire) == 0 {
            core::hint::spin_loop();
        }
    })
    .expect("a thread");
    support::spin_for_ticks(2);
    flag.store(1, Ordering::Release);
    assert_eq!(spinning.join(), Ok(()));
}

/// Makes as many threads as there is memory for.
///
/// Where each thread that waits has a stack of the kernel, it makes as many as there are stacks.
fn spawning_threads_fails_when_memory_is_exhausted() {
    let semaphore = support::call(SEMAPHORE_CREATE, [0; 3]) as usize;
    let is_refused = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::with_capacity(1 << 17);
    while threads.len() < threads.capacity() && !is_refused.load(Ordering::Relaxed) {
        let is_refused = Arc::clone(&is_refused);
        let wait = move || {
            if calls::semaphore_down(semaphore).is_err() {
                is_refused.store(true, Ordering::Relaxed);
            }
        };
        match thread::spawn(wait) {
            Ok(thread) => threads.push(thread),
            Err(_) => break,
        }
    }
    assert!(threads.len() > 4000, "only {} threads", threads.len());
    for _ in &threads {
        support::call(SEMAPHORE_UP, [semaphore, 0, 0]);
    }
    for thread in threads {
        assert_eq!(thread.join(), Ok(()));
    }
    let thread = thread::spawn(|| 3).expect("threads can be made again");
    assert_eq!(thread.join(), Ok(3));
}

/// Tests that a thread does not count as ended if the kernel refuses the join.
///
/// The kernel has no stack for the call that waits for the thread.
fn a_refused_join_still_waits_for_its_thread() {
    let begun = Arc::new(AtomicUsize::new(0));
    let go = Arc::new(AtomicBool::new(false));
    let thread = {
        let (begun, go) = (Arc::clone(&begun), Arc::clone(&go));
        thread::spawn(move || {
            begun.fetch_add(1, Ordering::Release);
            while !go.load(Ordering::Acquire) {
                thread::yield_now();
            }
            7
        })
        .expect("a thread")
    };
    let both_begun = Arc::clone(&begun);
    let opener = thread::spawn(move || {
        begun.fetch_add(1, Ordering::Release);
        // This takes far longer than a join that does not wait.
        support::spin_for_ticks(20);
        go.store(true, Ordering::Release);
    })
    .expect("a thread");
    // From here on only the join asks for memory.
    while both_begun.load(Ordering::Acquire) < 2 {
        thread::yield_now();
    }
    support::call(SERVICE_MODEL, [BY_THREAD, 0, 0]);
    assert_eq!(support::call(FAULT, [FAULT_MEMORY, 1, 0]), 0);
    let result = thread.join();
    assert_eq!(
        support::call(FAULT, [FAULT_MEMORY, 0, 0]),
        0,
        "it was refused"
    );
    assert_eq!(result, Ok(7));
    assert_eq!(opener.join(), Ok(()));
}

fn stacks_are_reused() {
    let round = || {
        let threads: [_; 50] =
            core::array::from_fn(|_| thread::spawn(|| dig(30)).expect("a thread"));
        for thread in threads {
            assert_eq!(thread.join(), Ok(30));
        }
    };
    // The page tables for the stacks stay.
    round();
    let before = frames_free();
    round();
    assert_eq!(frames_free(), before);
}

/// Address of the stacks of threads other than the main one in every process, and size of each
/// stack.
///
/// They lie one behind the other by number.
const THREAD_STACKS: usize = 0x20_0000_0000;
const THREAD_STACK: usize = 64 << 10;

/// Returns the last word of a thread's stack.
fn last_word(tid: usize) -> *mut usize {
    core::ptr::with_exposed_provenance_mut(THREAD_STACKS + (tid + 1) * THREAD_STACK - 8)
}

fn a_store_to_the_stack_of_no_thread_is_a_fault() {
    for tid in [1, 2, 1000] {
        expect_end(BAD_ADDRESS, || {
            // SAFETY: the store is meant to fault.
            unsafe { last_word(tid).write_volatile(1) };
            // The kernel must cope with what lies there.
            for _ in 0..tid.min(10) {
                let _ = thread::spawn(|| 0).map(thread::JoinHandle::join);
            }
        });
    }
    // The address below the last mapped page of a thread that exists is its own.
    let (gate, gatekeeper) = support::pipe();
    let waiting = thread::spawn(move || gate.read(&mut [0])).expect("a thread");
    // SAFETY: nothing of the thread lies so far down.
    let deep = unsafe { last_word(waiting.id()).sub(5 * 512) };
    // SAFETY: as above; the page belongs to the thread's stack.
    unsafe { deep.write_volatile(1) };
    drop(gatekeeper);
    assert_eq!(waiting.join(), Ok(Ok(0)));
}

fn a_pointer_to_an_ended_threads_local_is_a_fault() {
    expect_end(BAD_ADDRESS, || {
        let local = thread::spawn(|| {
            let local = 0_usize;
            core::hint::black_box(&raw const local).expose_provenance()
        });
        let local = local.expect("a thread").join().expect("it ends");
        let local: *mut usize = core::ptr::with_exposed_provenance_mut(local);
        // SAFETY: the store is meant to fault.
        unsafe { local.write_volatile(1) };
        let _ = thread::spawn(|| 0).map(thread::JoinHandle::join);
    });
}

fn a_pointer_into_a_stack_of_no_thread_fails_the_call() {
    let (_reader, writer) = support::pipe();
    let file = writer.number();
    expect_end(BAD_ADDRESS, || {
        let word = last_word(7).expose_provenance();
        support::call(corank_abi::call::WRITE, [file, word, 8]);
    });
}
