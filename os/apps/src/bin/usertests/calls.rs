//! Tests of every call that can wait, in each of its forms (COPS, section 4.3.1).
//!
//! All forms give the same result.
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::net::Ipv4Addr;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

use corank_abi::call::{FAULT, FAULT_MEMORY};
use corank_user::corank::{self, CoroutineId};
use corank_user::io::OwnedFd;
use corank_user::net::{TcpListener, TcpStream};
use corank_user::sync::{Condvar, Mutex, Semaphore};
use corank_user::{
    Error, Priority, accept, block_on, condvar_wait, mutex_lock, process, read, ring,
    semaphore_down, sleep, spawn, tcp_connect, thread, time, waitpid, waittid, write, yield_now,
};

use crate::network::listener;
use crate::support::{call, pipe, tests, without_sockets};

tests![
    read_returns_the_same_in_all_forms,
    write_returns_the_same_in_all_forms,
    sleep_lasts_in_all_forms,
    waitpid_collects_in_all_forms,
    waittid_collects_in_all_forms,
    a_mutex_is_locked_in_all_forms,
    a_permit_is_taken_in_all_forms,
    a_signal_is_received_in_all_forms,
    accept_returns_a_connection_in_all_forms,
    connect_returns_a_connection_in_all_forms,
    failures_are_the_same,
    a_sleep_without_memory_fails,
    a_key_is_for_one_call_at_a_time,
    keys_and_unnamed_calls_mix,
    another_coroutine_is_woken,
];

/// This machine's own address, in the form that calls take.
const LOCALHOST: usize = Ipv4Addr::LOCALHOST.to_bits() as usize;

/// Returns the coroutine that runs.
fn this() -> CoroutineId {
    corank::current().expect("a coroutine runs")
}

fn read_returns_the_same_in_all_forms() {
    let (reader, writer) = pipe();
    for _ in 0..4 {
        writer.write(b"abc").expect("room");
    }
    let file = reader.number();
    let mut bytes = [0; 3];
    assert_eq!(read!(file, &mut bytes), Ok(3));
    assert_eq!(&bytes, b"abc");
    block_on(async move {
        let expected = (Ok(3), b"abc".to_vec());
        assert_eq!(
            read!(file, Vec::with_capacity(3), 7, this()).await,
            expected
        );
        assert_eq!(
            corank_user::calls::read_async(file, Vec::with_capacity(3)).await,
            expected
        );
        assert_eq!(ring::read(&reader, Vec::with_capacity(3)).await, expected);
    });
}

fn write_returns_the_same_in_all_forms() {
    let (reader, writer) = pipe();
    let file = writer.number();
    assert_eq!(write!(file, b"a"), Ok(1));
    block_on(async move {
        assert_eq!(
            write!(file, b"b".to_vec(), 7, this()).await,
            (Ok(1), b"b".to_vec())
        );
        assert_eq!(
            ring::write(&writer, b"c".to_vec()).await,
            (Ok(1), b"c".to_vec())
        );
        assert_eq!(ring::write_and_close(writer, b"d".to_vec()).await.0, Ok(1));
        let (count, bytes) = ring::read(&reader, Vec::with_capacity(9)).await;
        assert_eq!((count, &bytes[..]), (Ok(4), &b"abcd"[..]));
    });
}

fn sleep_lasts_in_all_forms() {
    let slept = |start: u64| time::duration(time::ticks() - start);
    let least = Duration::from_millis(3);
    let start = time::ticks();
    assert_eq!(sleep!(3), Ok(0));
    assert!(slept(start) >= least);
    block_on(async move {
        let start = time::ticks();
        assert_eq!(sleep!(3, 1, this()).await, Ok(0));
        assert!(slept(start) >= least);
        let start = time::ticks();
        assert_eq!(ring::sleep(least).await, Ok(()));
        assert!(slept(start) >= least);
    });
}

