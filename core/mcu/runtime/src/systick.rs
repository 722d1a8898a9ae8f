//! A driver for `embassy-time` on the timer that each Cortex-M has: a periodic interrupt, one for
//! each tick of `embassy-time`.
//!
//! The firmware chooses the tick by a feature of `embassy-time`, such as `tick-hz-1_000`, and the
//! number of waiting timers by one of `embassy-time-queue-utils`, such as `generic-queue-8`. It
//! calls [`start`] once, and [`tick`] in the handler of SysTick. With a driver of its chip, such as
//! that of an embassy HAL, it leaves this one out.

use core::cell::{Cell, RefCell};
use core::task::Waker;

use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;
use critical_section::Mutex;
use embassy_time_driver::{Driver, TICK_HZ};
use embassy_time_queue_utils::Queue;

/// The time and the timers.
struct Timers {
    now: Mutex<Cell<u64>>,
    next: Mutex<Cell<u64>>,
    queue: Mutex<RefCell<Queue>>,
}

static DRIVER: Timers = Timers {
    now: Mutex::new(Cell::new(0)),
    next: Mutex::new(Cell::new(u64::MAX)),
    queue: Mutex::new(RefCell::new(Queue::new())),
};

embassy_time_driver::time_driver_impl!(static EMBASSY: Forward = Forward);

struct Forward;

impl Driver for Forward {
    fn now(&self) -> u64 {
        critical_section::with(|cs| DRIVER.now.borrow(cs).get())
    }

    fn schedule_wake(&self, at: u64, waker: &Waker) {
        critical_section::with(|cs| {
            let mut queue = DRIVER.queue.borrow(cs).borrow_mut();
            if queue.schedule_wake(at, waker) {
                let now = DRIVER.now.borrow(cs).get();
                DRIVER.next.borrow(cs).set(queue.next_expiration(now));
            }
        });
    }
}

/// Starts SysTick, with a core clock of so many hertz.
///
/// # Panics
/// If a tick is longer than the timer's 24 bits.
pub fn start(timer: &mut SYST, core_hz: u32) {
    let cycles = u64::from(core_hz) / TICK_HZ;
    assert!(
        (1..=1 << 24).contains(&cycles),
        "choose another tick of embassy-time"
    );
    timer.set_clock_source(SystClkSource::Core);
    timer.set_reload(cycles as u32 - 1);
    timer.clear_current();
    timer.enable_interrupt();
    timer.enable_counter();
}

/// Advances the time by one tick. The handler of SysTick calls it.
pub fn tick() {
    critical_section::with(|cs| {
        let now = DRIVER.now.borrow(cs).get() + 1;
        DRIVER.now.borrow(cs).set(now);
        if now >= DRIVER.next.borrow(cs).get() {
            let next = DRIVER.queue.borrow(cs).borrow_mut().next_expiration(now);
            DRIVER.next.borrow(cs).set(next);
        }
    });
}
