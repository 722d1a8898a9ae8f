//! Tests of asynchronous system calls through the library.
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use corank_user::corank::time;
use corank_user::{Priority, block_on, process, ring, spawn, thread, yield_now};

use crate::support::{calls_under_way, one_hart, pipe, tests};

tests![
    coroutines_read_and_write,
    a_write_closes_its_file,
    a_dropped_call_is_taken_back,
    a_cancelled_read_leaves_its_bytes,
    more_calls_than_entries_complete,
    calls_beyond_the_kernels_limit_wait_for_room,
    a_coroutine_waits_for_a_process,
    many_pipes_carry_their_own_bytes,
    sleeping_coroutines_wake_in_order,
    a_time_limit_ends_a_read,
];

fn coroutines_read_and_write() {
    block_on(async {
        let (reader, writer) = pipe();
        let reading = spawn(Priority::DEFAULT, async move {
            ring::read(&reader, Vec::with_capacity(10)).await
        });
        yield_now().await;
        assert_eq!(
            ring::write(&writer, b"first".to_vec()).await,
            (Ok(5), b"first".to_vec())
        );
        assert_eq!(ring::write(&writer, b"second".to_vec()).await.0, Ok(6));
        let (count, buffer) = reading.expect("memory").await.expect("it ends");
        assert_eq!((count, &buffer[..]), (Ok(10), &b"firstsecon"[..]));
        ring::close(writer);
    });
}

fn a_write_closes_its_file() {
    block_on(async {
        let (reader, writer) = pipe();
        assert_eq!(
            ring::write_and_close(writer, b"data".to_vec()).await.0,
            Ok(4)
        );
        let (count, buffer) = ring::read(&reader, Vec::with_capacity(100)).await;
        assert_eq!((count, &buffer[..]), (Ok(4), &b"data"[..]));
        let (count, buffer) = ring::read(&reader, buffer).await;
        assert_eq!((count, buffer.len()), (Ok(0), 0));
    });
}

/// Polls a future once, and expects it to be pending.
fn poll_once<T>(future: core::pin::Pin<&mut impl Future<Output = T>>) {
    assert!(matches!(
        future.poll(&mut Context::from_waker(Waker::noop())),
        Poll::Pending
    ));
}

fn a_dropped_call_is_taken_back() {
    block_on(async {
        let (reader, writer) = pipe();
        writer.write(b"ab").expect("room");
        {
            let mut read = pin!(ring::read(&reader, Vec::with_capacity(1)));
            poll_once(read.as_mut());
        }
        let (count, buffer) = ring::read(&reader, Vec::with_capacity(1)).await;
        assert_eq!(
            (count, &buffer[..]),
            (Ok(1), &b"a"[..]),
            "the dropped read took nothing"
        );
    });
}

fn a_cancelled_read_leaves_its_bytes() {
    block_on(async {
        let (reader, writer) = pipe();
        let handle = spawn(Priority::DEFAULT, {
            let reader = reader.duplicate().expect("a descriptor");
            async move { ring::read(&reader, Vec::with_capacity(2000)).await.0 }
        })
        .expect("memory");
        // During these calls the process enters the kernel, which takes the call.
        for _ in 0..2 {
            let (other, end) = pipe();
            ring::write_and_close(end, b"x".to_vec())
                .await
                .0
                .expect("room");
            ring::read(&other, Vec::with_capacity(2))
                .await
                .0
                .expect("it can be read");
        }
        // Now the kernel has released the buffer.
        assert!(handle.cancel());
        let canaries: Vec<Vec<u8>> = (0..50).map(|_| alloc::vec![7; 2000]).collect();
        assert_eq!(
            ring::write_and_close(writer, alloc::vec![1; 2000]).await.0,
            Ok(2000)
        );
        let (count, bytes) = ring::read(&reader, Vec::with_capacity(2000)).await;
        assert_eq!((count, bytes), (Ok(2000), alloc::vec![1; 2000]));
        assert!(canaries.iter().flatten().all(|byte| *byte == 7));
    });
}

fn more_calls_than_entries_complete() {
    block_on(async {
        let tasks: Vec<_> = (0..4 * ring::ENTRIES)
            .map(|number| {
                let (reader, writer) = pipe();
                let task = async move {
                    let (count, buffer) = ring::read(&reader, Vec::with_capacity(5)).await;
                    assert_eq!(count, Ok(4));
                    assert_eq!(buffer, number.to_le_bytes());
                };
                (spawn(Priority::DEFAULT, task).expect("memory"), writer)
            })
            .collect();
        for (number, (task, writer)) in tasks.into_iter().enumerate() {
            let data = (number as u32).to_le_bytes().to_vec();
            assert_eq!(ring::write_and_close(writer, data).await.0, Ok(4));
            task.await.expect("it ends");
        }
    });
}

