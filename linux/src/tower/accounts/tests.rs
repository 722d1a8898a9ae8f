//! The accounts with times that the tests choose.

use super::*;
use proptest::prelude::*;

const MILLI: u64 = 1_000_000;
const START: u64 = 1_000 * MILLI;

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

fn workers(workers: u64) -> Capacity {
    Capacity {
        workers,
        bulk_from: None,
    }
}

/// Accounts with a clock.
struct Scene {
    accounts: Arc<Accounts>,
    capacity: Capacity,
    now: u64,
}

impl Scene {
    fn new(capacity: Capacity) -> Self {
        Self {
            accounts: Arc::new(Accounts::new()),
            capacity,
            now: START,
        }
    }

    fn forecast(&self, of: u8) -> Forecast {
        self.accounts.forecast(level(of), self.capacity, self.now)
    }

    /// Admits a request if its wait is within the limit.
    fn admit(&self, of: u8, limit: u64) -> Option<Ticket> {
        let forecast = self.forecast(of);
        let admitted = forecast.at_once || forecast.wait <= limit;
        admitted.then(|| {
            self.accounts
                .admit(level(of), forecast, Some(limit), self.now)
        })
    }

    /// Admits as many requests of a level as the limit allows, and at most 1000.
    fn admit_all(&self, of: u8, limit: u64) -> Vec<Ticket> {
        (0..1000).map_while(|_| self.admit(of, limit)).collect()
    }

    /// Serves a request in one poll.
    fn serve(&mut self, mut ticket: Ticket, time: u64, after: After) -> Option<Ticket> {
        let began = self.now;
        ticket.begin_poll();
        self.now += time;
        ticket.end_poll(began, self.now, after);
        (after != After::Ends).then_some(ticket)
    }

    /// Teaches the accounts how long a request takes, without lasting effects on the shares.
    fn teach(&mut self, of: u8, time: u64) {
        let ticket = self.admit(of, u64::MAX).unwrap();
        self.serve(ticket, time, After::Ends);
        // The first window has the request, the second one nothing.
        self.pass(1000 * MILLI);
        self.pass(1000 * MILLI);
    }

    /// Lets time pass without requests.
    fn pass(&mut self, time: u64) {
        self.now += time;
        self.forecast(0);
    }

    fn ready(&self, of: u8) -> u64 {
        self.accounts.of(level(of)).ready.load(Relaxed)
    }

    fn is_empty(&self) -> bool {
        (0..64).all(|level| self.ready(level) == 0)
    }
}

#[test]
fn nothing_is_refused_before_a_request_has_ended() {
    let scene = Scene::new(workers(1));
    assert_eq!(scene.admit_all(40, MILLI).len(), 1000);
    assert!(scene.is_empty());
}

#[test]
fn a_burst_that_was_admitted_unknown_counts_once_the_first_has_ended() {
    let mut scene = Scene::new(workers(1));
    let mut burst = scene.admit_all(40, MILLI);
    let first = burst.pop().unwrap();
    scene.serve(first, MILLI, After::Ends);
    assert_eq!(scene.ready(40), 999);
    assert_eq!(scene.admit_all(40, 900 * MILLI).len(), 0);
    assert_eq!(scene.forecast(40).wait, 1000 * MILLI);
}

/// Before one has ended, what yields is thought to take as long again.
#[test]
fn a_request_that_has_not_ended_says_something() {
    let mut scene = Scene::new(workers(1));
    let mut burst = scene.admit_all(40, 10 * MILLI);
    burst.truncate(5);
    let first = burst.pop().unwrap();
    let first = scene.serve(first, MILLI, After::Yields).unwrap();
    // Six times 2 ms, with the new one.
    assert_eq!(scene.forecast(40).wait, 12 * MILLI);
    assert_eq!(scene.admit_all(40, 10 * MILLI).len(), 0);
    // What is known replaces what was thought.
    scene.serve(first, MILLI / 2, After::Ends);
    assert_eq!(scene.forecast(40).wait, 5 * MILLI * 3 / 2);
}

