//! Measures what the domain costs a coroutine that yields.
//!
//! It compares three cases: without a domain, alone in one, and beside an idle participant. Each is
//! measured in an executor of one thread, and in one that workers share. The models run in turn.
//! The result is the fastest of many rounds each, in nanoseconds per yield: `cargo run --release -p
//! corank-domain --example cost`.

use corank::{Config, Executor, Priority, Relaxed, SharedExecutor, SystemView, yield_now};
use corank_domain::{Domain, Participant, Worker};
use std::pin::Pin;
use std::time::{Duration, Instant};

const YIELDS: u32 = 200_000;
/// The default number of rounds, unless the first argument says another.
const ROUNDS: usize = 200;

enum Kind {
    One(Executor),
    Shared(SharedExecutor),
}

struct Model {
    name: &'static str,
    executor: Kind,
    worker: Option<Pin<Box<Worker>>>,
    fastest: Duration,
}

impl Model {
    fn new(name: &'static str, shared: bool, participant: Option<&Participant>) -> Self {
        let published = participant.map(|participant| participant.publish().expect("room"));
        let config = published.map_or(Config::new(), |published| {
            Config::new().publish_to(published)
        });
        let worker = participant
            .zip(published)
            .map(|(participant, published)| participant.worker(published).expect("room"));
        Self {
            name,
            executor: if shared {
                Kind::Shared(SharedExecutor::with(config))
            } else {
                Kind::One(Executor::with(config))
            },
            worker,
            fastest: Duration::MAX,
        }
    }

    fn round(&mut self) {
        for _ in 0..2 {
            match &self.executor {
                Kind::One(executor) => drop(executor.spawn(Priority::DEFAULT, yields())),
                Kind::Shared(executor) => drop(executor.spawn(Priority::DEFAULT, yields())),
            }
        }
        let began = Instant::now();
        match (&self.executor, &self.worker) {
            (Kind::One(executor), Some(worker)) => run(executor, &**worker),
            (Kind::One(executor), None) => run(executor, &Relaxed),
            (Kind::Shared(executor), Some(worker)) => run_shared(executor, &**worker),
            (Kind::Shared(executor), None) => run_shared(executor, &Relaxed),
        }
        self.fastest = self.fastest.min(began.elapsed());
        if let Some(worker) = &self.worker {
            worker.idle();
        }
    }
}

async fn yields() {
    for _ in 0..YIELDS / 2 {
        yield_now().await;
    }
}

#[inline(never)]
fn run_shared(executor: &SharedExecutor, view: &impl SystemView) {
    let worker = executor.worker(std::task::Waker::noop().clone());
    worker.run_under(view);
}

#[inline(never)]
fn run(executor: &Executor, view: &impl SystemView) {
    executor.run_under(view);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let alone = Domain::named("cost-alone").join()?;
    let beside = [
        Domain::named("cost-beside").join()?,
        Domain::named("cost-beside").join()?,
    ];
    while beside[0].others() == 0 {
        std::thread::yield_now();
    }
    let mut models = [
        Model::new("one thread: no domain", false, None),
        Model::new("one thread: alone", false, Some(&alone)),
        Model::new("one thread: beside", false, Some(&beside[0])),
        Model::new("shared: no domain", true, None),
        Model::new("shared: alone", true, Some(&alone)),
        Model::new("shared: beside", true, Some(&beside[0])),
    ];
    let rounds = std::env::args()
        .nth(1)
        .map_or(Ok(ROUNDS), |rounds| rounds.parse())?;
    for _ in 0..rounds {
        models.iter_mut().for_each(Model::round);
    }
    for model in &models {
        let each = model.fastest.as_secs_f64() * 1e9 / f64::from(YIELDS);
        println!("{:22} {each:.2} ns", model.name);
    }
    Ok(())
}
