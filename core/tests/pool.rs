//! Pools: a fixed number of rooms of a fixed size in static memory.
//!
//! Whatever does not fit is an error.

use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::common::{Counter, Slot, level, times};
use corank::{Config, Executor, JoinHandle, Pool, PoolInUse, Priority, SpawnError, yield_now};

fn spawn<F: Future + 'static>(executor: &Executor, future: F) -> JoinHandle<F::Output> {
    executor.spawn(Priority::DEFAULT, future).unwrap()
}

#[test]
fn rooms_are_used_again_and_again() {
    static POOL: Pool<3, 64> = Pool::new();
    let executor = Executor::in_pool(&POOL, Config::new()).unwrap();
    let drops = Counter::new();
    for round in 0..times(1_000) {
        let handles: Vec<_> = (0..3)
            .map(|i| {
                let guard = drops.guard();
                spawn(&executor, async move {
                    yield_now().await;
                    drop(guard);
                    round + i
                })
            })
            .collect();
        let refused = executor.spawn(level(1), async {});
        assert_eq!(refused.unwrap_err(), SpawnError::TableFull);
        assert_eq!(executor.run_until_idle(), 6);
        for (i, handle) in handles.into_iter().enumerate() {
            assert_eq!(handle.try_join().unwrap().unwrap(), round + i);
        }
    }
    assert_eq!(drops.count(), 3 * times(1_000));
}

#[test]
fn handle_keeps_the_room_of_its_result() {
    static POOL: Pool<1, 64> = Pool::new();
    let executor = Executor::in_pool(&POOL, Config::new()).unwrap();
    let handle = spawn(&executor, async { [3u64; 4] });
    executor.run_until_idle();
    // Nothing lives, and yet the result needs the room.
    assert_eq!(executor.live(), 0);
    let refused = executor.spawn(level(1), async {});
    assert_eq!(refused.unwrap_err(), SpawnError::TableFull);
    assert_eq!(handle.try_join().unwrap().unwrap(), [3; 4]);
    drop(spawn(&executor, async {}));
}

/// A future that is one number, with any alignment of its output.
struct Gives<T>(T);

impl<T: Copy + Unpin> Future for Gives<T> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        Poll::Ready(self.0)
    }
}

#[derive(Clone, Copy)]
#[repr(align(16))]
struct Aligned(#[expect(dead_code)] u8);

#[test]
fn only_what_fits_gets_a_room() {
    static POOL: Pool<2, 24> = Pool::new();
    let executor = Executor::in_pool(&POOL, Config::new()).unwrap();
    let drops = Counter::new();
    assert_eq!(
        executor.spawn(level(1), Gives([0u64; 4])).unwrap_err(),
        SpawnError::FutureTooLarge {
            needs: 32,
            room: 24
        }
    );
    assert!(matches!(
        executor.spawn(level(1), Gives(Aligned(1))),
        Err(SpawnError::FutureTooLarge {
            needs: 16,
            room: 24
        })
    ));
    // The future is small, its output is not.
    assert!(matches!(
        executor.spawn(level(1), async { [1u64; 9] }),
        Err(SpawnError::FutureTooLarge {
            needs: 72,
            room: 24
        })
    ));
    // What was refused has been dropped, and has left no trace.
    let guard = drops.guard();
    let refused = executor.spawn(level(1), async move {
        let _guard = guard;
        [1u64; 9]
    });
    assert!(refused.is_err());
    assert_eq!(drops.count(), 1);
    assert_eq!(executor.live(), 0);
    let fits = spawn(&executor, Gives([5u64; 3]));
    let nothing = spawn(&executor, async {});
    executor.run_until_idle();
    assert_eq!(fits.try_join().unwrap().unwrap(), [5; 3]);
    nothing.try_join().unwrap().unwrap();
}

#[test]
fn capacity_may_be_smaller_than_the_pool() {
    static POOL: Pool<4, 64> = Pool::new();
    let executor = Executor::in_pool(&POOL, Config::new().capacity(2)).unwrap();
    let handles = [(); 2].map(|()| spawn(&executor, pending::<()>()));
    let refused = executor.spawn(level(1), async {});
    assert_eq!(refused.unwrap_err(), SpawnError::TableFull);
    assert!(handles[0].cancel());
    drop(spawn(&executor, async {}));
}

#[test]
fn pool_serves_one_executor_until_nothing_refers_to_it() {
    static POOL: Pool<2, 128> = Pool::new();
    let free = || Executor::in_pool(&POOL, Config::new());
    let executor = free().unwrap();
    let (slot, polls) = (Slot::new(), Counter::new());
    let handle = spawn(&executor, slot.wait(&polls, usize::MAX));
    executor.run_until_idle();
    assert_eq!(free().unwrap_err(), PoolInUse);
    drop(executor);
    assert_eq!(free().unwrap_err(), PoolInUse);
    drop(handle);
    assert_eq!(free().unwrap_err(), PoolInUse);
    // On another thread, as the last one.
    let waker = slot.take();
    std::thread::spawn(move || waker.wake()).join().unwrap();
    let executor = free().unwrap();
    let again = spawn(&executor, async { 6 });
    executor.run_until_idle();
    assert_eq!(again.try_join().unwrap().unwrap(), 6);
}

#[test]
fn pool_moves_between_threads_between_executors() {
    static POOL: Pool<2, 64> = Pool::new();
    for expected in 0..4 {
        let found = std::thread::spawn(move || {
            let executor = Executor::in_pool(&POOL, Config::new()).unwrap();
            let handle = spawn(&executor, async move { expected });
            executor.run_until_idle();
            handle.try_join().unwrap().unwrap()
        });
        assert_eq!(found.join().unwrap(), expected);
    }
}
