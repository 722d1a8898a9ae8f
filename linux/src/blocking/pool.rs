//! Threads for what blocks: the most urgent job first.
//!
//! There are as many threads as jobs block at the same moment, up to a limit: whoever takes a job starts another thread if more wait and
//! nobody else will look. So short jobs share few threads, and a job waits only for threads to start, for those that are more urgent, or
//! because the limit is reached. A thread that has nothing to do for a while ends.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use corank::Priority;

/// How many threads there are at most, unless somebody says otherwise.
const THREADS: NonZeroUsize = NonZeroUsize::new(500).unwrap();
/// For so long a thread waits for another job.
const PATIENCE: Duration = Duration::from_secs(10);

/// See the module's documentation. `J` is a job, which `run` does.
pub(super) struct Pool<J> {
    run: fn(J),
    state: Mutex<State<J>>,
    /// Told of a job when there is an idle thread.
    arrival: Condvar,
}

struct State<J> {
    /// By level, and then in the order of arrival.
    waiting: BTreeMap<(Priority, u64), J>,
    arrivals: u64,
    threads: usize,
    /// Those that look for a job before they do anything else: they begin, have ended one, or wait.
    looking: usize,
    limit: NonZeroUsize,
}

impl<J: Send + 'static> Pool<J> {
    pub(super) fn new(run: fn(J)) -> Arc<Self> {
        Arc::new(Self {
            run,
            state: Mutex::new(State {
                waiting: BTreeMap::new(),
                arrivals: 0,
                threads: 0,
                looking: 0,
                limit: THREADS,
            }),
            arrival: Condvar::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State<J>> {
        // No job runs while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// At most so many threads from now on. Those beyond it end when their jobs have.
    pub(super) fn limit(&self, threads: NonZeroUsize) {
        self.state().limit = threads;
        self.arrival.notify_all();
    }

    /// Has a job done; returns its number.
    ///
    /// # Errors
    /// There is no thread, and none can be started. Then the job is dropped.
    pub(super) fn submit(self: &Arc<Self>, priority: Priority, job: J) -> io::Result<u64> {
        let mut state = self.state();
        let number = state.arrivals;
        let key = (priority, number);
        state.arrivals += 1;
        state.waiting.insert(key, job);
        if state.looking > 0 {
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

    /// Whether a job on this level has not begun.
    pub(super) fn waits(&self, priority: Priority, number: u64) -> bool {
        self.state().waiting.contains_key(&(priority, number))
    }

    /// A job that has not begun is on another level now, among those of that level in the order of arrival.
    pub(super) fn move_job(&self, number: u64, from: Priority, to: Priority) {
        let mut state = self.state();
        if let Some(job) = state.waiting.remove(&(from, number)) {
            state.waiting.insert((to, number), job);
        }
    }

    /// Starts a thread, unless there are enough.
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
        state.looking += 1;
        Ok(())
    }

    fn serve(self: &Arc<Self>) {
        let mut state = self.state();
        loop {
            if state.threads > state.limit.get() {
                // Others are left, and one of them may have to look in its place.
                self.arrival.notify_one();
                break;
            }
            if let Some((_, job)) = state.waiting.pop_first() {
                state.looking -= 1;
                if !state.waiting.is_empty() && state.looking == 0 {
                    // The error is that there are only those that there are: then the others wait for them.
                    let _ = self.start_thread(&mut state);
                }
                drop(state);
                // A job's panic is the job's business; what its destructor throws ends here.
                let _ = catch_unwind(AssertUnwindSafe(|| (self.run)(job)));
                state = self.state();
                state.looking += 1;
                continue;
            }
            let waited = self.arrival.wait_timeout(state, PATIENCE);
            let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            // It may have been told of a job just then.
            if timeout.timed_out() && state.waiting.is_empty() {
                break;
            }
        }
        state.threads -= 1;
        state.looking -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(60);

    type Job = Box<dyn FnOnce() + Send>;

    fn pool() -> Arc<Pool<Job>> {
        Pool::new(|job: Job| job())
    }

    fn level(level: u8) -> Priority {
        Priority::new(level).unwrap()
    }

    /// A job that has begun, and ends when it is told to.
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
        let (tell, told) = mpsc::channel();
        for (number, at) in [40, 3, 63, 3, 7].into_iter().enumerate() {
            let tell = tell.clone();
            let job = move || tell.send((at, number)).unwrap();
            pool.submit(level(at), Box::new(job)).unwrap();
        }
        drop(tell);
        end.send(()).unwrap();
        let order: Vec<_> = told.iter().collect();
        assert_eq!(order, [(3, 1), (3, 3), (7, 4), (40, 0), (63, 2)]);
        assert_eq!(pool.state().threads, 1);
    }

    /// However many jobs block, each has begun; and the next ones use the threads that are there.
    #[test]
    fn threads_are_started_as_jobs_block() {
        let pool = pool();
        let ends: Vec<_> = (0..20).map(|_| occupy(&pool)).collect();
        assert_eq!(pool.state().threads, 20);
        drop(ends);
        for _ in 0..100 {
            let began = std::time::Instant::now();
            while pool.state().looking < 20 {
                assert!(began.elapsed() < LONG, "a job does not end");
                thread::yield_now();
            }
            drop(occupy(&pool));
        }
        assert_eq!(pool.state().threads, 20);
    }

    #[test]
    fn all_of_a_burst_are_begun_although_each_blocks() {
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
        let (tell, told) = mpsc::channel();
        let submit = |at: u8| {
            let tell = tell.clone();
            let job = move || tell.send(at).unwrap();
            pool.submit(level(at), Box::new(job)).unwrap()
        };
        let numbers = [10, 20, 30, 40].map(submit);
        assert!(pool.waits(level(30), numbers[2]));
        pool.move_job(numbers[2], level(30), level(0));
        pool.move_job(numbers[0], level(10), level(20));
        pool.move_job(numbers[1], level(21), level(1));
        assert!(!pool.waits(level(30), numbers[2]));
        drop(tell);
        end.send(()).unwrap();
        let order: Vec<_> = told.iter().collect();
        assert_eq!(
            order,
            [30, 10, 20, 40],
            "one was not where it was said to be"
        );
        pool.move_job(numbers[0], level(20), level(0));
    }

    #[test]
    fn a_panic_ends_no_thread() {
        let pool = pool();
        pool.limit(NonZeroUsize::MIN);
        let end = occupy(&pool);
        let panics = || std::panic::resume_unwind(Box::new("on purpose"));
        pool.submit(level(1), Box::new(panics)).unwrap();
        let (tell, told) = mpsc::channel();
        let job = move || tell.send(()).unwrap();
        pool.submit(level(1), Box::new(job)).unwrap();
        end.send(()).unwrap();
        told.recv_timeout(LONG).unwrap();
    }

    /// A lower limit is kept as jobs end, and nobody is forgotten.
    #[test]
    fn a_limit_may_be_lowered() {
        let pool = pool();
        let ends: Vec<_> = (0..5).map(|_| occupy(&pool)).collect();
        pool.limit(NonZeroUsize::new(2).unwrap());
        let (tell, told) = mpsc::channel();
        for number in 0..50 {
            let tell = tell.clone();
            let job = move || tell.send(number).unwrap();
            pool.submit(level(9), Box::new(job)).unwrap();
        }
        drop((ends, tell));
        assert_eq!(told.iter().count(), 50);
    }
}
