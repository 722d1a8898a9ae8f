//! Tests of the storage without heap, on the target: one line each, then `N passed, N failed`, and
//! QEMU ends with 0 or 1.
//!
//! Interrupts are real: SysTick wakes coroutines from its handler, where no executor runs, so the
//! wake goes by the inbox.

#![no_std]
#![no_main]

use core::cell::{Cell, RefCell};
use core::future::{pending, poll_fn};
use core::sync::atomic::Ordering;
use core::task::{Poll, Waker};

use corank::{
    Config, Executor, JoinError, Levels, Policy, Pool, PoolInUse, Priority, Published, SpawnError,
    State, Step, spawn, yield_now,
};
use corank_mcu_firmware::harness::{Failure, Result, Test, level, log, logged, run};
use corank_mcu_firmware::{check, in_interrupt};
use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::{entry, exception};
use critical_section::Mutex;
use portable_atomic::{AtomicBool, AtomicU32, AtomicUsize};

/// Every test sets its own executor up in this pool, so each also tests that the one before has
/// given it back.
static POOL: Pool<4, 96> = Pool::new();

fn executor(config: Config) -> core::result::Result<Executor, Failure> {
    Executor::in_pool(&POOL, config).map_err(|_| Failure("the pool is free", line!()))
}

async fn log_twice(what: u8) {
    log(what);
    yield_now().await;
    log(what);
}

/// Counts its own drop.
struct Guard;

static DROPS: AtomicUsize = AtomicUsize::new(0);

impl Drop for Guard {
    fn drop(&mut self) {
        DROPS.fetch_add(1, Ordering::Relaxed);
    }
}

fn order() -> Result {
    let executor = executor(Config::new())?;
    for (what, at) in [(b'a', 5), (b'b', 3), (b'c', 5), (b'd', 63)] {
        check!(executor.spawn(level(at), log_twice(what)).is_ok());
    }
    check!(executor.run_until_idle() == 8);
    check!(logged(b"bbacacdd"));
    check!(executor.live() == 0);
    Ok(())
}

fn a_join_carries_output_and_priority() -> Result {
    let executor = executor(Config::new())?;
    let low = executor.spawn(level(40), async {
        yield_now().await;
        7
    });
    let Ok(low) = low else {
        return Err(Failure("spawned", line!()));
    };
    let id = low.id();
    let high = executor.spawn(
        level(2),
        async move { low.await.map_or(0, |output| output + 1) },
    );
    let Ok(high) = high else {
        return Err(Failure("spawned", line!()));
    };
    check!(executor.step() == Step::Ran);
    check!(executor.priority(id) == Some(level(2)));
    executor.run_until_idle();
    check!(executor.state(id).is_none());
    check!(matches!(high.try_join(), Ok(Ok(8))));
    Ok(())
}

fn cancel_drops_the_future_at_once() -> Result {
    let executor = executor(Config::new())?;
    DROPS.store(0, Ordering::Relaxed);
    let guard = Guard;
    let blocked = executor.spawn(level(9), async move {
        let _guard = guard;
        pending::<()>().await;
    });
    let Ok(blocked) = blocked else {
        return Err(Failure("spawned", line!()));
    };
    executor.run_until_idle();
    check!(blocked.cancel());
    check!(DROPS.load(Ordering::Relaxed) == 1);
    check!(!blocked.cancel());
    check!(matches!(blocked.try_join(), Ok(Err(JoinError::Cancelled))));
    Ok(())
}

fn full_pool_is_an_error() -> Result {
    let executor = executor(Config::new())?;
    for _ in 0..4 {
        check!(executor.spawn(Priority::DEFAULT, async {}).is_ok());
    }
    check!(matches!(
        executor.spawn(Priority::DEFAULT, async {}),
        Err(SpawnError::TableFull)
    ));
    executor.run_until_idle();
    check!(executor.spawn(Priority::DEFAULT, async {}).is_ok());
    Ok(())
}

fn too_large_future_is_an_error() -> Result {
    let executor = executor(Config::new())?;
    let large = [1u8; 200];
    let spawned = executor.spawn(Priority::DEFAULT, async move {
        yield_now().await;
        large[3]
    });
    check!(matches!(
        spawned,
        Err(SpawnError::FutureTooLarge {
            needs: 200..,
            room: 96
        })
    ));
    check!(executor.live() == 0);
    Ok(())
}

fn reprioritized_while_ready() -> Result {
    let executor = executor(Config::new())?;
    let Ok(first) = executor.spawn(level(5), log_twice(b'a')) else {
        return Err(Failure("spawned", line!()));
    };
    check!(executor.spawn(level(5), log_twice(b'b')).is_ok());
    check!(executor.spawn(level(4), log_twice(b'c')).is_ok());
    check!(executor.reprioritize(first.id(), level(4)));
    executor.run_until_idle();
    check!(logged(b"cacabb"));
    check!(!executor.reprioritize(first.id(), level(1)));
    Ok(())
}

