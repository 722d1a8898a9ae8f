//! Tests of a process's account, which reserves what the kernel's heap holds for the process.
//!
//! A request for which there is no room is an error. A limit holds for the process and its
//! children.
use alloc::vec::Vec;

use corank_abi::call::*;
use corank_abi::ring::LINK;
use corank_user::{fs, information, process, thread};

use crate::files::in_directory;
use crate::rings::{Rings, submission};
use crate::support::{call, exit_code, quiesced, tests};

tests![
    a_limit_is_lowered_and_never_raised,
    a_limit_holds_for_children_together,
    completions_that_stay_untaken_keep_to_the_limit,
    linked_calls_without_memory_fail_one_by_one,
    unjoined_threads_are_limited,
    unjoined_threads_stay_within_the_limit,
    a_child_with_many_files_stays_within_the_limit,
    a_call_is_found_without_memory_for_a_table_of_keys,
    every_kind_of_object_stays_within_the_limit,
    a_child_that_cannot_start_leaves_nothing_behind,
    a_program_that_is_read_from_the_disk_stays_within_the_limit,
    a_program_on_the_disk_is_never_read_into_the_kernels_reserve,
];

/// A limit above what this process has now, but small.
const LITTLE: usize = 512 << 10;

/// Runs a test in a process of its own, so that nothing is left for later tests.
fn alone(test: impl FnOnce()) {
    let code = exit_code(|| {
        test();
        0
    });
    assert_eq!(code, 0);
}

fn heap_used() -> usize {
    quiesced(information::system)
        .expect("it is there")
        .heap_used as usize
}

fn a_limit_is_lowered_and_never_raised() {
    alone(|| {
        assert_eq!(process::limit_memory(LITTLE), Ok(LITTLE));
        assert_eq!(process::limit_memory(2 * LITTLE), Ok(LITTLE));
        assert_eq!(process::limit_memory(usize::MAX), Ok(LITTLE));
        assert_eq!(process::limit_memory(LITTLE - 1), Ok(LITTLE - 1));
        // Nothing is left to take, but existing objects stay.
        assert_eq!(process::limit_memory(0), Ok(0));
        let mut ends = [0_usize; 2];
        let ends = ends.as_mut_ptr().expose_provenance();
        assert_eq!(call(PIPE, [ends, 0, 0]), FAILED);
        assert_eq!(call(FORK, [0; 3]), FAILED);
        assert_eq!(call(THREAD_CREATE, [0; 3]), FAILED);
        assert_eq!(call(SEMAPHORE_CREATE, [0; 3]), FAILED);
        assert_eq!(call(RING_SETUP, [4, 0, 0]), FAILED);
        assert_eq!(call(GETPID, [0; 3]), process::id() as isize);
    });
}

fn a_limit_holds_for_children_together() {
    alone(|| {
        assert_eq!(process::limit_memory(LITTLE), Ok(LITTLE));
        let mut generations = 0;
        // Each process waits for the next, and so keeps what it costs.
        let code = exit_code(|| {
            loop {
                generations += 1;
                match process::fork() {
                    Ok(process::Fork::Child) => {}
                    Ok(process::Fork::Parent(child)) => {
                        return process::wait(child).expect("the child").code;
                    }
                    Err(_) => return generations.min(1000),
                }
            }
        });
        assert!((10..1000).contains(&code), "{code} generations");
        assert_eq!(process::limit_memory(LITTLE), Ok(LITTLE));
    });
}

fn completions_that_stay_untaken_keep_to_the_limit() {
    alone(|| {
        // The ring itself already exists when the limit is set.
        let rings = Rings::new(256);
        process::limit_memory(LITTLE).expect("few limits");
        let before = heap_used();
        let mut taken = 0;
        let mut submitted = 0;
        for _ in 0..400 {
            while submitted - taken < 256 {
                rings.submit(submission(1, GETPID, [0; 3], 0));
                submitted += 1;
            }
            rings.enter(0);
            taken = rings.taken();
        }
        let more = heap_used() - before;
        assert!(more < LITTLE, "{more} bytes more");
        assert!(taken < 40_000, "{taken} were taken");
        // All submissions that were taken are answered, and then further ones are taken.
        let mut answers = 0;
        for _ in 0..2 * submitted {
            answers += rings.completions().len() as u32;
            rings.enter(0);
        }
        answers += rings.completions().len() as u32;
        assert_eq!((answers, rings.taken()), (submitted, submitted));
    });
}

