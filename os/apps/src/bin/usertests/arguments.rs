//! Tests of every system call with wrong arguments, and of its answer.
use corank_abi::call::*;
use corank_user::{process, raw};

use crate::support::{BAD_ADDRESS, KERNEL, UNMAPPED, call, exit_code, expect_end, pipe, tests};

tests![
    unknown_calls_are_not_implemented,
    closed_descriptors_are_refused,
    descriptors_of_the_wrong_direction_are_refused,
    bad_pointers_end_the_process,
    code_is_not_writable,
    a_string_without_an_end_is_refused,
    a_missing_file_does_not_open,
    an_open_file_is_read,
    missing_objects_are_refused,
    missing_threads_are_refused,
    missing_children_are_refused,
    unknown_signals_and_missing_processes_are_refused,
    buffers_of_length_zero_move_nothing,
    a_buffer_across_the_end_of_memory_ends_the_process,
    unknown_wait_modes_are_refused,
    dup_shares_the_file,
    numbers_are_reused_from_the_lowest,
    a_child_opens_at_the_lowest_that_was_closed,
];

fn unknown_calls_are_not_implemented() {
    for number in [0, 1, 62, 66, 999, 2000, 3999, 4999, usize::MAX] {
        assert_eq!(call(number, [1, 2, 3]), NOT_IMPLEMENTED, "call {number}");
    }
}

fn closed_descriptors_are_refused() {
    let mut byte = [0_u8];
    for descriptor in [3, 1000, 1 << 16, usize::MAX] {
        assert_eq!(
            call(READ, [descriptor, byte.as_mut_ptr().expose_provenance(), 1]),
            FAILED
        );
        assert_eq!(
            call(
                WRITE,
                [descriptor, byte.as_mut_ptr().expose_provenance(), 1]
            ),
            FAILED
        );
        assert_eq!(call(CLOSE, [descriptor, 0, 0]), FAILED);
        assert_eq!(call(DUP, [descriptor, 0, 0]), FAILED);
    }
}

fn descriptors_of_the_wrong_direction_are_refused() {
    let (reader, writer) = pipe();
    assert!(reader.write(&[1]).is_err());
    assert!(writer.read(&mut [0]).is_err());
}

/// The arguments of a call, given the pointer among them.
type Arguments = fn(usize) -> [usize; 3];

/// Tests that each call with a pointer ends the process if the pointer is not to its memory.
fn bad_pointers_end_the_process() {
    let calls: [(usize, Arguments); 9] = [
        (READ, |pointer| [3, pointer, 1]),
        (WRITE, |pointer| [4, pointer, 1]),
        (WRITE, |pointer| [1, pointer, 1]),
        (PIPE, |pointer| [pointer, 0, 0]),
        (OPEN, |pointer| [pointer, 0, 0]),
        (EXEC, |pointer| [pointer, 0, 0]),
        (EXEC, |pointer| {
            [c"hello".as_ptr().expose_provenance(), pointer, 0]
        }),
        (WAITPID, |pointer| [usize::MAX, pointer, 0]),
        (WAIT_PROCESS, |pointer| [usize::MAX, pointer, 0]),
    ];
    for (number, arguments) in calls {
        for pointer in [8, UNMAPPED, KERNEL, usize::MAX] {
            expect_end(BAD_ADDRESS, || {
                let (reader, writer) = pipe();
                assert_eq!((reader.number(), writer.number()), (3, 4));
                writer.write(&[1]).expect("the pipe has room");
                let child = process::spawn(|| 0).expect("a process");
                // Yields until the child has ended, so that there is something to report.
                while call(KILL, [child, 0, 0]) == 0 {
                    call(YIELD, [0; 3]);
                }
                let result = call(number, arguments(pointer));
                panic!("call {number} with pointer {pointer:#x} returned {result}");
            });
        }
    }
}

fn code_is_not_writable() {
    let code = code_is_not_writable as fn() as usize;
    expect_end(BAD_ADDRESS, || {
        call(PIPE, [code & !7, 0, 0]);
    });
}

fn a_string_without_an_end_is_refused() {
    let text = [b'x'; 512];
    assert_eq!(
        call(OPEN, [text.as_ptr().expose_provenance(), 0, 0]),
        FAILED
    );
    assert_eq!(
        call(EXEC, [text.as_ptr().expose_provenance(), 0, 0]),
        FAILED
    );
}

fn a_missing_file_does_not_open() {
    assert_eq!(
        call(OPEN, [c"no such file".as_ptr().expose_provenance(), 0, 0]),
        FAILED
    );
    assert!(process::exec("no such file", &[]).is_some());
    assert_eq!(call(OPEN, [c"".as_ptr().expose_provenance(), 0, 0]), FAILED);
}

fn an_open_file_is_read() {
    let descriptor = call(OPEN, [c"usertests".as_ptr().expose_provenance(), 0, 0]);
    assert_eq!(descriptor, 3);
    let mut start = [0_u8; 4];
    assert_eq!(
        call(READ, [3, start.as_mut_ptr().expose_provenance(), 4]),
        4
    );
    assert_eq!(&start, b"\x7fELF");
    assert_eq!(
        call(WRITE, [3, start.as_ptr().expose_provenance(), 4]),
        FAILED
    );
    assert_eq!(call(CLOSE, [3, 0, 0]), 0);
}

