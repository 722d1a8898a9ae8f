//! Tests of `corank-mcu` on the target that no trace can show: static memory, interrupts, executors
//! of interrupts.
//!
//! Interrupts are real. `interrupts_at_every_instruction` has SysTick come after each number of
//! instructions in turn, over the whole of a scene.

#![no_std]
#![no_main]

use core::cell::RefCell;
use core::future::{pending, poll_fn};
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::{Poll, Waker};

use corank_mcu::sync::{Channel, Event, Mutex, Semaphore};
use corank_mcu::time::Clock;
use corank_mcu::{
    CoroutineId, Executor, InterruptExecutor, JoinError, JoinHandle, Levels, Priority, SendSpawner,
    SpawnError, Spawner, State, Step, Strict, cancel, current, priority, reprioritize, state, wake,
    yield_now,
};
use corank_mcu_firmware::check;
use corank_mcu_firmware::harness::{Result, level, log, logged, run};
use cortex_m::interrupt::InterruptNumber;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m::peripheral::{NVIC, SYST};
use cortex_m_rt::{entry, exception};
use critical_section::Mutex as Masked;

struct Here(Executor);

// SAFETY: the main program alone refers to it.
unsafe impl Sync for Here {}

static EXECUTOR: Here = Here(Executor::new());

fn executor() -> &'static Executor {
    &EXECUTOR.0
}

fn spawner() -> Spawner {
    executor().spawner()
}

/// Lets everything run, and tests that nothing is left.
fn finish() -> Result {
    executor().run_until_idle();
    check!(executor().live() == 0 && executor().ready() == Levels::NONE);
    Ok(())
}

#[corank_mcu::task(pool_size = 4)]
async fn log_twice(what: u8) {
    log(what);
    yield_now().await;
    log(what);
}

fn order() -> Result {
    for (what, at) in [(b'a', 5), (b'b', 3), (b'c', 5), (b'd', 63)] {
        let Ok(token) = log_twice(what) else {
            check!(false);
            continue;
        };
        spawner().spawn(token.at(level(at)));
    }
    finish()?;
    check!(logged(b"bbacacdd"));
    Ok(())
}

static DROPS: AtomicU32 = AtomicU32::new(0);

/// Counts its own drop.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        DROPS.store(DROPS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// Returns the drops since it was called last.
fn drops() -> u32 {
    let drops = DROPS.load(Ordering::Relaxed);
    DROPS.store(0, Ordering::Relaxed);
    drops
}

#[corank_mcu::task(level = 7)]
async fn hold(guard: Guard, ends: bool) -> Guard {
    if !ends {
        pending::<()>().await;
    }
    guard
}

/// Spawns a task that never fails to have memory.
macro_rules! spawn {
    ($token:expr) => {
        match $token {
            Ok(token) => spawner().spawn(token),
            Err(_) => return Err(corank_mcu_firmware::harness::Failure("has memory", line!())),
        }
    };
}

fn memory_is_free_when_task_and_handle_are_gone() -> Result {
    drops();
    // The attribute's level; and a token that is dropped gives its memory back.
    drop(hold(Guard, true));
    check!(drops() == 1);
    let handle = spawn!(hold(Guard, true));
    check!(priority(handle.id()) == Some(level(7)));
    executor().run_until_idle();
    check!(handle.has_exited() && drops() == 0);
    check!(matches!(hold(Guard, true), Err(SpawnError::TableFull)));
    check!(drops() == 1);
    // The handle drops the output.
    drop(handle);
    check!(drops() == 1);
    // The output of a detached task is dropped.
    drop(spawn!(hold(Guard, true)));
    executor().run_until_idle();
    check!(drops() == 1);
    let handle = spawn!(hold(Guard, true));
    executor().run_until_idle();
    check!(matches!(handle.try_join(), Ok(Ok(Guard))));
    check!(drops() == 1);
    finish()
}

