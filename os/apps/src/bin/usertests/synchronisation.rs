//! Tests of the kernel's semaphores, mutexes and condition variables.
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::pin::pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::Poll;

use corank_abi::call::{CONDVAR_CREATE, MUTEX_CREATE, SEMAPHORE_CREATE};
use corank_user::interrupt::preemptible;
use corank_user::sync::{Condvar, Mutex, Semaphore};
use corank_user::{block_on, process, thread};

use crate::interrupting::{on_a_byte, write_and_wait};
use crate::support::{call, exit_code, one_hart, tests};

tests![
    a_semaphore_counts,
    a_semaphore_serves_in_order,
    a_mutex_excludes,
    a_yielding_mutex_excludes,
    a_condition_wakes_one,
    producers_and_consumers_share_a_bounded_queue,
    two_threads_alternate_by_semaphores,
    a_thousand_semaphores_are_independent,
    a_child_has_none_of_its_parents_mutexes,
    numbers_begin_anew_with_a_program,
    the_first_number_is_zero,
    a_guard_that_waits_lets_interrupts_through,
];

fn a_semaphore_counts() {
    // On several harts there may never be two inside at once.
    let _alone = one_hart();
    let semaphore = Arc::new(Semaphore::new(2).expect("a semaphore"));
    let inside = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..10)
        .map(|_| {
            let (semaphore, inside, most) = (
                Arc::clone(&semaphore),
                Arc::clone(&inside),
                Arc::clone(&most),
            );
            thread::spawn(move || {
                semaphore.down();
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
                semaphore.up();
            })
            .expect("a thread")
        })
        .collect();
    for thread in threads {
        thread.join().expect("it ends");
    }
    assert_eq!(most.load(Ordering::SeqCst), 2);
}

fn a_semaphore_serves_in_order() {
    let _alone = one_hart();
    let semaphore = Arc::new(Semaphore::new(0).expect("a semaphore"));
    let order = Arc::new(Mutex::new(Vec::new()).expect("a mutex"));
    let started = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..10)
        .map(|number| {
            let (semaphore, order, started) = (
                Arc::clone(&semaphore),
                Arc::clone(&order),
                Arc::clone(&started),
            );
            let thread = thread::spawn({
                let started = Arc::clone(&started);
                move || {
                    started.fetch_add(1, Ordering::SeqCst);
                    semaphore.down();
                    order.lock().push(number);
                }
            });
            while started.load(Ordering::SeqCst) <= number {
                thread::yield_now();
            }
            // Every thread has one more turn. The thread is in the semaphore's queue now, wherever
            // any thread was interrupted.
            crate::support::spin_for_ticks(2);
            thread.expect("a thread")
        })
        .collect();
    for _ in 0..10 {
        semaphore.up();
    }
    for thread in threads {
        thread.join().expect("it ends");
    }
    assert_eq!(*order.lock(), (0..10).collect::<Vec<_>>());
}

fn exclusion(mutex: Mutex<(usize, usize)>) {
    let mutex = Arc::new(mutex);
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let mutex = Arc::clone(&mutex);
            thread::spawn(move || {
                for _ in 0..100 {
                    let mut pair = mutex.lock();
                    pair.0 += 1;
                    thread::yield_now();
                    pair.1 += 1;
                    assert_eq!(pair.0, pair.1);
                }
            })
            .expect("a thread")
        })
        .collect();
    for thread in threads {
        thread.join().expect("it ends");
    }
    assert_eq!(*mutex.lock(), (800, 800));
}

fn a_mutex_excludes() {
    exclusion(Mutex::new((0, 0)).expect("a mutex"));
}

fn a_yielding_mutex_excludes() {
    exclusion(Mutex::yielding((0, 0)).expect("a mutex"));
}

fn a_condition_wakes_one() {
    let shared = Arc::new((
        Mutex::new(0).expect("a mutex"),
        Condvar::new().expect("a condition variable"),
    ));
    shared.1.signal();
    let waiting = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            let mut value = shared.0.lock();
            while *value == 0 {
                value = shared.1.wait(value);
            }
            *value
        })
        .expect("a thread")
    };
    thread::yield_now();
    *shared.0.lock() = 5;
    shared.1.signal();
    assert_eq!(
        waiting.join(),
        Ok(5),
        "a signal before the wait is lost, one after it isn't"
    );
}