#[test]
fn as_many_are_admitted_as_the_limit_has_room_for() {
    for (count, admitted) in [(1, 10), (2, 19), (4, 37)] {
        let mut scene = Scene::new(workers(count));
        scene.teach(40, MILLI);
        // The last one waits for the others, by as many workers at a time, and then for itself.
        let tickets = scene.admit_all(40, 10 * MILLI);
        assert_eq!(tickets.len(), admitted, "{count} workers");
        assert!(scene.admit(40, 10 * MILLI).is_none());
        drop(tickets);
        assert!(scene.is_empty());
    }
}

#[test]
fn a_free_worker_takes_a_request_whatever_the_limit() {
    let mut scene = Scene::new(workers(2));
    scene.teach(40, 50 * MILLI);
    assert_eq!(scene.admit_all(40, MILLI).len(), 2);
}

#[test]
fn less_urgent_requests_do_not_count() {
    let mut scene = Scene::new(workers(1));
    scene.teach(40, MILLI);
    scene.teach(8, MILLI);
    let unlimited = scene.admit_all(40, u64::MAX);
    assert_eq!(unlimited.len(), 1000);
    let urgent = scene.admit_all(8, 5 * MILLI);
    assert_eq!(urgent.len(), 5);
    // The urgent ones count for others.
    drop(unlimited);
    assert_eq!(scene.admit_all(40, 5 * MILLI).len(), 0);
    assert_eq!(scene.admit_all(40, 8 * MILLI).len(), 3);
}

#[test]
fn threads_for_bulk_work_have_a_queue_of_their_own() {
    let mut scene = Scene::new(Capacity {
        workers: 1,
        bulk_from: Some(level(32)),
    });
    for of in [8, 40, 48] {
        scene.teach(of, MILLI);
    }
    let _urgent = scene.admit_all(8, 500 * MILLI);
    assert_eq!(scene.admit_all(40, 5 * MILLI).len(), 5);
    let _more_urgent = scene.admit_all(40, 5 * MILLI);
    assert_eq!(scene.admit_all(48, 5 * MILLI).len(), 0);
    assert_eq!(scene.admit_all(48, 8 * MILLI).len(), 3);
}

#[test]
fn what_more_urgent_levels_take_lengthens_the_wait() {
    let mut scene = Scene::new(workers(2));
    scene.teach(40, MILLI);
    scene.teach(0, MILLI);
    // Level 0 has half of two workers for 100 ms.
    for _ in 0..100 {
        let ticket = scene.admit(0, u64::MAX).unwrap();
        scene.serve(ticket, MILLI, After::Ends);
    }
    scene.pass(0);
    let share = scene.accounts.of(level(0)).share.load(Relaxed);
    let half = ONE / 2;
    assert!((half * 8 / 10..=half).contains(&share), "{share}");
    let wait = scene.forecast(40).wait;
    assert!((MILLI * 16 / 10..=2 * MILLI).contains(&wait), "{wait}");
    // It is forgotten.
    scene.pass(100 * MILLI);
    assert_eq!(scene.forecast(40).wait, MILLI);
}

#[test]
fn a_request_that_waits_for_something_else_is_no_load() {
    let mut scene = Scene::new(workers(1));
    scene.teach(40, MILLI);
    let tickets = scene.admit_all(40, 10 * MILLI);
    let mut waiting: Vec<_> = (tickets.into_iter())
        .map(|ticket| scene.serve(ticket, MILLI, After::Waits).unwrap())
        .collect();
    assert_eq!(scene.ready(40), 0);
    assert_eq!(scene.admit_all(40, 10 * MILLI).len(), 10);
    // It is one again while it is polled.
    let began = scene.now;
    waiting[0].begin_poll();
    assert_eq!(scene.ready(40), 1);
    waiting[0].end_poll(began, began + MILLI, After::Waits);
    assert_eq!(scene.ready(40), 0);
    drop(waiting);
    assert!(scene.is_empty());
}

#[test]
fn a_request_that_yields_stays_ready_and_is_one_stretch() {
    let mut scene = Scene::new(workers(1));
    let mut ticket = scene.admit(40, MILLI).unwrap();
    for _ in 0..9 {
        ticket = scene.serve(ticket, MILLI, After::Yields).unwrap();
        assert_eq!(scene.ready(40), 1);
    }
    scene.serve(ticket, MILLI, After::Ends);
    assert_eq!(scene.forecast(40).wait, 10 * MILLI);
    assert!(scene.is_empty());
}