fn cancel_drops_the_future_at_once() -> Result {
    drops();
    let handle = spawn!(hold(Guard, false));
    executor().run_until_idle();
    let id = handle.id();
    check!(state(id) == Some(State::Blocked));
    check!(executor().cancel(id) && drops() == 1);
    check!(!executor().cancel(id) && !cancel(id) && !wake(id) && !reprioritize(id, level(1)));
    check!(matches!(hold(Guard, false), Err(SpawnError::TableFull)));
    drops();
    check!(matches!(handle.try_join(), Ok(Err(JoinError::Cancelled))));
    // The next one in the same memory has another identifier.
    let next = spawn!(hold(Guard, false));
    check!(next.id() != id && state(id).is_none());
    // From outside the executor's context the executor itself drops it.
    check!(next.cancel() && !next.cancel() && drops() == 0);
    check!(executor().step(&mut Strict, &corank_mcu::Relaxed) == Step::Idle);
    check!(drops() == 1 && executor().live() == 0);
    Ok(())
}

#[corank_mcu::task]
async fn cancels_itself(_guard: Guard) {
    if let Some(me) = current() {
        log(u8::from(cancel(me)) + b'0');
        log(u8::from(cancel(me)) + b'0');
    }
    yield_now().await;
    log(b'!');
}

fn cancel_of_the_running_task_waits_for_its_poll() -> Result {
    drops();
    let handle = spawn!(cancels_itself(Guard));
    finish()?;
    check!(logged(b"10") && drops() == 1);
    check!(matches!(handle.try_join(), Ok(Err(JoinError::Cancelled))));
    check!(current().is_none());
    Ok(())
}

static LOCK: Mutex<u32> = Mutex::new(0);

#[corank_mcu::task(level = 40)]
async fn low() -> u32 {
    let mut value = LOCK.lock().await;
    yield_now().await;
    *value += 1;
    log(b'l');
    *value
}

#[corank_mcu::task(level = 20)]
async fn middle() {
    log(b'm');
}

#[corank_mcu::task(level = 2)]
async fn high(low: JoinHandle<u32>) -> u32 {
    log(b'h');
    let value = *LOCK.lock().await;
    log(b'H');
    value + low.await.unwrap_or(100)
}

fn a_lock_and_a_join_pass_the_level_on() -> Result {
    let low = spawn!(low());
    let id = low.id();
    check!(executor().step(&mut Strict, &corank_mcu::Relaxed) == Step::Ran);
    spawn!(middle());
    let high = spawn!(high(low));
    check!(executor().step(&mut Strict, &corank_mcu::Relaxed) == Step::Ran);
    check!(priority(id) == Some(level(2)));
    finish()?;
    check!(logged(b"hlHm"));
    check!(matches!(high.try_join(), Ok(Ok(2))));
    Ok(())
}

static CLOCK: Clock = Clock::new();

#[corank_mcu::task(pool_size = 2)]
async fn sleeps(what: u8, deadline: u64) {
    CLOCK.sleep_until(deadline).await;
    log(what);
}

fn timers_fire_in_order() -> Result {
    spawn!(sleeps(b'b', 20));
    spawn!(sleeps(b'a', 10));
    executor().run_until_idle();
    check!(CLOCK.next_deadline() == Some(10));
    CLOCK.advance(9);
    executor().run_until_idle();
    check!(logged(b""));
    CLOCK.advance(25);
    finish()?;
    check!(logged(b"ab") && CLOCK.next_deadline().is_none());
    Ok(())
}

/* Interrupts. */

type Act = fn();

/// What SysTick does, once.
static ACT: Masked<RefCell<Option<Act>>> = Masked::new(RefCell::new(None));
static CAME: AtomicU32 = AtomicU32::new(0);

#[exception]
fn SysTick() {
    // SAFETY: the counter's register is this program's.
    let mut timer = unsafe { cortex_m::Peripherals::steal() }.SYST;
    timer.disable_counter();
    timer.disable_interrupt();
    CAME.store(1, Ordering::Relaxed);
    if let Some(act) = critical_section::with(|cs| ACT.borrow_ref_mut(cs).take()) {
        act();
    }
}

/// Has SysTick call `act` once, after so many ticks.
fn after(ticks: u32, act: fn()) {
    CAME.store(0, Ordering::Relaxed);
    critical_section::with(|cs| *ACT.borrow_ref_mut(cs) = Some(act));
    // SAFETY: as above.
    let mut timer = unsafe { cortex_m::Peripherals::steal() }.SYST;
    timer.set_clock_source(SystClkSource::Core);
    timer.set_reload(ticks);
    timer.clear_current();
    timer.enable_interrupt();
    timer.enable_counter();
}

