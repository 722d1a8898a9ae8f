//! Threads for blocking jobs, the most urgent job first.
//!
//! There are as many threads as jobs block at the same moment, up to a limit. A thread that takes a
//! job starts another thread if more jobs wait and no other thread is checking for one. So short
//! jobs share few threads. A job waits only for threads to start, for more urgent jobs, or because
//! the limit is reached. A thread that finds no job for a while ends.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use corank::Priority;

use crate::class::Class;

/// The default limit of threads.
const THREADS: NonZeroUsize = NonZeroUsize::new(500).unwrap();
/// The time that a thread waits for another job.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs jobs on threads, by priority. `J` is a job, which `run` executes.
pub(super) struct Pool<J> {
    run: fn(J),
    /// The class of its threads, if it is not the ordinary one.
    class: Option<Class>,
    state: Mutex<State<J>>,
    /// Notified of a job if there is an idle thread.
    arrival: Condvar,
}

struct State<J> {
    /// The waiting jobs by level, and then in the order of arrival.
    waiting: BTreeMap<(Priority, u64), J>,
    arrivals: u64,
    threads: usize,
    /// The number of threads that check for a job before they do anything else.
    ///
    /// They begin, have finished a job, or wait.
    searching: usize,
    limit: NonZeroUsize,
}

