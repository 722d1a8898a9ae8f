//! `event-listener`: a flag, and a mutex made of it, that coroutines and threads use alike.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use event_listener::{Event, Listener};

use crate::{run, start};

#[derive(Default)]
struct Flag {
    set: AtomicBool,
    changed: Event,
}

impl Flag {
    fn set(&self) {
        self.set.store(true, Ordering::SeqCst);
        self.changed.notify(usize::MAX);
    }

    async fn wait(&self) {
        while !self.set.load(Ordering::SeqCst) {
            let listener = self.changed.listen();
            // It may have been set before there was a listener.
            if !self.set.load(Ordering::SeqCst) {
                listener.await;
            }
        }
    }
}

#[test]
fn a_thread_sets_a_flag() {
    run(async {
        let flag = Arc::new(Flag::default());
        let waiting: Vec<_> = (0..10)
            .map(|number| {
                let flag = flag.clone();
                start(number, async move { flag.wait().await })
            })
            .collect();
        let thread = std::thread::spawn(move || flag.set());
        for one in waiting {
            one.await.unwrap();
        }
        thread.join().unwrap();
    });
}

/// A lock whose holders are coroutines and a thread.
#[derive(Default)]
struct Lock {
    taken: AtomicBool,
    free: Event,
    /// How many hold it: only ever one.
    holders: AtomicU32,
}

impl Lock {
    fn try_take(&self) -> bool {
        !self.taken.swap(true, Ordering::Acquire)
    }

    async fn take(&self) {
        while !self.try_take() {
            let listener = self.free.listen();
            if self.try_take() {
                return;
            }
            listener.await;
        }
    }

    fn take_here(&self) {
        while !self.try_take() {
            let listener = self.free.listen();
            if self.try_take() {
                return;
            }
            listener.wait();
        }
    }

    fn give_back(&self) {
        assert_eq!(self.holders.fetch_add(1, Ordering::Relaxed), 0);
        assert_eq!(self.holders.fetch_sub(1, Ordering::Relaxed), 1);
        self.taken.store(false, Ordering::Release);
        self.free.notify(1);
    }
}

#[test]
fn coroutines_and_threads_share_a_lock() {
    const TURNS: u32 = 500;
    run(async {
        let lock = Arc::new(Lock::default());
        let other = lock.clone();
        let thread = std::thread::spawn(move || {
            for _ in 0..TURNS {
                other.take_here();
                other.give_back();
            }
        });
        let taking: Vec<_> = (0..4)
            .map(|number| {
                let lock = lock.clone();
                start(number, async move {
                    for _ in 0..TURNS {
                        lock.take().await;
                        corank_linux::yield_now().await;
                        lock.give_back();
                    }
                })
            })
            .collect();
        for one in taking {
            one.await.unwrap();
        }
        thread.join().unwrap();
    });
}
