//! Tests of cancelling asynchronous calls.
//!
//! When a drop returns, the kernel has released the buffer, and nothing is lost.
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::future::{Future, poll_fn};
use core::hint::spin_loop;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::Poll;

use corank_abi::call::{
    CONDVAR_CREATE, CONDVAR_SIGNAL, FAILED, MUTEX_CREATE, MUTEX_UNLOCK, SEMAPHORE_CREATE,
    SEMAPHORE_UP,
};
use corank_user::fs::{self, From};
use corank_user::{Error, Priority, block_on, calls, process, ring, spawn, thread};

use crate::files::in_directory;
use crate::support::{call, calls_under_way, leave_calls, pipe, tests};

tests![
    a_cancelled_read_takes_nothing,
    a_read_beyond_the_capacity_says_what_it_took,
    a_write_says_what_it_gave,
    the_buffer_is_free_after_the_drop,
    a_read_cancelled_during_a_write_has_all_or_nothing,
    a_read_cancelled_during_disk_io_has_all_or_nothing,
    a_leaked_call_keeps_its_buffer,
    a_read_that_is_done_gives_its_bytes,
    a_cancelled_lock_is_not_held,
    an_unclaimed_lock_is_given_back,
    the_next_waiter_gets_a_cancelled_lock,
    a_cancelled_permit_goes_to_the_next_waiter,
    an_unclaimed_permit_is_given_back,
    a_cancelled_wait_passes_its_signal_on,
    a_signal_received_before_the_lock_is_passed_on,
    a_cancelled_wait_releases_its_lock,
    a_cancelled_sleep_or_wait_leaves_its_thread_joinable,
    a_cancelled_wait_leaves_its_child_to_be_collected,
    a_file_is_closed_with_a_cancelled_write,
    a_dropped_call_that_was_never_polled_has_no_effect,
    a_thousand_cancellations_in_any_order_leave_no_call,
    an_executor_that_ends_cancels_its_calls,
    a_second_cancellation_does_nothing,
];

/// Waits until the kernel has taken every call that was submitted before this.
async fn kernel_sees() {
    calls::sleep_async(0).await.expect("memory");
    // The kernel may still be serving them on another hart.
    process::quiesce();
}

