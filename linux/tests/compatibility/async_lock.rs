//! `async-lock`: locks, semaphores and barriers that belong to no runtime.

use std::sync::Arc;

use async_lock::{Barrier, Mutex, OnceCell, RwLock, Semaphore};
use corank_linux::yield_now;

use crate::{run, start};

#[test]
fn a_mutex_is_held_across_awaits() {
    run(async {
        let total = Arc::new(Mutex::new(0));
        let adding: Vec<_> = (0..20)
            .map(|number| {
                let total = total.clone();
                start(number, async move {
                    for _ in 0..50 {
                        let mut total = total.lock().await;
                        let before = *total;
                        yield_now().await;
                        *total = before + 1;
                    }
                })
            })
            .collect();
        for one in adding {
            one.await.unwrap();
        }
        assert_eq!(*total.lock().await, 1000);
    });
}

#[test]
fn readers_share_and_writers_do_not() {
    run(async {
        let lock = Arc::new(RwLock::new(5));
        let (one, other) = (lock.read().await, lock.read().await);
        assert!(lock.try_write().is_none());
        let writer = lock.clone();
        let write = start(3, async move { *writer.write().await += 1 });
        assert_eq!((*one, *other), (5, 5));
        drop((one, other));
        write.await.unwrap();
        assert_eq!(*lock.read().await, 6);
    });
}

#[test]
fn a_barrier_has_one_leader_and_a_cell_one_value() {
    run(async {
        let barrier = Arc::new(Barrier::new(10));
        let cell = Arc::new(OnceCell::new());
        let meeting: Vec<_> = (0..10)
            .map(|number| {
                let (barrier, cell) = (barrier.clone(), cell.clone());
                start(number, async move {
                    let leads = barrier.wait().await.is_leader();
                    (leads, *cell.get_or_init(|| async { number }).await)
                })
            })
            .collect();
        let (mut leaders, mut values) = (0, Vec::new());
        for one in meeting {
            let (leads, value) = one.await.unwrap();
            leaders += usize::from(leads);
            values.push(value);
        }
        assert_eq!(leaders, 1);
        assert!(values.iter().all(|&value| value == values[0]));
    });
}

#[test]
fn a_semaphore_admits_as_many_as_it_has_permits() {
    run(async {
        let semaphore = Arc::new(Semaphore::new(2));
        let (one, two) = (semaphore.acquire_arc().await, semaphore.acquire_arc().await);
        let third = semaphore.clone();
        let third = start(1, async move { drop(third.acquire().await) });
        assert!(semaphore.try_acquire().is_none());
        drop(one);
        third.await.unwrap();
        drop(two);
    });
}