/// Waits that are twice as long as predicted lengthen the predictions, until few are exceeded.
#[test]
fn predictions_follow_the_waits() {
    let mut scene = Scene::new(workers(1));
    scene.teach(40, MILLI);
    let limit = 10 * MILLI;
    let mut beyond = 0;
    let mut room = 0;
    for round in 0..20_000 {
        // As many as there is room for wait; the last one is observed.
        let others = scene.admit_all(40, limit);
        room = others.len();
        let last = others.into_iter().next_back().unwrap();
        // Each takes 1 ms, and each millisecond of work takes two.
        scene.now += 2 * MILLI * (room as u64 - 1);
        beyond += usize::from(round >= 10_000 && 2 * room > 10 + 1);
        scene.serve(last, MILLI, After::Ends);
    }
    assert!((5..=6).contains(&room), "{room}");
    assert!(beyond <= 200, "{beyond} of 10000");
    // The factor has an end, and comes back.
    let account = scene.accounts.of(level(40));
    for _ in 0..1000 {
        account.note_wait(1, 2);
    }
    assert_eq!(account.factor.load(Relaxed), GREATEST_FACTOR);
    for _ in 0..100_000 {
        account.note_wait(1, 1);
    }
    assert_eq!(account.factor.load(Relaxed), ONE);
}

/// Nothing that was measured before keeps a free worker from a request.
#[test]
fn no_history_refuses_forever() {
    let mut scene = Scene::new(workers(1));
    scene.teach(40, u64::MAX / 4);
    let account = scene.accounts.of(level(40));
    account.factor.store(GREATEST_FACTOR, Relaxed);
    let ticket = scene.admit(40, 1).unwrap();
    assert!(scene.admit(40, MILLI).is_none());
    scene.serve(ticket, MILLI, After::Ends);
    assert!(scene.admit(40, 1).is_some());
}

/// One step of a random history.
#[derive(Clone, Copy, Debug)]
enum Step {
    Admit(u8, u64),
    Poll(usize, u64, After),
    Drop(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let after = prop_oneof![Just(After::Yields), Just(After::Waits), Just(After::Ends)];
    prop_oneof![
        (0..64_u8, 0..50 * MILLI).prop_map(|(level, limit)| Step::Admit(level, limit)),
        (any::<usize>(), 0..10 * MILLI, after)
            .prop_map(|(at, time, after)| Step::Poll(at, time, after)),
        any::<usize>().prop_map(Step::Drop),
        (0..100 * MILLI).prop_map(Step::Pass),
    ]
}

proptest! {
    #[test]
    fn accounts_are_empty_when_all_requests_are_gone(
        count in 1..4_u64,
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut scene = Scene::new(workers(count));
        let mut tickets = Vec::new();
        for step in steps {
            match step {
                Step::Admit(of, limit) => {
                    // What is less urgent changes nothing.
                    let before = scene.forecast(of);
                    if of < 63 {
                        let other = scene.accounts.admit(level(of + 1), before, None, scene.now);
                        prop_assert_eq!(scene.forecast(of), before);
                        drop(other);
                    }
                    let admitted = scene.admit(of, limit);
                    prop_assert_eq!(admitted.is_some(), before.at_once || before.wait <= limit);
                    tickets.extend(admitted);
                }
                Step::Poll(at, time, after) if !tickets.is_empty() => {
                    let at = at % tickets.len();
                    let ticket = tickets.swap_remove(at);
                    tickets.extend(scene.serve(ticket, time, after));
                }
                Step::Drop(at) if !tickets.is_empty() => {
                    let at = at % tickets.len();
                    drop(tickets.swap_remove(at));
                }
                Step::Pass(time) => scene.pass(time),
                Step::Poll(..) | Step::Drop(_) => {}
            }
            let ready: u64 = (0..64).map(|level| scene.ready(level)).sum();
            prop_assert!(ready <= tickets.len() as u64);
        }
        drop(tickets);
        prop_assert!(scene.is_empty());
    }
}