/// Polls a call for the first time.
async fn submit<T>(mut future: Pin<&mut impl Future<Output = T>>) {
    poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

fn a_cancelled_read_takes_nothing() {
    block_on(async {
        let (reader, writer) = pipe();
        writer.write(b"a").expect("room");
        {
            let mut read = pin!(calls::read_async(reader.number(), Vec::with_capacity(2)));
            submit(read.as_mut()).await;
            kernel_sees().await;
            assert_eq!(read.as_mut().cancel(), None);
        }
        let mut byte = [0];
        assert_eq!(reader.read(&mut byte), Ok(1));
        assert_eq!(&byte, b"a");
    });
}

/// Tests that a read of more than a pipe's capacity says what it took.
///
/// A pipe holds 64 KiB. A longer read takes them when the pipe is full, because nothing would move
/// otherwise.
fn a_read_beyond_the_capacity_says_what_it_took() {
    const CAPACITY: usize = 64 << 10;
    block_on(async {
        let (reader, writer) = pipe();
        let mut read = pin!(calls::read_async(
            reader.number(),
            Vec::with_capacity(2 * CAPACITY)
        ));
        submit(read.as_mut()).await;
        let data: Vec<u8> = (0..CAPACITY + 10).map(|at| (at % 251) as u8).collect();
        let written = ring::write(&writer, data.clone()).await;
        assert_eq!(written.0, Ok(CAPACITY + 10));
        let (count, bytes) = read.as_mut().cancel().expect("it has taken a part");
        assert_eq!(count, Ok(CAPACITY));
        assert_eq!(bytes, &data[..CAPACITY]);
        let (count, bytes) = ring::read(&reader, Vec::with_capacity(10)).await;
        assert_eq!(
            (count, &bytes[..]),
            (Ok(10), &data[CAPACITY..]),
            "the rest follows"
        );
    });
}

fn a_write_says_what_it_gave() {
    const CAPACITY: usize = 64 << 10;
    block_on(async {
        let (reader, writer) = pipe();
        writer.write(&alloc::vec![1; CAPACITY - 4]).expect("room");
        let mut write = pin!(calls::write_async(writer.number(), b"abcdefgh".to_vec()));
        submit(write.as_mut()).await;
        kernel_sees().await;
        let (count, data) = write.as_mut().cancel().expect("it has written a part");
        assert_eq!((count, &data[..]), (Ok(4), &b"abcdefgh"[..]));
        let mut full = pin!(calls::write_async(writer.number(), b"ijk".to_vec()));
        submit(full.as_mut()).await;
        kernel_sees().await;
        assert_eq!(full.as_mut().cancel(), None, "there was no room at all");
        drop(writer);
        let (count, bytes) = ring::read(&reader, Vec::with_capacity(2 * CAPACITY)).await;
        assert_eq!(count, Ok(CAPACITY));
        assert_eq!(&bytes[CAPACITY - 5..], b"\x01abcd");
    });
}

fn the_buffer_is_free_after_the_drop() {
    block_on(async {
        let (reader, writer) = pipe();
        let address = {
            let buffer = Vec::with_capacity(2000);
            let address = buffer.as_ptr();
            let mut read = pin!(calls::read_async(reader.number(), buffer));
            submit(read.as_mut()).await;
            kernel_sees().await;
            address
        };
        let canaries = canaries(address, 2000);
        ring::write(&writer, alloc::vec![1; 2000])
            .await
            .0
            .expect("room");
        kernel_sees().await;
        assert_untouched(&canaries);
        let (count, _) = ring::read(&reader, Vec::with_capacity(2000)).await;
        assert_eq!(count, Ok(2000), "nothing was swallowed");
    });
}

/// Returns new buffers, one of which lies at `address`, where an earlier buffer was.
///
/// The allocator hands that memory out again, and a late write for the old buffer would land in it.
fn canaries(address: *const u8, size: usize) -> Vec<Vec<u8>> {
    let mut canaries: Vec<Vec<u8>> = Vec::new();
    while !canaries
        .iter()
        .any(|canary| canary.as_ptr_range().contains(&address))
    {
        canaries.push(alloc::vec![7; size]);
    }
    canaries
}

fn assert_untouched(canaries: &[Vec<u8>]) {
    assert!(canaries.iter().flatten().all(|byte| *byte == 7));
}

/// A search for the pause after which an event comes near a given moment.
///
/// The moment may lie anywhere, and the pauses differ a little from round to round.
struct Search {
    pauses: usize,
    step: usize,
    /// Whether the last event came before the moment.
    was_early: bool,
}

impl Search {
    fn new() -> Self {
        Self {
            pauses: 0,
            step: 8,
            was_early: true,
        }
    }

    /// Adjusts the pause after an event that came before the moment (`early`) or after it.
    ///
    /// The next event comes later if this one was early, and earlier otherwise. The step is twice
    /// the last one if that was not enough, and half of it otherwise.
    fn next(&mut self, early: bool, round: usize, latest: usize) {
        self.step = if early == self.was_early {
            (2 * self.step).min(latest)
        } else {
            self.step / 2
        };
        self.was_early = early;
        let step = self.step.max(1 + round % 8);
        self.pauses = if early {
            (self.pauses + step).min(latest)
        } else {
            self.pauses.saturating_sub(step)
        };
    }
}

/// Tests a read that is cancelled while another thread writes, near the moment when the bytes come.
///
/// The read has had all of them or none.
fn a_read_cancelled_during_a_write_has_all_or_nothing() {
    const ROUNDS: usize = 150;
    const SIZE: usize = 2000;
    const LATEST: usize = 20_000;
    static ROUND: AtomicUsize = AtomicUsize::new(0);
    // On one hart the other thread runs when this one yields.
    let pause = || match process::harts() {
        1 => thread::yield_now(),
        _ => spin_loop(),
    };
    let (reader, writer) = pipe();
    let other = thread::spawn(move || {
        for round in 1..=ROUNDS {
            while ROUND.load(Ordering::Acquire) < round {
                pause();
            }
            assert_eq!(writer.write(&[1; SIZE]), Ok(SIZE));
        }
    })
    .expect("a thread");
    block_on(async move {
        let mut search = Search::new();
        for round in 1..=ROUNDS {
            let buffer = Vec::with_capacity(SIZE);
            let address = buffer.as_ptr();
            let mut read = pin!(calls::read_async(reader.number(), buffer));
            submit(read.as_mut()).await;
            kernel_sees().await;
            ROUND.store(round, Ordering::Release);
            for _ in 0..search.pauses {
                pause();
            }
            let had = read.as_mut().cancel();
            search.next(had.is_none(), round, LATEST);
            let (count, bytes) = match had {
                Some(had) => had,
                None => {
                    let canaries = canaries(address, SIZE);
                    let had = ring::read(&reader, Vec::with_capacity(SIZE)).await;
                    kernel_sees().await;
                    assert_untouched(&canaries);
                    had
                }
            };
            assert_eq!(count, Ok(SIZE), "in round {round}");
            assert!(bytes.iter().all(|byte| *byte == 1), "in round {round}");
        }
    });
    other.join().expect("it ends");
}

/// Tests a read that is cancelled while the kernel waits for the disk.
///
/// The read is over when the disk's work is, and it has had all bytes or none.
fn a_read_cancelled_during_disk_io_has_all_or_nothing() {
    const ROUNDS: usize = 30;
    const SIZE: usize = 200_000;
    in_directory(|| {
        fs::write("file", &alloc::vec![1; SIZE]).expect("room");
        let file = fs::File::open("file").expect("the file");
        block_on(async move {
            let mut under_way = 0;
            for _ in 0..ROUNDS {
                let buffer = Vec::with_capacity(SIZE);
                let address = buffer.as_ptr();
                let mut read = pin!(calls::read_async(file.number(), buffer));
                submit(read.as_mut()).await;
                // The kernel has taken the read when it has served this call, which takes no time.
                calls::sleep_async(0).await.expect("memory");
                under_way += calls_under_way();
                if let Some((count, bytes)) = read.as_mut().cancel() {
                    assert_eq!(count, Ok(SIZE));
                    assert!(bytes.iter().all(|byte| *byte == 1));
                }
                let canaries = canaries(address, SIZE);
                // The disk has finished that read when it has finished this one.
                let again = fs::read("file").expect("the file");
                assert!(again.len() == SIZE && again.iter().all(|byte| *byte == 1));
                kernel_sees().await;
                assert_untouched(&canaries);
                file.seek(From::Start(0)).expect("a file");
            }
            assert!(under_way > 0, "every read was over before it was given up");
        });
        fs::remove("file").expect("the file");
    });
}

fn a_leaked_call_keeps_its_buffer() {
    block_on(async {
        let (reader, writer) = pipe();
        let mut read =
            alloc::boxed::Box::pin(calls::read_async(reader.number(), Vec::with_capacity(2000)));
        submit(read.as_mut()).await;
        core::mem::forget(read);
        leave_calls(0, 1);
        kernel_sees().await;
        let canaries: Vec<Vec<u8>> = (0..50).map(|_| alloc::vec![7; 2000]).collect();
        ring::write(&writer, alloc::vec![1; 2000])
            .await
            .0
            .expect("room");
        kernel_sees().await;
        assert_untouched(&canaries);
        drop(writer);
        let (count, _) = ring::read(&reader, Vec::with_capacity(1)).await;
        assert_eq!(count, Ok(0), "the leaked read has had them");
    });
}

fn a_read_that_is_done_gives_its_bytes() {
    block_on(async {
        let (reader, writer) = pipe();
        let mut read = pin!(calls::read_async(reader.number(), Vec::with_capacity(1)));
        submit(read.as_mut()).await;
        kernel_sees().await;
        writer.write(b"a").expect("room");
        kernel_sees().await;
        assert_eq!(read.as_mut().cancel(), Some((Ok(1), b"a".to_vec())));
        assert_eq!(read.as_mut().cancel(), None);
    });
}

/// A mutex of the kernel.
#[derive(Clone, Copy)]
struct Lock(usize);

impl Lock {
    fn new() -> Self {
        Self(call(MUTEX_CREATE, [1, 0, 0]) as usize)
    }

    fn lock(self) -> Self {
        assert_eq!(calls::mutex_lock(self.0), Ok(0));
        self
    }

    fn unlock(self) {
        assert_eq!(call(MUTEX_UNLOCK, [self.0, 0, 0]), 0, "it is locked");
    }

    fn assert_free(self) {
        assert_eq!(call(MUTEX_UNLOCK, [self.0, 0, 0]), FAILED, "it is free");
    }
}

fn a_cancelled_lock_is_not_held() {
    block_on(async {
        let lock = Lock::new().lock();
        {
            let mut locking = pin!(calls::mutex_lock_async(lock.0));
            submit(locking.as_mut()).await;
            kernel_sees().await;
        }
        lock.unlock();
        kernel_sees().await;
        lock.assert_free();
    });
}

fn an_unclaimed_lock_is_given_back() {
    block_on(async {
        let lock = Lock::new().lock();
        {
            let mut locking = pin!(calls::mutex_lock_async(lock.0));
            submit(locking.as_mut()).await;
            kernel_sees().await;
            lock.unlock();
            // The kernel hands the mutex over, and the completion is collected, while nothing polls
            // the future.
            kernel_sees().await;
            kernel_sees().await;
        }
        lock.assert_free();
    });
}

fn the_next_waiter_gets_a_cancelled_lock() {
    block_on(async {
        let lock = Lock::new().lock();
        let mut second = pin!(calls::mutex_lock_async(lock.0));
        {
            let mut first = pin!(calls::mutex_lock_async(lock.0));
            submit(first.as_mut()).await;
            submit(second.as_mut()).await;
            kernel_sees().await;
            lock.unlock();
            // The mutex is handed to the first call. The coroutine in the kernel that serves it may
            // not have run.
        }
        assert_eq!(second.await, Ok(0));
        lock.unlock();
        lock.assert_free();
    });
}

fn a_cancelled_permit_goes_to_the_next_waiter() {
    block_on(async {
        let semaphore = call(SEMAPHORE_CREATE, [0; 3]) as usize;
        let mut second = pin!(calls::semaphore_down_async(semaphore));
        {
            let mut first = pin!(calls::semaphore_down_async(semaphore));
            submit(first.as_mut()).await;
            submit(second.as_mut()).await;
            kernel_sees().await;
            assert_eq!(call(SEMAPHORE_UP, [semaphore, 0, 0]), 0);
        }
        assert_eq!(second.await, Ok(0));
    });
}

fn an_unclaimed_permit_is_given_back() {
    block_on(async {
        let semaphore = call(SEMAPHORE_CREATE, [0; 3]) as usize;
        {
            let mut down = pin!(calls::semaphore_down_async(semaphore));
            submit(down.as_mut()).await;
            kernel_sees().await;
            assert_eq!(call(SEMAPHORE_UP, [semaphore, 0, 0]), 0);
            kernel_sees().await;
            kernel_sees().await;
        }
        assert_eq!(calls::semaphore_down_async(semaphore).await, Ok(0));
    });
}

struct Condition(usize);

impl Condition {
    fn new() -> Self {
        Self(call(CONDVAR_CREATE, [0; 3]) as usize)
    }

    /// Waits for a signal.
    ///
    /// The caller holds the mutex when it first polls the future.
    fn wait(&self, lock: Lock) -> impl Future<Output = Result<usize, Error>> + use<> {
        // SAFETY: the mutex guards nothing.
        unsafe { calls::condvar_wait_async(self.0, lock.0) }
    }

    fn signal(&self) {
        assert_eq!(call(CONDVAR_SIGNAL, [self.0, 0, 0]), 0);
    }
}

fn a_cancelled_wait_passes_its_signal_on() {
    block_on(async {
        let (lock, condition) = (Lock::new(), Condition::new());
        let mut second = pin!(condition.wait(lock));
        {
            let mut first = pin!(condition.wait(lock));
            lock.lock();
            submit(first.as_mut()).await;
            kernel_sees().await;
            lock.lock();
            submit(second.as_mut()).await;
            kernel_sees().await;
            condition.signal();
        }
        assert_eq!(second.await, Ok(0));
        lock.unlock();
        lock.assert_free();
    });
}

/// Tests a call that has had its signal and is dropped while it waits for the lock.
fn a_signal_received_before_the_lock_is_passed_on() {
    block_on(async {
        let (lock, condition) = (Lock::new(), Condition::new());
        let mut second = pin!(condition.wait(lock));
        {
            let mut first = pin!(condition.wait(lock));
            lock.lock();
            submit(first.as_mut()).await;
            kernel_sees().await;
            lock.lock();
            submit(second.as_mut()).await;
            kernel_sees().await;
            lock.lock();
            condition.signal();
            // The first call waits in the lock's queue now.
            kernel_sees().await;
            kernel_sees().await;
        }
        lock.unlock();
        assert_eq!(second.await, Ok(0), "it has the signal that the first had");
        lock.unlock();
        lock.assert_free();
    });
}

/// Tests that a dropped wait for a signal releases the lock.
///
/// This holds whether or not the kernel has seen the call, and whether or not it has served it.
fn a_cancelled_wait_releases_its_lock() {
    block_on(async {
        let (lock, condition) = (Lock::new(), Condition::new());
        for seen in [false, true] {
            for signalled in [false, true] {
                lock.lock();
                {
                    let mut wait = pin!(condition.wait(lock));
                    submit(wait.as_mut()).await;
                    if seen {
                        kernel_sees().await;
                    }
                    if signalled && seen {
                        condition.signal();
                        kernel_sees().await;
                        kernel_sees().await;
                    }
                }
                lock.assert_free();
            }
        }
    });
}

fn a_cancelled_sleep_or_wait_leaves_its_thread_joinable() {
    block_on(async {
        let (reader, writer) = pipe();
        let other = thread::spawn(move || {
            let _ = reader.read(&mut [0]);
            process::exit(6)
        });
        let tid = other.expect("a thread").id();
        {
            let mut sleep = pin!(calls::sleep_async(1_000_000));
            let mut waittid = pin!(calls::waittid_async(tid));
            submit(sleep.as_mut()).await;
            submit(waittid.as_mut()).await;
            kernel_sees().await;
            assert_eq!(sleep.as_mut().cancel(), None);
            assert_eq!(waittid.as_mut().cancel(), None);
        }
        writer.write(b"x").expect("room");
        assert_eq!(calls::waittid(tid), Ok(6));
    });
}

fn a_cancelled_wait_leaves_its_child_to_be_collected() {
    block_on(async {
        let (reader, writer) = pipe();
        let child = process::spawn(|| {
            let _ = reader.read(&mut [0]);
            5
        })
        .expect("a process");
        {
            let mut wait = pin!(calls::waitpid_async(child));
            submit(wait.as_mut()).await;
            kernel_sees().await;
            assert_eq!(wait.as_mut().cancel(), None, "the child runs");
        }
        writer.write(b"x").expect("room");
        assert_eq!(process::wait(child).expect("it is there").code, 5);
    });
}

fn a_file_is_closed_with_a_cancelled_write() {
    const CAPACITY: usize = 64 << 10;
    block_on(async {
        for seen in [false, true] {
            let (reader, writer) = pipe();
            writer.write(&alloc::vec![1; CAPACITY]).expect("room");
            {
                let mut write = pin!(ring::write_and_close(writer, b"x".to_vec()));
                submit(write.as_mut()).await;
                if seen {
                    kernel_sees().await;
                }
            }
            kernel_sees().await;
            let (count, _) = ring::read(&reader, Vec::with_capacity(2 * CAPACITY)).await;
            assert_eq!(count, Ok(CAPACITY), "the write end is closed");
        }
        let (reader, writer) = pipe();
        drop(ring::write_and_close(writer, b"x".to_vec()));
        assert_eq!(reader.read(&mut [0]), Ok(0), "never polled, and closed");
    });
}

fn a_dropped_call_that_was_never_polled_has_no_effect() {
    block_on(async {
        let (reader, writer) = pipe();
        writer.write(b"a").expect("room");
        drop(calls::read_async(reader.number(), Vec::with_capacity(1)));
        let lock = Lock::new().lock();
        drop(Condition::new().wait(lock));
        lock.unlock();
        kernel_sees().await;
        assert_eq!(reader.read(&mut [0]), Ok(1));
    });
}

/// Tests more calls than the ring has entries, ended in an order unrelated to that of their
/// beginning.
///
/// Others complete meanwhile.
fn a_thousand_cancellations_in_any_order_leave_no_call() {
    const COUNT: usize = 1000;
    block_on(async {
        let pipes = ring::pipes(COUNT).await.expect("descriptors");
        let done = Rc::new(Cell::new(0));
        let mut reads = Vec::new();
        for pipe in &pipes {
            let (file, done) = (pipe.reader.number(), Rc::clone(&done));
            let read = async move {
                let (count, _) = calls::read_async(file, Vec::with_capacity(1)).await;
                assert_eq!(count, Ok(1));
                done.set(done.get() + 1);
            };
            reads.push(Some(spawn(Priority::DEFAULT, read).expect("memory")));
        }
        kernel_sees().await;
        let mut place = 0;
        for turn in 0..COUNT {
            // 387 and 1000 have no common factor, so every place comes up once.
            place = (place + 387) % COUNT;
            let read = reads[place].take().expect("once each");
            if turn % 3 == 0 {
                pipes[place].writer.write(b"x").expect("room");
                read.await.expect("it ends");
            } else {
                assert!(read.cancel());
                pipes[place].writer.write(b"y").expect("room");
                let mut byte = [0];
                assert_eq!(pipes[place].reader.read(&mut byte), Ok(1));
                assert_eq!(&byte, b"y");
            }
        }
        assert_eq!(done.get(), COUNT.div_ceil(3));
    });
}

/// Tests that remaining coroutines are dropped with their executor, and their calls with them.
///
/// The next executor has the same rings.
fn an_executor_that_ends_cancels_its_calls() {
    let (reader, writer) = pipe();
    let file = reader.number();
    for _ in 0..3 {
        block_on(async move {
            for _ in 0..100 {
                drop(spawn(
                    Priority::DEFAULT,
                    calls::read_async(file, Vec::with_capacity(1)),
                ));
            }
            kernel_sees().await;
        });
    }
    writer.write(b"a").expect("room");
    assert_eq!(reader.read(&mut [0]), Ok(1));
}

fn a_second_cancellation_does_nothing() {
    block_on(async {
        let (reader, _writer) = pipe();
        let mut read = pin!(calls::read_async(reader.number(), Vec::with_capacity(1)));
        assert_eq!(read.as_mut().cancel(), None, "before it was made");
        let mut read = pin!(calls::read_async(reader.number(), Vec::with_capacity(1)));
        submit(read.as_mut()).await;
        assert_eq!(read.as_mut().cancel(), None);
        assert_eq!(read.as_mut().cancel(), None);
    });
}