fn missing_objects_are_refused() {
    for number in [
        SEMAPHORE_UP,
        SEMAPHORE_DOWN,
        MUTEX_LOCK,
        MUTEX_UNLOCK,
        CONDVAR_SIGNAL,
        CONDVAR_WAIT,
    ] {
        for id in [0, 7, usize::MAX] {
            assert_eq!(call(number, [id, 0, 0]), FAILED, "call {number} of {id}");
        }
    }
    let condition = call(CONDVAR_CREATE, [0; 3]) as usize;
    assert_eq!(
        call(CONDVAR_WAIT, [condition, 7, 0]),
        FAILED,
        "a mutex that doesn't exist"
    );
    let mutex = call(MUTEX_CREATE, [1, 0, 0]) as usize;
    assert_eq!(
        call(MUTEX_UNLOCK, [mutex, 0, 0]),
        FAILED,
        "a mutex that isn't locked"
    );
    assert_eq!(
        call(CONDVAR_WAIT, [condition, mutex, 0]),
        FAILED,
        "a mutex that isn't locked"
    );
}

fn missing_threads_are_refused() {
    for tid in [0, 1, usize::MAX] {
        assert_eq!(call(WAITTID, [tid, 0, 0]), FAILED, "thread {tid}");
        assert_eq!(call(WAIT_THREAD, [tid, 0, 0]), FAILED, "thread {tid}");
    }
}

fn missing_children_are_refused() {
    assert!(process::wait_any().is_err());
    for pid in [0, 1, process::id(), 1 << 40] {
        assert!(process::wait(pid).is_err());
        assert!(process::try_wait(pid).is_err());
    }
}

fn unknown_signals_and_missing_processes_are_refused() {
    assert!(process::kill(1 << 40, 9).is_err());
    assert!(
        process::kill(process::id(), 0).is_ok(),
        "signal 0 tests whether the process exists"
    );
    assert!(process::kill(process::id(), 33).is_err());
    assert!(process::kill(process::id(), u32::MAX).is_err());
}

/// Tests buffers of length zero.
///
/// No byte moves, so the pointer doesn't matter.
fn buffers_of_length_zero_move_nothing() {
    let (reader, writer) = pipe();
    for pointer in [0, UNMAPPED, KERNEL] {
        assert_eq!(call(WRITE, [writer.number(), pointer, 0]), 0);
        assert_eq!(call(READ, [reader.number(), pointer, 0]), 0);
    }
}

fn a_buffer_across_the_end_of_memory_ends_the_process() {
    let last = corank_user::page::SYSTEM_PAGE + corank_user::page::PAGE_SIZE - 1;
    let (reader, writer) = pipe();
    assert_eq!(
        call(WRITE, [writer.number(), last, 1]),
        1,
        "the last byte of the page can be read"
    );
    expect_end(BAD_ADDRESS, || {
        call(WRITE, [writer.number(), last, 2]);
    });
    expect_end(BAD_ADDRESS, || {
        call(READ, [reader.number(), last, 1]);
    });
    expect_end(BAD_ADDRESS, || {
        call(WRITE, [writer.number(), usize::MAX - 1, 4]);
    });
    expect_end(BAD_ADDRESS, || {
        call(WRITE, [writer.number(), last, usize::MAX]);
    });
}

fn unknown_wait_modes_are_refused() {
    assert_eq!(call(WAIT_MODE, [WAIT_YIELD, 0, 0]), WAIT_BLOCK as isize);
    assert_eq!(call(WAIT_MODE, [2, 0, 0]), FAILED);
    assert_eq!(call(WAIT_MODE, [WAIT_BLOCK, 0, 0]), WAIT_YIELD as isize);
}

fn dup_shares_the_file() {
    let (reader, writer) = pipe();
    let second = writer.duplicate().expect("a descriptor");
    drop(writer);
    assert_eq!(second.write(b"x"), Ok(1));
    drop(second);
    let mut buffer = [0; 2];
    assert_eq!(
        reader.read(&mut buffer),
        Ok(1),
        "the write end is closed with its last descriptor"
    );
}

fn numbers_are_reused_from_the_lowest() {
    let (reader, writer) = pipe();
    let (other, _) = pipe();
    assert_eq!(
        [reader.number(), writer.number(), other.number()],
        [3, 4, 5]
    );
    drop(writer);
    drop(reader);
    // SAFETY: `dup` touches no memory.
    assert_eq!(unsafe { raw::system_call(DUP, [1, 0, 0]) }, 3);
    assert_eq!(call(DUP, [1, 0, 0]), 4);
    assert_eq!(call(DUP, [1, 0, 0]), 6);
}

/// Tests it where no descriptor behind a whole word of the kernel's table is open.
fn a_child_opens_at_the_lowest_that_was_closed() {
    for descriptor in 3..200 {
        assert_eq!(call(DUP, [1, 0, 0]), descriptor);
    }
    for descriptor in 64..200 {
        assert_eq!(call(CLOSE, [descriptor, 0, 0]), 0);
    }
    let code = exit_code(|| {
        assert_eq!(call(DUP, [1, 0, 0]), 64);
        assert_eq!(call(DUP, [1, 0, 0]), 65);
        6
    });
    assert_eq!(code, 6);
    for descriptor in 3..64 {
        assert_eq!(call(CLOSE, [descriptor, 0, 0]), 0);
    }
}
