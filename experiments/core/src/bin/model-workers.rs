//! A model of how polls a second grow with the number of workers, for both orders among workers.
//!
//! It stands in for a machine with that many processors. Each worker works on a poll, and then has
//! its executor's lock for a while: the instructions of a pick, and the cache lines that another
//! worker wrote since, each of which takes the time of one transfer. `docs/many-workers.md` says
//! where the numbers come from. Prints a table in Markdown.
//!
//! `cargo run --release -p corank-experiments --bin model-workers`

/// The work of a poll, in nanoseconds.
const POLL: f64 = 1_000.0;
/// A pick and the rest of the scheduler's instructions for a poll, without any transfer.
const PICK: f64 = 22.0;
/// The union's word and the test of it, which a worker of a shard adds to a pick.
const CHECK: f64 = 4.0;
/// Cache lines that a pick and the end of a poll take from another worker: lock, ready levels,
/// queue, what is published, block of the coroutine, block of the queue's tail.
const LINES: f64 = 6.0;
/// Lines that a wake of another shard's coroutine takes from that shard's worker: signals of the
/// block, inbox, arriving levels, lock, levels shown. The other worker takes as many back.
const LINES_OF_A_WAKE: f64 = 5.0;

/// A transfer of a cache line, in nanoseconds: within one last-level cache, and across two.
const TRANSFERS: [f64; 2] = [17.0, 80.0];
const WORKERS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Polls of each worker.
const POLLS: usize = 20_000;

/// A fixed sequence of numbers between 0 and 1.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        // An xorshift generator.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// One set of queues: workers wait for one lock, first come, first served.
///
/// Returns polls a nanosecond. Poll times vary evenly between half and one and a half times
/// [`POLL`].
fn exact(workers: usize, transfer: f64) -> f64 {
    let mut numbers = Numbers(1);
    let mut work = || POLL * (0.5 + numbers.next());
    let mut ends: Vec<f64> = (0..workers).map(|_| work()).collect();
    let (mut free_at, mut last, mut time) = (0.0_f64, 0, 0.0);
    for _ in 0..workers * POLLS {
        // The worker whose poll ends first has the lock next.
        let next = (0..workers).min_by(|&one, &other| ends[one].total_cmp(&ends[other]));
        let next = next.expect("there are workers");
        let moved = if next == last { 0.0 } else { LINES * transfer };
        time = free_at.max(ends[next]) + PICK + moved;
        (free_at, last) = (time, next);
        ends[next] = time + work();
    }
    (workers * POLLS) as f64 / time
}

/// Shards: each worker has its own lock; `share` of its polls wake a coroutine of another shard.
fn bounded(workers: usize, transfer: f64, share: f64) -> f64 {
    let share = if workers == 1 { 0.0 } else { share };
    let poll = POLL + PICK + CHECK + share * 2.0 * LINES_OF_A_WAKE * transfer;
    workers as f64 / poll
}

fn main() {
    println!(
        "| workers | transfer | one lock | shards, no wakes between them | one poll in ten wakes | each poll wakes |"
    );
    println!("|---:|---:|---:|---:|---:|---:|");
    for transfer in TRANSFERS {
        let one = exact(1, transfer);
        for workers in WORKERS {
            let row = [
                exact(workers, transfer),
                bounded(workers, transfer, 0.0),
                bounded(workers, transfer, 0.1),
                bounded(workers, transfer, 1.0),
            ];
            let cell = |polls: f64| {
                let share = polls / (one * workers as f64);
                format!("{:.2} M/s, {share:.2}", polls * 1e3)
            };
            let [exact, alone, some, all] = row.map(cell);
            println!("| {workers} | {transfer} ns | {exact} | {alone} | {some} | {all} |");
        }
    }
}