fn waitpid_collects_in_all_forms() {
    let child = |code: i32| {
        process::spawn(move || {
            thread::yield_now();
            code
        })
        .expect("a process")
    };
    let first = child(1);
    let mut code = 0;
    assert_eq!(waitpid!(first, &mut code), Ok(first));
    assert_eq!(code, 1);
    let (second, third) = (child(2), child(3));
    block_on(async move {
        assert_eq!(waitpid!(second, 1, this()).await, Ok((second, 2)));
        assert_eq!(
            ring::wait_process(third).await,
            Ok(process::Exited {
                pid: third,
                code: 3
            })
        );
    });
}

fn waittid_collects_in_all_forms() {
    let exits_with = |code: i32| {
        thread::spawn(move || {
            thread::yield_now();
            process::exit(code)
        })
        .expect("a thread")
        .id()
    };
    assert_eq!(waittid!(exits_with(1)), Ok(1));
    let (second, third) = (exits_with(2), exits_with(3));
    block_on(async move {
        assert_eq!(waittid!(second, 1, this()).await, Ok(2));
        assert_eq!(ring::wait_thread(third).await, Ok(3));
    });
}

/// Creates a mutex of the kernel and returns its number.
fn mutex() -> usize {
    call(corank_abi::call::MUTEX_CREATE, [1, 0, 0]) as usize
}

fn unlock(mutex: usize) -> isize {
    call(corank_abi::call::MUTEX_UNLOCK, [mutex, 0, 0])
}

/// Polls a future once and then the ready coroutines, until the kernel has taken the call.
async fn submit<T>(future: core::pin::Pin<&mut impl Future<Output = T>>) {
    let mut future = future;
    poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    // The kernel takes calls in order, so it has taken the future's call before this one.
    sleep!(0, 99, this()).await.expect("memory");
}

fn a_mutex_is_locked_in_all_forms() {
    let mutex = mutex();
    assert_eq!(mutex_lock!(mutex), Ok(0));
    block_on(async move {
        let mut lock = pin!(mutex_lock!(mutex, 1, this()));
        submit(lock.as_mut()).await;
        assert_eq!(unlock(mutex), 0);
        assert_eq!(lock.await, Ok(0));
        assert_eq!(unlock(mutex), 0, "it was locked");
        assert_eq!(mutex_lock!(mutex, 1, this()).await, Ok(0), "it is free");
        assert_eq!(unlock(mutex), 0);
    });
    let counter = Mutex::new(0).expect("a mutex");
    block_on(async move {
        *counter.lock_async().await.expect("memory") += 1;
        *counter.lock() += 1;
        assert_eq!(*counter.lock_async().await.expect("memory"), 2);
    });
}

fn a_permit_is_taken_in_all_forms() {
    let semaphore = call(corank_abi::call::SEMAPHORE_CREATE, [1, 0, 0]) as usize;
    let up = move || call(corank_abi::call::SEMAPHORE_UP, [semaphore, 0, 0]);
    assert_eq!(semaphore_down!(semaphore), Ok(0));
    block_on(async move {
        let mut down = pin!(semaphore_down!(semaphore, 1, this()));
        submit(down.as_mut()).await;
        assert_eq!(up(), 0);
        assert_eq!(down.await, Ok(0));
        let semaphore = Semaphore::new(0).expect("a semaphore");
        let mut down = pin!(semaphore.down_async());
        submit(down.as_mut()).await;
        semaphore.up();
        assert_eq!(down.await, Ok(()));
    });
}

fn a_signal_is_received_in_all_forms() {
    let mutex = mutex();
    let condition = call(corank_abi::call::CONDVAR_CREATE, [0; 3]) as usize;
    let signal = move || call(corank_abi::call::CONDVAR_SIGNAL, [condition, 0, 0]);
    assert_eq!(mutex_lock!(mutex), Ok(0));
    let other = thread::spawn(move || {
        mutex_lock!(mutex).expect("it is there");
        signal();
        unlock(mutex);
    })
    .expect("a thread");
    // SAFETY: this thread holds the mutex, here and below; it guards nothing.
    let waited = unsafe { condvar_wait!(condition, mutex) };
    assert_eq!(waited, Ok(0));
    other.join().expect("it ends");
    block_on(async move {
        // SAFETY: as above.
        let mut wait = pin!(unsafe { condvar_wait!(condition, mutex, 1, this()) });
        submit(wait.as_mut()).await;
        assert_eq!(mutex_lock!(mutex), Ok(0), "the waiter has unlocked it");
        assert_eq!(signal(), 0);
        assert_eq!(unlock(mutex), 0);
        assert_eq!(wait.await, Ok(0));
        assert_eq!(unlock(mutex), 0, "and locked it again");

        let (mutex, condvar) = (Mutex::new(1).expect("one"), Condvar::new().expect("one"));
        let guard = mutex.lock_async().await.expect("memory");
        let mut wait = pin!(condvar.wait_async(guard));
        submit(wait.as_mut()).await;
        *mutex.lock() += 1;
        condvar.signal();
        assert_eq!(*wait.await.expect("memory"), 2);
    });
}