static EVENT: Event = Event::new();

#[corank_mcu::task(level = 4, pool_size = 2)]
async fn waits_for_event() {
    EVENT.wait().await;
    log(b'e');
}

fn an_interrupt_ends_the_sleep() -> Result {
    EVENT.reset();
    spawn!(waits_for_event());
    executor().run_until_idle();
    after(200, || EVENT.set());
    while executor().live() > 0 {
        executor().sleep();
        executor().run_until_idle();
    }
    check!(logged(b"e"));
    finish()
}

static URGENT: InterruptExecutor = InterruptExecutor::new();

/// An interrupt that no device uses.
#[derive(Clone, Copy)]
struct Software;

// SAFETY: both boards have this number, and it does not change.
unsafe impl InterruptNumber for Software {
    fn number(self) -> u16 {
        25
    }
}

#[exception]
unsafe fn DefaultHandler(_: i16) {
    URGENT.on_interrupt();
}

static NUMBERS: Channel<u8, 2> = Channel::new();

#[corank_mcu::task]
async fn urgent_receiver() {
    while NUMBERS.receive().await != 0 {
        log(b'u');
    }
    log(b'U');
}

#[corank_mcu::task]
async fn sender() {
    for number in [2, 1, 0] {
        log(b's');
        NUMBERS.send(number).await;
    }
    // The other executor has run each time, in the middle of this poll.
    log(b'S');
}

fn urgent() -> SendSpawner {
    URGENT.start(Software)
}

fn an_executor_of_an_interrupt_preempts() -> Result {
    let spawner = urgent();
    let Ok(token) = urgent_receiver() else {
        check!(false);
        return Ok(());
    };
    let receiver = spawner.spawn(token);
    spawn!(sender());
    finish()?;
    check!(logged(b"sususUS"));
    check!(receiver.has_exited());
    Ok(())
}

/* Interrupts at every instruction of a scene. */

static WAKER: Masked<RefCell<Option<Waker>>> = Masked::new(RefCell::new(None));
static POLLS: AtomicU32 = AtomicU32::new(0);
static WOKEN: AtomicU32 = AtomicU32::new(0);
static PERMITS: Semaphore = Semaphore::new(0);