fn bounded_policy_reserves_picks() -> Result {
    let executor = executor(Config::new().policy(Policy::bounded(4)))?;
    for (what, at, times) in [(b'u', 0, 14), (b'l', 9, 2)] {
        let spawned = executor.spawn(level(at), async move {
            for _ in 0..times {
                log(what);
                yield_now().await;
            }
        });
        check!(spawned.is_ok());
    }
    for _ in 0..16 {
        check!(executor.step() == Step::Ran);
    }
    check!(logged(b"uuuuuuuluuuuuuul"));
    Ok(())
}

fn stale_identifier_is_refused() -> Result {
    let executor = executor(Config::new())?;
    let spawned = executor.spawn(Priority::DEFAULT, async {});
    let Ok(handle) = spawned else {
        return Err(Failure("spawned", line!()));
    };
    let stale = handle.id();
    drop(handle);
    executor.run_until_idle();
    check!(executor.spawn(Priority::DEFAULT, pending::<()>()).is_ok());
    check!(executor.state(stale).is_none());
    check!(!executor.wake(stale) && !executor.cancel(stale));
    check!(executor.live() == 1);
    Ok(())
}

fn spawned_from_a_coroutine() -> Result {
    let executor = executor(Config::new())?;
    let outer = executor.spawn(level(3), async {
        match spawn(level(1), async { 20 }) {
            Ok(inner) => inner.await.unwrap_or(0) + 1,
            Err(_) => 0,
        }
    });
    let Ok(outer) = outer else {
        return Err(Failure("spawned", line!()));
    };
    check!(executor.run_until_idle() == 3);
    check!(matches!(outer.try_join(), Ok(Ok(21))));
    check!(matches!(
        spawn(level(1), async {}),
        Err(SpawnError::NotRunning)
    ));
    Ok(())
}

/* ---- interrupts ---- */

/// Whom SysTick wakes, and how often it has.
static WAKER: Mutex<RefCell<Option<Waker>>> = Mutex::new(RefCell::new(None));
static TICKS: AtomicU32 = AtomicU32::new(0);
static ONLY_ONCE: AtomicBool = AtomicBool::new(true);
static SEEN: AtomicU32 = AtomicU32::new(0);
static PUBLISHED: Published = Published::new();

#[exception]
fn SysTick() {
    let once = ONLY_ONCE.load(Ordering::Relaxed);
    if once {
        timer(|timer| timer.disable_counter());
    }
    TICKS.fetch_add(1, Ordering::Relaxed);
    assert!(in_interrupt());
    critical_section::with(|cs| match &mut *WAKER.borrow_ref_mut(cs) {
        slot if once => slot.take().map_or((), Waker::wake),
        Some(waker) => waker.wake_by_ref(),
        None => {}
    });
}

static TIMER: Mutex<RefCell<Option<SYST>>> = Mutex::new(RefCell::new(None));

fn timer<R: Default>(act: impl FnOnce(&mut SYST) -> R) -> R {
    critical_section::with(|cs| TIMER.borrow_ref_mut(cs).as_mut().map(act)).unwrap_or_default()
}

/// Starts SysTick: one interrupt after so many ticks, or one every so many.
fn start(ticks: u32, once: bool) {
    TICKS.store(0, Ordering::Relaxed);
    ONLY_ONCE.store(once, Ordering::Relaxed);
    timer(|timer| {
        timer.set_clock_source(SystClkSource::Core);
        timer.set_reload(ticks);
        timer.clear_current();
        timer.enable_interrupt();
        timer.enable_counter();
    });
}

/// Leaves its waker for SysTick at each poll; ready at poll number `polls`.
async fn wait_for_tick(polls: u32) {
    let count = Cell::new(0);
    poll_fn(|cx| {
        count.set(count.get() + 1);
        SEEN.store(TICKS.load(Ordering::Relaxed), Ordering::Relaxed);
        if count.get() == polls {
            return Poll::Ready(());
        }
        critical_section::with(|cs| *WAKER.borrow_ref_mut(cs) = Some(cx.waker().clone()));
        Poll::Pending
    })
    .await;
}

