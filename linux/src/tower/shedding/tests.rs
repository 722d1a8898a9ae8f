//! Limits by level, and the answers to refused requests.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn refusal(wait: Duration) -> Refusal {
    Refusal {
        level: Priority::BULK,
        wait,
        limit: SECOND,
    }
}

#[test]
fn later_limits_replace_earlier_ones() {
    let shedding = Shedding::new()
        .limit(Priority::URGENT, 2 * SECOND)
        .limit(Priority::BULK, SECOND);
    let limits: Vec<_> = [0, 7, 8, 47, 48, 63]
        .map(|level| shedding.of(Priority::new(level).unwrap()))
        .into();
    let (one, two) = (Some(1_000_000_000), Some(2_000_000_000));
    assert_eq!(limits, [None, None, two, two, one, one]);
    let all = Shedding::new().limit(Priority::MOST_URGENT, Duration::MAX);
    assert_eq!(all.of(Priority::MOST_URGENT), Some(u64::MAX));
}

#[test]
fn retry_after_is_in_whole_seconds_and_at_least_one() {
    for (wait, seconds) in [(0, 1), (999, 1), (1000, 1), (1001, 2), (61_000, 61)] {
        let refusal = refusal(Duration::from_millis(wait));
        assert_eq!(refusal.retry_after(), seconds, "{wait} ms");
    }
}

#[test]
fn http_gets_503_and_retry_after() {
    let response: http::Response<String> = ServiceUnavailable.refuse(&refusal(2 * SECOND));
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["retry-after"], "2");
    assert_eq!(response.body(), "");
}

/// A layer on one worker, in which one request of level 48 is being served and takes a second.
fn busy(limits: Shedding) -> (Shared, Ticket) {
    let shared = Shed::new(limits, ()).shared;
    let Ok(shared) = Arc::try_unwrap(shared).map_err(drop) else {
        panic!("it is new");
    };
    let capacity = Capacity {
        workers: 1,
        bulk_from: None,
    };
    shared.capacity.set(capacity).unwrap();
    let mut first = shared.admit(Priority::BULK).unwrap();
    first.begin_poll();
    first.end_poll(0, 1_000_000_000, super::super::accounts::After::Ends);
    let mut now_served = shared.admit(Priority::BULK).unwrap();
    now_served.begin_poll();
    (shared, now_served)
}

#[test]
fn a_level_without_a_limit_is_never_refused() {
    let (shared, served) = busy(Shedding::new().limit(Priority::LEAST_URGENT, SECOND));
    let all: Vec<_> = (0..100).map(|_| shared.admit(Priority::BULK)).collect();
    assert!(all.iter().all(Result::is_ok));
    let refusal = shared.admit(Priority::LEAST_URGENT).map(drop).unwrap_err();
    assert_eq!(refusal.level(), Priority::LEAST_URGENT);
    assert_eq!(refusal.limit(), SECOND);
    assert!(refusal.wait() > 100 * SECOND, "{refusal:?}");
    drop((all, served));
    assert!(shared.admit(Priority::LEAST_URGENT).is_ok());
}

#[test]
fn urgent_requests_are_admitted_where_others_are_refused() {
    let (shared, served) = busy(Shedding::new().limit(Priority::MOST_URGENT, SECOND / 2));
    assert!(shared.admit(Priority::BULK).is_err());
    assert!(shared.admit(Priority::LEAST_URGENT).is_err());
    let urgent: Vec<_> = (0..100).map(|_| shared.admit(Priority::URGENT)).collect();
    assert!(urgent.iter().all(Result::is_ok));
    drop((urgent, served));
    assert!(shared.admit(Priority::BULK).is_ok());
}