/// Tests more calls than the kernel takes.
///
/// The kernel has 65,536 calls of a process under way at most. Further calls wait for room, and can
/// be cancelled meanwhile. They get room even if the process never waits.
fn calls_beyond_the_kernels_limit_wait_for_room() {
    // One write wakes all readers of the same pipe. Each pipe has few readers, and no more than the
    // ring has room for. Beyond that number the process enters the kernel.
    const PIPES: usize = 1100;
    const EACH: usize = 60;
    const { assert!(PIPES * EACH > 1 << 16 && EACH < ring::ENTRIES as usize) };
    // The pipes that are read while another coroutine keeps the process busy.
    const BUSY: usize = 20;
    const { assert!(BUSY * EACH > PIPES * EACH - (1 << 16)) };
    block_on(async {
        let busy = async {
            loop {
                yield_now().await;
            }
        };
        let mut busy = Some(spawn(Priority::DEFAULT, busy).expect("memory"));
        let pipes = ring::pipes(PIPES).await.expect("descriptors and memory");
        let read = |pipe: usize| Box::pin(ring::read(&pipes[pipe].reader, Vec::with_capacity(1)));
        let mut reads: Vec<_> = (0..PIPES * EACH)
            .map(|number| read(number / EACH))
            .collect();
        for read in &mut reads {
            poll_once(read.as_mut());
        }
        assert_eq!(calls_under_way(), 1 << 16);
        // The last reads have reached neither the kernel nor the ring, so cancelling one there
        // takes nothing. A cancelled read that the kernel has makes room for one.
        reads.truncate((PIPES - 1) * EACH);
        drop(reads.remove(0));
        let mut reads = reads.into_iter();
        for (number, pipe) in pipes.iter().enumerate() {
            let left = match number {
                0 => EACH - 1,
                last if last == PIPES - 1 => 0,
                _ => EACH,
            };
            assert_eq!(pipe.writer.write(&[7; EACH]), Ok(EACH));
            for read in reads.by_ref().take(left) {
                let (count, data) = read.await;
                assert_eq!((count, data.as_slice()), (Ok(1), &[7][..]));
            }
            let mut rest = [0; EACH];
            let rest = &mut rest[left..];
            assert_eq!(pipe.reader.read(rest), Ok(rest.len()));
            if number == BUSY {
                // By now each read has had room. On one hart the kernel has had its turn only at
                // the end of the process's slices.
                drop(busy.take());
            }
        }
    });
}

fn a_coroutine_waits_for_a_process() {
    let child = process::spawn(|| {
        thread::yield_now();
        33
    })
    .expect("a process");
    let exited = block_on(ring::wait_process(child));
    assert_eq!(
        exited,
        Ok(process::Exited {
            pid: child,
            code: 33
        })
    );
}

fn many_pipes_carry_their_own_bytes() {
    block_on(async {
        let pipes = ring::pipes(1000).await.expect("descriptors and memory");
        assert_eq!(pipes.len(), 1000);
        for (number, pipe) in pipes.iter().enumerate() {
            assert_eq!(
                [pipe.reader.number(), pipe.writer.number()],
                [3 + 2 * number, 4 + 2 * number]
            );
        }
        pipes[999].writer.write(b"x").expect("room");
        assert_eq!(pipes[999].reader.read(&mut [0]), Ok(1));
    });
}

/// Tests that sleeping coroutines wake in order.
///
/// Nothing else is under way, so the executor waits in the kernel for each of them.
fn sleeping_coroutines_wake_in_order() {
    let order = alloc::rc::Rc::new(core::cell::RefCell::new(Vec::new()));
    let log = alloc::rc::Rc::clone(&order);
    let start = corank_user::time::ticks();
    block_on(async move {
        // However long it takes until they sleep, these times have an order.
        let begin = time::now();
        let handles = [30_u64, 10, 20].map(|milliseconds| {
            let log = alloc::rc::Rc::clone(&log);
            let task = async move {
                time::sleep_until(begin + milliseconds * 1_000_000).await;
                log.borrow_mut().push(milliseconds);
            };
            spawn(Priority::DEFAULT, task).expect("memory")
        });
        for handle in handles {
            handle.await.expect("it ends");
        }
    });
    assert_eq!(*order.borrow(), [10, 20, 30]);
    let slept = corank_user::time::duration(corank_user::time::ticks() - start);
    assert!(slept >= Duration::from_millis(30), "slept {slept:?}");
}

fn a_time_limit_ends_a_read() {
    let _alone = one_hart();
    block_on(async {
        let (reader, writer) = pipe();
        let reading = ring::read(&reader, Vec::with_capacity(1));
        assert!(
            time::timeout(Duration::from_millis(15), reading)
                .await
                .is_err()
        );
        // The cancelled read is over, so it takes nothing.
        writer.write(b"ab").expect("room");
        thread::yield_now();
        let (count, buffer) = ring::read(&reader, Vec::with_capacity(1)).await;
        assert_eq!((count, &buffer[..]), (Ok(1), &b"a"[..]));
    });
}