impl<J: Send + 'static> Pool<J> {
    pub(super) fn new(run: fn(J), class: Option<Class>) -> Arc<Self> {
        Arc::new(Self {
            run,
            class,
            state: Mutex::new(State {
                waiting: BTreeMap::new(),
                arrivals: 0,
                threads: 0,
                searching: 0,
                limit: THREADS,
            }),
            arrival: Condvar::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State<J>> {
        // No job runs while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Limits the threads from now on. Those beyond the limit end after their jobs.
    pub(super) fn limit(&self, threads: NonZeroUsize) {
        self.state().limit = threads;
        self.arrival.notify_all();
    }

    /// Submits a job; returns its number.
    ///
    /// # Errors
    /// Fails if there is no thread and none can be started; then the job is dropped.
    pub(super) fn submit(self: &Arc<Self>, priority: Priority, job: J) -> io::Result<u64> {
        let mut state = self.state();
        let number = state.arrivals;
        let key = (priority, number);
        state.arrivals += 1;
        state.waiting.insert(key, job);
        if state.searching > 0 {
            self.arrival.notify_one();
            return Ok(number);
        }
        let started = self.start_thread(&mut state);
        if state.threads == 0 {
            let job = state.waiting.remove(&key);
            drop(state);
            drop(job);
            return started.map(|()| number);
        }
        Ok(number)
    }

    /// Tests whether a job on this level has not begun.
    pub(super) fn waits(&self, priority: Priority, number: u64) -> bool {
        self.state().waiting.contains_key(&(priority, number))
    }

    /// Moves a job that has not begun to another level, among the jobs of that level in the order
    /// of arrival.
    pub(super) fn move_job(&self, number: u64, from: Priority, to: Priority) {
        let mut state = self.state();
        if let Some(job) = state.waiting.remove(&(from, number)) {
            state.waiting.insert((to, number), job);
        }
    }

    /// Starts a thread, unless the limit is reached.
    fn start_thread(self: &Arc<Self>, state: &mut State<J>) -> io::Result<()> {
        if state.threads >= state.limit.get() {
            return Ok(());
        }
        let pool = self.clone();
        let name = "corank-blocking".to_string();
        thread::Builder::new()
            .name(name)
            .spawn(move || pool.serve())?;
        state.threads += 1;
        state.searching += 1;
        Ok(())
    }

    fn serve(self: &Arc<Self>) {
        if let Some(class) = self.class {
            class.enter();
        }
        let mut state = self.state();
        loop {
            if state.threads > state.limit.get() {
                // Other threads are left, and one of them may have to check for a job instead.
                self.arrival.notify_one();
                break;
            }
            if let Some((_, job)) = state.waiting.pop_first() {
                state.searching -= 1;
                if !state.waiting.is_empty() && state.searching == 0 {
                    // On an error the job waits for the existing threads.
                    let _ = self.start_thread(&mut state);
                }
                drop(state);
                // The job catches its own panic; a panic of its destructor ends here.
                let _ = catch_unwind(AssertUnwindSafe(|| (self.run)(job)));
                state = self.state();
                state.searching += 1;
                continue;
            }
            let waited = self.arrival.wait_timeout(state, PATIENCE);
            let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            // It may have been notified of a job just then.
            if timeout.timed_out() && state.waiting.is_empty() {
                break;
            }
        }
        state.threads -= 1;
        state.searching -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(60);

    type Job = Box<dyn FnOnce() + Send>;

    fn pool() -> Arc<Pool<Job>> {
        Pool::new(|job: Job| job(), None)
    }

    fn level(level: u8) -> Priority {
        Priority::new(level).unwrap()
    }

    /// Submits a job that occupies a thread until the sender is used or dropped; returns after it
    /// has begun.
    fn occupy(pool: &Arc<Pool<Job>>) -> mpsc::Sender<()> {
        let (begin, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let job = move || {
            begin.send(()).unwrap();
            let _ = ended.recv_timeout(LONG);
        };
        pool.submit(level(0), Box::new(job)).unwrap();
        begun.recv_timeout(LONG).unwrap();
        end
    }

    #[test]
    fn the_most_urgent_is_next_and_in_order_within_a_level() {
        let pool = pool();
        pool.limit(NonZeroUsize::MIN);
        let end = occupy(&pool);
        let (sender, receiver) = mpsc::channel();
        for (number, at) in [40, 3, 63, 3, 7].into_iter().enumerate() {
            let sender = sender.clone();
            let job = move || sender.send((at, number)).unwrap();
            pool.submit(level(at), Box::new(job)).unwrap();
        }
        drop(sender);
        end.send(()).unwrap();
        let order: Vec<_> = receiver.iter().collect();
        assert_eq!(order, [(3, 1), (3, 3), (7, 4), (40, 0), (63, 2)]);
        assert_eq!(pool.state().threads, 1);
    }

    /// However many jobs block, each has begun; later jobs use the same threads.
    #[test]
    fn threads_are_started_as_jobs_block() {
        let pool = pool();
        let ends: Vec<_> = (0..20).map(|_| occupy(&pool)).collect();
        assert_eq!(pool.state().threads, 20);
        drop(ends);
        for _ in 0..100 {
            let began = std::time::Instant::now();
            while pool.state().searching < 20 {
                assert!(began.elapsed() < LONG, "a job does not end");
                thread::yield_now();
            }
            drop(occupy(&pool));
        }
        assert_eq!(pool.state().threads, 20);
    }

    #[test]
    fn all_jobs_of_a_burst_begin() {
        const JOBS: usize = 10;
        let pool = pool();
        let barrier = Arc::new(std::sync::Barrier::new(JOBS + 1));
        for _ in 0..JOBS {
            let barrier = barrier.clone();
            let job = move || {
                barrier.wait();
            };
            pool.submit(level(9), Box::new(job)).unwrap();
        }
        barrier.wait();
    }

    #[test]
    fn a_job_may_change_its_level_until_it_begins() {
        let pool = pool();
        pool.limit(NonZeroUsize::MIN);
        let end = occupy(&pool);
        let (sender, receiver) = mpsc::channel();
        let submit = |at: u8| {
            let sender = sender.clone();
            let job = move || sender.send(at).unwrap();
            pool.submit(level(at), Box::new(job)).unwrap()
        };
        let numbers = [10, 20, 30, 40].map(submit);
        assert!(pool.waits(level(30), numbers[2]));
        pool.move_job(numbers[2], level(30), level(0));
        pool.move_job(numbers[0], level(10), level(20));
        pool.move_job(numbers[1], level(21), level(1));
        assert!(!pool.waits(level(30), numbers[2]));
        drop(sender);
        end.send(()).unwrap();
        let order: Vec<_> = receiver.iter().collect();
        assert_eq!(
            order,
            [30, 10, 20, 40],
            "a job was not on the level that the caller named"
        );
        pool.move_job(numbers[0], level(20), level(0));
    }

    #[test]
    fn a_panicking_job_keeps_its_thread() {
        let pool = pool();
        pool.limit(NonZeroUsize::MIN);
        let end = occupy(&pool);
        let panics = || std::panic::resume_unwind(Box::new("on purpose"));
        pool.submit(level(1), Box::new(panics)).unwrap();
        let (sender, receiver) = mpsc::channel();
        let job = move || sender.send(()).unwrap();
        pool.submit(level(1), Box::new(job)).unwrap();
        end.send(()).unwrap();
        receiver.recv_timeout(LONG).unwrap();
    }

    /// The number of threads falls to a lower limit as jobs end, and every job runs.
    #[test]
    fn a_limit_may_be_lowered() {
        let pool = pool();
        let ends: Vec<_> = (0..5).map(|_| occupy(&pool)).collect();
        pool.limit(NonZeroUsize::new(2).unwrap());
        let (sender, receiver) = mpsc::channel();
        for number in 0..50 {
            let sender = sender.clone();
            let job = move || sender.send(number).unwrap();
            pool.submit(level(9), Box::new(job)).unwrap();
        }
        drop((ends, sender));
        assert_eq!(receiver.iter().count(), 50);
    }
}
