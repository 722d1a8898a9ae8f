//! Measures the latency beside a process that lies about its coroutines (rules U1 to U3).
//!
//! Processes at levels from 40 on, one for each hart, compute without end, and claim what they
//! like. A coroutine at level 10 of another process is woken by timers. `latency` is the median
//! time from when a timer is due to its start. It must not depend on what the other processes
//! claim. On several harts the machine has to run by the clock rather than count instructions.
//! Otherwise QEMU lets the harts take turns of up to milliseconds, and a latency shows nothing
//! else.
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use core::time::Duration;

use corank_user::process::{self, Pid};
use corank_user::runtime::{self, Global};
use corank_user::{Priority, page, time};

use crate::load::{Log, Numbers, wait_until};
use crate::{message, microseconds, row};

/// Levels that the other process was granted.
const FROM_40: u64 = !0 << 40;
/// Timers of a run, and the time between two of them in nanoseconds.
///
/// The period is no multiple of the clock ticks' period. A run is short, so that the forgers take
/// turns often where the host's work changes within seconds.
const TIMERS: usize = 41;
const PERIOD: u64 = 2_300_000;
const WORK: Duration = Duration::from_micros(100);

/// Claim of a forger at its nth turn.
type Claim = fn(u64) -> u64;

/// The first claims what is true.
const CLAIMS: [(&str, Claim); 4] = [
    ("none", |_| 1 << 45),
    ("ones", |_| !0),
    ("random", |turn| {
        (turn + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
    }),
    (
        "flipping",
        |turn| if turn.is_multiple_of(2) { 1 } else { 1 << 60 },
    ),
];

/// The same with every level granted, which shows the purpose of the grant.
///
/// The kernel believes the claim most of the time. If it believed the claim all of the time, no
/// other process would run any more.
const BELIEVED: (&str, Claim) = ("believed", |_| {
    let phase = time::ticks_in(Duration::from_millis(10));
    if (time::ticks() / phase).is_multiple_of(4) {
        1 << 60
    } else {
        1
    }
});

/// Measures the latency beside each kind of forger, and beside one that claims what is true.
///
/// # Errors
/// Something failed, or a forger made the latency longer than `within` percent of the other.
pub(crate) fn measure(global: Global, run: usize, within: Option<usize>) -> Result<(), String> {
    let mut claims = CLAIMS
        .map(|(name, claim)| (name, claim, FROM_40, 0))
        .to_vec();
    claims.push((BELIEVED.0, BELIEVED.1, !0, 0));
    // Each run begins with another one, so that none of them always follows `believed`.
    let first = run % claims.len();
    claims.rotate_left(first);
    for (forger, claim, grant, measured) in &mut claims {
        runtime::set_global(global);
        // One for each hart, because a process that waits has to find every hart busy.
        let others: Result<Vec<Pid>, String> = (0..process::harts())
            .map(|_| process::spawn(|| forge(*claim, *grant)).map_err(message))
            .collect();
        *measured = latency(global, run);
        for other in others? {
            process::kill(other, 9).map_err(message)?;
            process::wait(other).map_err(message)?;
        }
        let parameters = format!(r#""forger":"{forger}","#);
        let value = microseconds(*measured);
        row(global, &parameters, run, "latency", "us", value);
    }
    let honest = claims.iter().find(|claim| claim.0 == CLAIMS[0].0);
    let honest = honest.map_or(0, |claim| claim.3);
    let limit = within.map(|percent| honest * percent as u64 / 100);
    for (forger, _, grant, latency) in claims {
        if limit.is_some_and(|limit| (latency > limit) != (grant == !0)) {
            return Err(format!(
                "{forger}: a latency of {latency} ticks, {honest} beside the truth"
            ));
        }
    }
    Ok(())
}

/// Computes without end, and claims something else every few microseconds.
fn forge(claim: Claim, grant: u64) -> i32 {
    process::grant(process::id(), grant).expect("its own");
    let page = page::process();
    page.executors.store(1, Ordering::Relaxed);
    for turn in 0.. {
        page.ready.store(claim(turn), Ordering::Release);
        let start = time::ticks();
        while time::ticks() - start < 20 {
            core::hint::spin_loop();
        }
    }
    0
}

/// Returns the median latency, in ticks.
fn latency(global: Global, run: usize) -> u64 {
    let urgent = Priority::new(10).expect("below 64");
    let mut latencies = runtime::run(urgent, global, async move {
        let log = Log::new(0, TIMERS * 4);
        let mut numbers = Numbers::new(run as u64 + 1);
        let mut due = time::nanoseconds();
        let mut latencies = Vec::with_capacity(TIMERS);
        for _ in 0..TIMERS {
            due += numbers.around(PERIOD);
            let ready = wait_until(due).await;
            // From when it was due, also if the timer before it was so late that this one was not
            // waited for.
            let was_due = time::ticks_in(Duration::from_nanos(due));
            latencies.push(time::ticks().saturating_sub(was_due));
            log.work(10, ready, 1, WORK).await;
        }
        latencies
    });
    latencies.sort_unstable();
    latencies[TIMERS / 2]
}