/// Leaves its waker at each poll. It has seen the interrupt when it was polled after it.
#[corank_mcu::task(level = 3)]
async fn watches() {
    poll_fn(|cx| {
        POLLS.store(POLLS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let woken = WOKEN.load(Ordering::Relaxed);
        critical_section::with(|cs| *WAKER.borrow_ref_mut(cs) = Some(cx.waker().clone()));
        match woken {
            0 => Poll::Pending,
            _ => Poll::Ready(()),
        }
    })
    .await;
}

#[corank_mcu::task(level = 9, pool_size = 2)]
async fn turns() {
    for _ in 0..3 {
        yield_now().await;
    }
    let mut value = LOCK.lock().await;
    yield_now().await;
    *value += 1;
}

#[corank_mcu::task(level = 20)]
async fn acquires() {
    PERMITS.acquire().await.forget();
    *LOCK.lock().await += 1;
}

/// The task that the interrupt moves or cancels.
static TARGET: Masked<RefCell<Option<CoroutineId>>> = Masked::new(RefCell::new(None));

fn target() -> Option<CoroutineId> {
    critical_section::with(|cs| *TARGET.borrow_ref(cs))
}

fn wake_from_interrupt() {
    WOKEN.store(1, Ordering::Relaxed);
    if let Some(waker) = critical_section::with(|cs| WAKER.borrow_ref_mut(cs).take()) {
        waker.wake();
    }
    PERMITS.release();
}

fn move_from_interrupt() {
    if let Some(target) = target() {
        reprioritize(target, level(1));
    }
    wake_from_interrupt();
}

fn cancel_from_interrupt() {
    if let Some(target) = target() {
        cancel(target);
    }
    wake_from_interrupt();
}

/// Runs the scene with an interrupt after so many ticks and instructions. Returns false if it came
/// after the end.
fn scene(
    ticks: u32,
    instructions: u32,
    act: fn(),
) -> core::result::Result<bool, corank_mcu_firmware::harness::Failure> {
    WOKEN.store(0, Ordering::Relaxed);
    let before = critical_section::with(|_| LOCK.try_lock().map(|value| *value));
    check!(before.is_some());
    after(ticks, act);
    // SAFETY: it only spends two instructions a round.
    unsafe {
        core::arch::asm!(
            "2:", "subs {rounds}, #1", "bne 2b",
            rounds = inout(reg) instructions / 2 + 1 => _,
            options(nomem, nostack)
        );
    }
    if instructions % 2 == 1 {
        cortex_m::asm::nop();
    }
    let watch = spawn!(watches());
    let first = spawn!(turns());
    let second = spawn!(turns());
    critical_section::with(|cs| *TARGET.borrow_ref_mut(cs) = Some(second.id()));
    spawn!(acquires());
    executor().run_until_idle();
    let in_time = CAME.load(Ordering::Relaxed) == 1;
    while CAME.load(Ordering::Relaxed) == 0 {}
    executor().run_until_idle();
    // No wake was lost, and nothing is left over.
    check!(executor().live() == 0 && executor().ready() == Levels::NONE);
    check!(watch.has_exited());
    check!(matches!(first.try_join(), Ok(Ok(()))));
    let finished = matches!(second.try_join(), Ok(Ok(())));
    check!(finished || core::ptr::fn_addr_eq(act, cancel_from_interrupt as fn()));
    let value = LOCK.try_lock().map(|value| *value);
    check!(value == before.map(|before| before + 2 + u32::from(finished)));
    check!(PERMITS.available() == 0);
    Ok(in_time)
}

/// Returns how many instructions a tick takes, rounded up.
fn instructions_of_a_tick() -> u32 {
    // SAFETY: as above.
    let mut timer = unsafe { cortex_m::Peripherals::steal() }.SYST;
    timer.set_clock_source(SystClkSource::Core);
    timer.set_reload(0x00ff_ffff);
    timer.clear_current();
    timer.enable_counter();
    let before = SYST::get_current();
    // SAFETY: as above.
    unsafe {
        core::arch::asm!(
            "2:", "subs {rounds}, #1", "bne 2b",
            rounds = inout(reg) 5000 => _,
            options(nomem, nostack)
        );
    }
    let ticks = before.wrapping_sub(SYST::get_current()) & 0x00ff_ffff;
    timer.disable_counter();
    10_000 / ticks + 1
}

fn interrupts_at_every_instruction() -> Result {
    let each = instructions_of_a_tick();
    let acts: [fn(); 3] = [
        wake_from_interrupt,
        move_from_interrupt,
        cancel_from_interrupt,
    ];
    for act in acts {
        let mut ticks = 1;
        loop {
            let mut in_time = false;
            for instructions in 0..each {
                in_time |= scene(ticks, instructions, act)?;
            }
            if !in_time {
                break;
            }
            ticks += 1;
        }
        cortex_m_semihosting::hprintln!("{} {}", ticks, each);
    }
    Ok(())
}

#[entry]
fn main() -> ! {
    NVIC::unpend(Software);
    let _: Priority = Priority::DEFAULT;
    run(&[
        ("order", order),
        (
            "memory_is_free_when_task_and_handle_are_gone",
            memory_is_free_when_task_and_handle_are_gone,
        ),
        (
            "cancel_drops_the_future_at_once",
            cancel_drops_the_future_at_once,
        ),
        (
            "cancel_of_the_running_task_waits_for_its_poll",
            cancel_of_the_running_task_waits_for_its_poll,
        ),
        (
            "a_lock_and_a_join_pass_the_level_on",
            a_lock_and_a_join_pass_the_level_on,
        ),
        ("timers_fire_in_order", timers_fire_in_order),
        ("an_interrupt_ends_the_sleep", an_interrupt_ends_the_sleep),
        (
            "an_executor_of_an_interrupt_preempts",
            an_executor_of_an_interrupt_preempts,
        ),
        (
            "interrupts_at_every_instruction",
            interrupts_at_every_instruction,
        ),
    ])
}