/// Returns the connection behind the result of a call.
fn opened(number: Result<usize, Error>) -> TcpStream {
    let number = number.expect("there is another end");
    TcpStream::from_descriptor(OwnedFd::from_number(number))
}

/// Expects that these are the ends of one connection, and ends it by a reset.
///
/// After a reset nothing is kept for frames that may still arrive.
fn assert_connected(here: TcpStream, there: TcpStream) {
    let mut byte = [0];
    assert_eq!(here.write_blocking(b"a"), Ok(1));
    assert_eq!((there.read_blocking(&mut byte), &byte), (Ok(1), b"a"));
    here.reset();
}

fn accept_returns_a_connection_in_all_forms() {
    let (listener, address) = listener();
    let number = listener.number();
    let knock = move || TcpStream::connect_blocking(address).expect("a listener");
    let here = knock();
    assert_connected(here, opened(accept!(number)));
    block_on(async move {
        let mut accept = pin!(accept!(number, 7, this()));
        submit(accept.as_mut()).await;
        let here = knock();
        assert_connected(here, opened(accept.await));
        let here = knock();
        assert_connected(here, opened(accept!(number, 7, this()).await));
        let here = knock();
        let there = corank_user::calls::accept_async(number).await;
        assert_connected(here, opened(there));
        let here = knock();
        let there = listener.accept().await.expect("a connection");
        assert_connected(here, there);
    });
    without_sockets();
}

fn connect_returns_a_connection_in_all_forms() {
    let (listener, address) = listener();
    let (host, port) = (LOCALHOST, address.port().into());
    let accepted = |listener: &TcpListener| listener.accept_blocking().expect("a connection");
    let here = opened(tcp_connect!(host, port, 0));
    assert_connected(here, accepted(&listener));
    block_on(async move {
        let here = opened(tcp_connect!(host, port, 0, 7, this()).await);
        assert_connected(here, accepted(&listener));
        let here = corank_user::calls::tcp_connect_async(host, port, 0).await;
        assert_connected(opened(here), accepted(&listener));
        let here = TcpStream::connect(address).await;
        assert_connected(here.expect("a listener"), accepted(&listener));
    });
    without_sockets();
}

/// Tests that calls that the kernel refuses fail in the same way in all forms.
///
/// There is no such listener, file, child, thread, mutex, semaphore or condition variable, and
/// nothing listens at the port.
fn failures_are_the_same() {
    const WRONG: usize = 77;
    /// A port at which nothing listens.
    const PORT: usize = 1;
    let mut code = 0;
    let errors = [
        accept!(WRONG).map(|_| ()),
        tcp_connect!(LOCALHOST, PORT, 0).map(|_| ()),
        read!(WRONG, &mut [0; 4]).map(|_| ()),
        write!(WRONG, b"x").map(|_| ()),
        waitpid!(WRONG, &mut code).map(|_| ()),
        waittid!(WRONG).map(|_| ()),
        mutex_lock!(WRONG).map(|_| ()),
        semaphore_down!(WRONG).map(|_| ()),
        // SAFETY: there is no such mutex.
        unsafe { condvar_wait!(WRONG, WRONG) }.map(|_| ()),
    ];
    block_on(async move {
        let same = [
            accept!(WRONG, 1, this()).await.map(|_| ()),
            tcp_connect!(LOCALHOST, PORT, 0, 1, this())
                .await
                .map(|_| ()),
            read!(WRONG, Vec::with_capacity(4), 1, this())
                .await
                .0
                .map(|_| ()),
            write!(WRONG, b"x".to_vec(), 1, this()).await.0.map(|_| ()),
            waitpid!(WRONG, 1, this()).await.map(|_| ()),
            waittid!(WRONG, 1, this()).await.map(|_| ()),
            mutex_lock!(WRONG, 1, this()).await.map(|_| ()),
            semaphore_down!(WRONG, 1, this()).await.map(|_| ()),
            // SAFETY: there is no such mutex.
            unsafe { condvar_wait!(WRONG, WRONG, 1, this()) }
                .await
                .map(|_| ()),
        ];
        for (number, (one, other)) in errors.iter().zip(&same).enumerate() {
            assert!(one.is_err(), "call {number}");
            assert_eq!(one, other, "call {number}");
        }
    });
}