fn linked_calls_without_memory_fail_one_by_one() {
    alone(|| {
        let rings = Rings::new(64);
        let semaphore = call(SEMAPHORE_CREATE, [0; 3]) as usize;
        process::limit_memory(0).expect("few limits");
        for key in 0..4 {
            let flags = if key < 3 { LINK } else { 0 };
            rings.submit(submission(key, SEMAPHORE_DOWN, [semaphore, 0, 0], flags));
        }
        rings.enter(0);
        let answers: Vec<_> = rings.completions();
        let expected: Vec<_> = (0..4).map(|key| (key, FAILED as i64)).collect();
        assert_eq!(answers, expected);
    });
}

extern "C" fn ends(_: usize) -> ! {
    call(EXIT, [0; 3]);
    unreachable!("it has ended")
}

/// Makes threads that end at once, at most `most`, until the kernel refuses one.
///
/// Returns how many there were.
fn threads_until_refused(most: usize) -> usize {
    let entry = ends as extern "C" fn(usize) -> ! as usize;
    let mut made = 0;
    while made < most && call(THREAD_CREATE, [entry, 0, 0]) >= 0 {
        made += 1;
        if made % 16 == 0 {
            // They must have ended, so that their stacks do not fill the memory.
            thread::yield_now();
        }
    }
    made
}

fn unjoined_threads_are_limited() {
    let code = exit_code(|| {
        let made = threads_until_refused(40_000);
        assert!((1000..1 << 15).contains(&made), "{made} threads");
        // Each thread that is waited for makes room for one.
        assert_eq!(call(WAIT_THREAD, [1, 0, 0]), 0);
        assert_eq!(threads_until_refused(10), 1);
        0
    });
    assert_eq!(code, 0);
}

fn unjoined_threads_stay_within_the_limit() {
    alone(|| {
        process::limit_memory(LITTLE).expect("few limits");
        let before = heap_used();
        let made = threads_until_refused(40_000);
        let more = heap_used() - before;
        // The memory limit refuses threads before the limit on their number does.
        assert!((10..32_000).contains(&made), "{made} threads");
        assert!(more < LITTLE, "{more} bytes more");
    });
}

fn a_child_with_many_files_stays_within_the_limit() {
    alone(|| {
        let mut files = 0;
        while call(DUP, [1, 0, 0]) >= 0 {
            files += 1;
        }
        assert!(files > 60_000, "{files} files");
        // Eight children at a time would need eight tables.
        let children: Vec<_> = (0..4)
            .map(|_| process::spawn(|| 0).expect("memory"))
            .collect();
        for child in children {
            assert_eq!(process::wait(child).expect("the child").code, 0);
        }
        process::limit_memory(LITTLE).expect("few limits");
        assert!(process::spawn(|| 0).is_err());
        for file in 3..files {
            assert_eq!(call(CLOSE, [file, 0, 0]), 0);
        }
    });
}

fn a_call_is_found_without_memory_for_a_table_of_keys() {
    alone(|| {
        let rings = Rings::new(64);
        for key in 0..40 {
            rings.submit(submission(key, SLEEP, [1 << 40, 0, 0], 0));
        }
        rings.enter(0);
        process::limit_memory(0).expect("few limits");
        assert_eq!(call(RING_REPRIORITIZE, [17, 5, 0]), 0);
        assert_eq!(call(RING_REPRIORITIZE, [40, 5, 0]), FAILED);
    });
}

