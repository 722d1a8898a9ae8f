//! An application for embassy: `embassy-time`, `embassy-sync`, `embassy-futures` and
//! `embedded-hal-async`, under `corank-mcu`. With the feature `on-embassy` the same source runs
//! under embassy-executor. Only the first lines differ.

#![no_std]
#![no_main]

#[cfg(not(feature = "on-embassy"))]
use corank_mcu as executor;
#[cfg(feature = "on-embassy")]
use embassy_executor as executor;
use executor::Spawner;

use corank_mcu::systick;
use corank_mcu_firmware::{CORE_HZ, exit};
use cortex_m_rt::exception;
use cortex_m_semihosting::hprintln;
use embassy_futures::join::join;
use embassy_futures::select::{Either, select};
use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex;
use embassy_sync::channel::Channel;
use embassy_sync::mutex::Mutex;
use embassy_sync::signal::Signal;
use embassy_time::{Delay, Duration, Instant, Ticker, Timer, with_timeout};
use embedded_hal_async::delay::DelayNs;

static READINGS: Channel<CriticalSectionRawMutex, u32, 4> = Channel::new();
static TOTAL: Mutex<CriticalSectionRawMutex, u32> = Mutex::new(0);
static STOP: Signal<CriticalSectionRawMutex, ()> = Signal::new();

#[exception]
fn SysTick() {
    systick::tick();
}

/// A driver as for any HAL of embassy.
async fn measure(delay: &mut impl DelayNs, number: u32) -> u32 {
    delay.delay_ms(2).await;
    number * number
}

#[executor::task(pool_size = 2)]
async fn sensor(first: u32, period: u64) {
    let mut number = first;
    let mut ticker = Ticker::every(Duration::from_millis(period));
    loop {
        match select(STOP.wait(), ticker.next()).await {
            Either::First(()) => break,
            Either::Second(()) => {
                READINGS.send(measure(&mut Delay, number).await).await;
                number += 1;
            }
        }
    }
    STOP.signal(());
}

#[executor::task]
async fn add() {
    loop {
        let reading = READINGS.receive().await;
        *TOTAL.lock().await += reading;
        hprintln!("{} ms: {}", Instant::now().as_millis(), reading);
    }
}

#[executor::main]
async fn main(spawner: Spawner) {
    if let Some(mut peripherals) = cortex_m::Peripherals::take() {
        systick::start(&mut peripherals.SYST, CORE_HZ);
    }
    spawner.spawn(add().unwrap());
    spawner.spawn(sensor(1, 10).unwrap());
    spawner.spawn(sensor(100, 37).unwrap());
    Timer::after_millis(101).await;
    let late = with_timeout(Duration::from_millis(5), core::future::pending::<()>()).await;
    STOP.signal(());
    let (total, ()) = join(TOTAL.lock(), Timer::after_millis(20)).await;
    hprintln!(
        "{} ms: total {}, late {}",
        Instant::now().as_millis(),
        *total,
        late.is_err()
    );
    exit(*total == 20_586);
}