/// Tests the only failure of `sleep`, in the form that has it.
fn a_sleep_without_memory_fails() {
    block_on(async {
        assert_eq!(call(FAULT, [FAULT_MEMORY, 1, 0]), 0);
        assert!(sleep!(1000, 1, this()).await.is_err());
        assert_eq!(call(FAULT, [FAULT_MEMORY, 0, 0]), 0, "the fault has come");
        assert_eq!(sleep!(0, 1, this()).await, Ok(0), "once");
    });
}

fn a_key_is_for_one_call_at_a_time() {
    block_on(async {
        let (reader, writer) = pipe();
        let file = reader.number();
        {
            let mut first = pin!(read!(file, Vec::with_capacity(1), 5, this()));
            submit(first.as_mut()).await;
            let (refused, buffer) = read!(file, Vec::with_capacity(10), 5, this()).await;
            assert!(refused.is_err());
            assert_eq!(buffer.capacity(), 10, "the buffer comes back");
            writer.write(b"a").expect("room");
            assert_eq!(first.await, (Ok(1), b"a".to_vec()));
        }
        writer.write(b"b").expect("room");
        let (count, _) = read!(file, Vec::with_capacity(1), 5, this()).await;
        assert_eq!(count, Ok(1), "the key is free again");
        {
            let mut dropped = pin!(read!(file, Vec::with_capacity(1), 5, this()));
            submit(dropped.as_mut()).await;
        }
        writer.write(b"c").expect("room");
        let (count, bytes) = read!(file, Vec::with_capacity(1), 5, this()).await;
        assert_eq!((count, &bytes[..]), (Ok(1), &b"c"[..]), "and after a drop");
    });
}

fn keys_and_unnamed_calls_mix() {
    block_on(async {
        let tasks: Vec<_> = (0..200_u32)
            .map(|number| {
                let (reader, writer) = pipe();
                let task = async move {
                    let buffer = Vec::with_capacity(4);
                    let (count, bytes) = if number % 2 == 0 {
                        let key = u64::from(number) << 32;
                        read!(reader.number(), buffer, key, this()).await
                    } else {
                        ring::read(&reader, buffer).await
                    };
                    assert_eq!((count, bytes), (Ok(4), number.to_le_bytes().to_vec()));
                };
                (spawn(Priority::DEFAULT, task).expect("memory"), writer)
            })
            .collect();
        for (number, (task, writer)) in (0_u32..).zip(tasks).collect::<Vec<_>>().into_iter().rev() {
            writer.write(&number.to_le_bytes()).expect("room");
            task.await.expect("it ends");
        }
    });
}

/// Tests that a call wakes the coroutine `cid`, which need not be the one that polls.
fn another_coroutine_is_woken() {
    block_on(async {
        let (reader, writer) = pipe();
        let file = reader.number();
        let woken = spawn(Priority::DEFAULT, async {
            let mut polls = 0;
            poll_fn(|_| {
                polls += 1;
                if polls == 2 {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
        })
        .expect("memory");
        yield_now().await;
        let mut reading = pin!(read!(file, Vec::with_capacity(1), 5, woken.id()));
        submit(reading.as_mut()).await;
        writer.write(b"x").expect("room");
        woken.await.expect("the call wakes it");
        assert_eq!(reading.await, (Ok(1), b"x".to_vec()));
    });
}