/// Tests that each kind of object is refused at the limit, and again when all objects are gone.
fn every_kind_of_object_stays_within_the_limit() {
    let run = || {
        exit_code(|| {
            process::limit_memory(LITTLE).expect("few limits");
            let before = heap_used();
            let mut room = [0_usize; 2];
            let room = room.as_mut_ptr().expose_provenance();
            let name = c"hello".as_ptr().expose_provenance();
            let kinds: [(usize, [usize; 3]); 7] = [
                (SEMAPHORE_CREATE, [0; 3]),
                (PIPE, [room, 0, 0]),
                (FILE_OPEN, [name, 0, 0]),
                (UDP_CONNECT, [0x7f00_0001, 5000, 5000]),
                (TCP_LISTEN, [0, 1, 0]),
                (CONDVAR_CREATE, [0; 3]),
                (DUP, [1, 0, 0]),
            ];
            for (number, arguments) in kinds {
                let mut made = 0;
                while made < 30_000 && call(number, arguments) >= 0 {
                    made += 1;
                }
                assert!(made < 30_000, "call {number} was never refused");
            }
            let more = heap_used() - before;
            assert!(more < LITTLE, "{more} bytes more");
            0
        })
    };
    assert_eq!(run(), 0);
    let before = heap_used();
    assert_eq!(run(), 0);
    assert_eq!(heap_used(), before);
}

fn a_child_that_cannot_start_leaves_nothing_behind() {
    let before = quiesced(information::system)
        .expect("it is there")
        .processes;
    let code = exit_code(|| {
        // Each limit is a little higher, until a child runs to its end.
        for limit in (0..1 << 16).step_by(256) {
            let child = process::spawn(|| {
                process::limit_memory(limit).expect("few limits");
                match process::spawn(|| 0) {
                    Ok(child) => 1 + process::wait(child).expect("the child").code,
                    Err(_) => 0,
                }
            });
            if process::wait(child.expect("memory"))
                .expect("the child")
                .code
                == 1
            {
                return i32::from(limit < 1 << 10);
            }
        }
        2
    });
    assert_eq!(code, 0);
    let after = quiesced(information::system)
        .expect("it is there")
        .processes;
    assert_eq!(after, before);
}

/// The exit code of a process that fails to run a program.
const NOT_RUN: i32 = 77;

/// Runs a test with two programs on the disk, both of which end with 0.
///
/// One is short. The other has two megabytes of zeros behind it.
fn with_programs(test: impl FnOnce()) {
    in_directory(|| {
        let mut program = fs::read("/true").expect("the archive has it");
        assert!((64 << 10..LITTLE).contains(&program.len()));
        fs::write("short", &program).expect("room");
        program.resize(program.len() + (2 << 20), 0);
        fs::write("long", &program).expect("room");
        test();
        fs::remove("short").expect("it has ended");
        fs::remove("long").expect("it has ended");
    });
}

fn run(program: &str, limit: usize) -> i32 {
    exit_code(|| {
        process::limit_memory(limit).expect("it is less");
        process::exec(program, &["true"]);
        NOT_RUN
    })
}

fn a_program_that_is_read_from_the_disk_stays_within_the_limit() {
    with_programs(|| {
        assert_eq!(run("short", 2 * LITTLE), 0);
        assert_eq!(run("long", 2 * LITTLE), NOT_RUN);
        assert_eq!(run("long", 8 * LITTLE), 0);
    });
}

fn a_program_on_the_disk_is_never_read_into_the_kernels_reserve() {
    with_programs(|| {
        let run_with_full_heap = |program| {
            exit_code(|| {
                assert_eq!(call(FAULT, [FAULT_HEAP, 1, 0]), 0);
                process::exec(program, &["true"]);
                // The fault is over, and the heap has room again.
                assert_eq!(call(FAULT, [FAULT_HEAP, 0, 0]), 1);
                NOT_RUN
            })
        };
        assert_eq!(run_with_full_heap("short"), NOT_RUN);
        assert_eq!(run_with_full_heap("long"), NOT_RUN);
        // A program of the archive needs no large block.
        assert_eq!(run_with_full_heap("true"), 0);
    });
}