fn interrupt_wakes_a_sleeping_core() -> Result {
    let executor = executor(Config::new().publish_to(&PUBLISHED))?;
    let Ok(handle) = executor.spawn(level(7), wait_for_tick(2)) else {
        return Err(Failure("spawned", line!()));
    };
    check!(executor.run_until_idle() == 1);
    start(2000, true);
    // A wake between the check and `wfi` is not lost: a pending interrupt ends `wfi` even while
    // interrupts are masked.
    while cortex_m::interrupt::free(|_| {
        let idle = PUBLISHED.arriving().is_empty();
        if idle {
            cortex_m::asm::wfi();
        }
        idle
    }) {}
    // The handler has announced it and touched nothing of the owner's.
    check!(PUBLISHED.arriving() == Levels::NONE.with(level(7)));
    check!(PUBLISHED.ready().is_empty());
    check!(executor.state(handle.id()) == Some(State::Blocked));
    check!(executor.run_until_idle() == 1);
    check!(handle.has_exited());
    check!(PUBLISHED.urgency().is_empty());
    Ok(())
}

fn interrupt_during_a_poll_goes_by_the_inbox() -> Result {
    let executor = executor(Config::new().publish_to(&PUBLISHED))?;
    let Ok(handle) = executor.spawn(level(7), wait_for_tick(2)) else {
        return Err(Failure("spawned", line!()));
    };
    executor.run_until_idle();
    let waiting = handle.id();
    let busy = executor.spawn(level(30), async move {
        start(500, true);
        while TICKS.load(Ordering::Relaxed) == 0 {}
        // The interrupt has come and gone while this coroutine ran. Nothing has touched the ready
        // queues.
        PUBLISHED.ready().is_empty() && PUBLISHED.arriving().contains(level(7))
    });
    let Ok(busy) = busy else {
        return Err(Failure("spawned", line!()));
    };
    check!(executor.step() == Step::Ran);
    check!(executor.state(waiting) == Some(State::Blocked));
    check!(executor.run_until_idle() == 1);
    check!(handle.has_exited());
    check!(matches!(busy.try_join(), Ok(Ok(true))));
    Ok(())
}

fn no_wake_of_a_thousand_interrupts_is_lost() -> Result {
    const WAKES: u32 = 1000;
    let executor = executor(Config::new().publish_to(&PUBLISHED))?;
    let Ok(handle) = executor.spawn(level(7), wait_for_tick(u32::MAX)) else {
        return Err(Failure("spawned", line!()));
    };
    // Something that is always ready, so that interrupts come at every point of a switch. The
    // period is a prime number of ticks, so that the points move.
    let busy = executor.spawn(level(30), async {
        while TICKS.load(Ordering::Relaxed) < WAKES {
            yield_now().await;
        }
    });
    check!(busy.is_ok());
    start(211, false);
    executor.run_until_idle();
    timer(|timer| timer.disable_counter());
    executor.run_until_idle();
    // The last poll came after the last wake.
    check!(TICKS.load(Ordering::Relaxed) >= WAKES);
    check!(SEEN.load(Ordering::Relaxed) == TICKS.load(Ordering::Relaxed));
    check!(executor.state(handle.id()) == Some(State::Blocked));
    check!(PUBLISHED.urgency().is_empty());
    Ok(())
}

fn pool_is_free_after_the_last_waker() -> Result {
    // The test before has left a waker in SysTick's hands, of an executor that is gone.
    check!(matches!(
        Executor::in_pool(&POOL, Config::new()),
        Err(PoolInUse)
    ));
    let waker = critical_section::with(|cs| WAKER.borrow_ref_mut(cs).take());
    check!(waker.is_some());
    drop(waker);
    executor(Config::new()).map(drop)
}

#[entry]
fn main() -> ! {
    if let Some(peripherals) = cortex_m::Peripherals::take() {
        critical_section::with(|cs| *TIMER.borrow_ref_mut(cs) = Some(peripherals.SYST));
    }
    let tests: [Test; 13] = [
        ("order", order),
        (
            "a_join_carries_output_and_priority",
            a_join_carries_output_and_priority,
        ),
        (
            "cancel_drops_the_future_at_once",
            cancel_drops_the_future_at_once,
        ),
        ("full_pool_is_an_error", full_pool_is_an_error),
        ("too_large_future_is_an_error", too_large_future_is_an_error),
        ("reprioritized_while_ready", reprioritized_while_ready),
        (
            "bounded_policy_reserves_picks",
            bounded_policy_reserves_picks,
        ),
        ("stale_identifier_is_refused", stale_identifier_is_refused),
        ("spawned_from_a_coroutine", spawned_from_a_coroutine),
        (
            "interrupt_wakes_a_sleeping_core",
            interrupt_wakes_a_sleeping_core,
        ),
        (
            "interrupt_during_a_poll_goes_by_the_inbox",
            interrupt_during_a_poll_goes_by_the_inbox,
        ),
        (
            "no_wake_of_a_thousand_interrupts_is_lost",
            no_wake_of_a_thousand_interrupts_is_lost,
        ),
        (
            "pool_is_free_after_the_last_waker",
            pool_is_free_after_the_last_waker,
        ),
    ];
    run(&tests)
}