/// Tests producers and consumers over a queue of four places.
fn producers_and_consumers_share_a_bounded_queue() {
    struct Queue {
        items: Mutex<VecDeque<usize>>,
        free: Semaphore,
        full: Semaphore,
    }
    let queue = Arc::new(Queue {
        items: Mutex::new(VecDeque::new()).expect("a mutex"),
        free: Semaphore::new(4).expect("a semaphore"),
        full: Semaphore::new(0).expect("a semaphore"),
    });
    let producers: [_; 4] = core::array::from_fn(|producer| {
        let queue = Arc::clone(&queue);
        thread::spawn(move || {
            for item in 0..50 {
                queue.free.down();
                queue.items.lock().push_back(producer * 50 + item);
                queue.full.up();
            }
        })
        .expect("a thread")
    });
    let consumers: [_; 2] = core::array::from_fn(|_| {
        let queue = Arc::clone(&queue);
        thread::spawn(move || {
            let mut sum = 0;
            for _ in 0..100 {
                queue.full.down();
                let mut items = queue.items.lock();
                assert!(items.len() <= 4);
                sum += items.pop_front().expect("an item for each permit");
                drop(items);
                queue.free.up();
            }
            sum
        })
        .expect("a thread")
    });
    for producer in producers {
        producer.join().expect("it ends");
    }
    let sum: usize = consumers
        .map(|consumer| consumer.join().expect("it ends"))
        .iter()
        .sum();
    assert_eq!(sum, (0..200).sum());
}

fn two_threads_alternate_by_semaphores() {
    let [ping, pong] =
        [0, 0].map(|permits| Arc::new(Semaphore::new(permits).expect("a semaphore")));
    let other = {
        let (ping, pong) = (Arc::clone(&ping), Arc::clone(&pong));
        thread::spawn(move || {
            for _ in 0..500 {
                ping.down();
                pong.up();
            }
        })
        .expect("a thread")
    };
    for _ in 0..500 {
        ping.up();
        pong.down();
    }
    assert_eq!(other.join(), Ok(()));
}

fn a_thousand_semaphores_are_independent() {
    let semaphores: Vec<_> = (0..1000)
        .map(|permits| Semaphore::new(permits % 3).expect("a semaphore"))
        .collect();
    for (number, semaphore) in semaphores.iter().enumerate() {
        for _ in 0..number % 3 {
            semaphore.down();
        }
        semaphore.up();
        semaphore.down();
    }
}

/// Tests that a new mutex in a child does not get the number of an inherited one, which is locked.
///
/// Otherwise the inherited one would be locked a second time under the name of the new one.
fn a_child_has_none_of_its_parents_mutexes() {
    let inherited = Mutex::new(1).expect("a mutex");
    let guard = inherited.lock();
    let code = exit_code(|| {
        let own = Mutex::new(2).expect("a mutex");
        assert_eq!(*own.lock(), 2);
        assert_eq!(*guard, 1, "it is locked here as well");
        let second = inherited.lock();
        *second
    });
    assert_eq!(code, PANICKED, "there is no such mutex");
    let grandchild = exit_code(|| {
        let own = Mutex::new(3).expect("a mutex");
        let guard = own.lock();
        exit_code(|| {
            let _fresh = Mutex::new(4).expect("a mutex");
            let second = own.lock();
            *guard + *second
        })
    });
    assert_eq!(grandchild, PANICKED, "there neither");
    drop(guard);
    assert_eq!(*inherited.lock(), 1);
}

/// Exit code of a program that has panicked.
const PANICKED: i32 = 101;

/// Tests that numbers begin anew with a program.
///
/// Programs of rCore-Tutorial-v3 know their mutexes by their numbers.
fn numbers_begin_anew_with_a_program() {
    for create in [MUTEX_CREATE, SEMAPHORE_CREATE, CONDVAR_CREATE] {
        assert!(call(create, [1, 0, 0]) >= 0);
    }
    let code = exit_code(|| {
        process::exec("usertests", &["usertests", "the_first_number_is_zero"]);
        1
    });
    assert_eq!(code, 0);
}

fn the_first_number_is_zero() {
    // The process of this test is a child of one that has none.
    for create in [MUTEX_CREATE, SEMAPHORE_CREATE, CONDVAR_CREATE] {
        assert_eq!(call(create, [1, 0, 0]), 0);
    }
}

/// Tests that a guard that waits lets interrupts through.
///
/// A thread's guard masks interrupts. Given to an asynchronous wait, which comes back with another
/// guard, it masks them no longer.
fn a_guard_that_waits_lets_interrupts_through() {
    block_on(async {
        let mutex = Mutex::new(()).expect("a mutex");
        let condition = Condvar::new().expect("a condition variable");
        let mut waiting = pin!(condition.wait_async(mutex.lock()));
        poll_fn(|context| {
            assert!(waiting.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        drop(mutex.lock_async().await.expect("memory"));
        condition.signal();
        drop(waiting.await.expect("memory"));
        let (writer, seen) = on_a_byte(5, || {});
        preemptible(|| {
            write_and_wait(&writer);
            assert!(seen.get(), "it was interrupted");
        });
    });
}
