//! Time: the clock's ticks, and coroutines that sleep.
use crate::executor::{current_level, system_page};
use crate::lock::Mutex;
use crate::machine::Machine;
use crate::{hart, pace};
use alloc::collections::BTreeMap;
use core::arch::asm;
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use spin::Once;

/// Clock ticks per second: one each 10 ms.
const TICKS_PER_SECOND: u64 = 100;
/// Nanoseconds in a second.
const NANOSECONDS: u64 = 1_000_000_000;

static TIMEBASE_HZ: AtomicU64 = AtomicU64::new(0);

static SLEEPERS: Mutex<Sleepers> = Mutex::new(Sleepers {
    levels: 0,
    by_level: [const { BTreeMap::new() }; LEVELS],
});

/// The number of levels.
const LEVELS: usize = 64;

/// The most sleepers that one interrupt of the clock wakes.
///
/// A program chooses how many sleep until the same time.
const WOKEN_AT_ONCE: usize = 2 * pace::OBJECTS;

/// The sleepers, by the levels that they had when they began to sleep.
///
/// So of those that are due, the more urgent ones are woken first.
struct Sleepers {
    /// The levels at which there are any.
    levels: u64,
    /// By deadline, then by the order in which they came.
    by_level: [BTreeMap<(u64, u64), Waker>; LEVELS],
}

/// The key of a sleeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SleeperKey {
    level: u8,
    deadline: u64,
    number: u64,
}

/// The first sleeper's deadline, or `u64::MAX` if there is none.
///
/// It is written under the lock and read without. All harts ask for an interrupt at this time.
/// Those that come behind the first are to find out without a lock that there is nothing left to
/// do.
static FIRST: AtomicU64 = AtomicU64::new(u64::MAX);

/// The time after which a hart that could not wake all due sleepers checks again, in microseconds.
///
/// Either more are due than one interrupt wakes, or another hart is at them. Waiting for the lock
/// instead would stop what this hart does for as long as the other one is itself stopped, by its
/// machine's host for example.
const AGAIN: u64 = 10;

/// The time at which the system's next tick is due.
///
/// Every hart has ticks at these times. The first hart that comes to one counts it.
static NEXT_TICK: AtomicU64 = AtomicU64::new(0);

/// What is done at the system's ticks: the levels of processes change there.
static AT_TICKS: Once<fn()> = Once::new();

/// Returns the `time` register.
pub(crate) fn now() -> u64 {
    riscv::register::time::read64()
}

/// Returns the milliseconds since the machine was switched on.
pub(crate) fn milliseconds() -> u64 {
    now() / (TIMEBASE_HZ.load(Ordering::Relaxed) / 1000)
}

/// Returns the nanoseconds since the machine was switched on: the clock of the programs' executors.
pub(crate) fn nanoseconds() -> u64 {
    let (now, hz) = (now(), TIMEBASE_HZ.load(Ordering::Relaxed));
    now / hz * NANOSECONDS + now % hz * NANOSECONDS / hz
}

/// Returns the first point in time, as [`now`] counts, at which [`nanoseconds`] is at least so
/// many.
pub(crate) fn at_nanoseconds(nanoseconds: u64) -> u64 {
    let hz = TIMEBASE_HZ.load(Ordering::Relaxed);
    let (seconds, rest) = (nanoseconds / NANOSECONDS, nanoseconds % NANOSECONDS);
    let whole = seconds.saturating_mul(hz);
    whole.saturating_add((rest * hz).div_ceil(NANOSECONDS))
}

/// Returns the point in time that lies `milliseconds` ahead, as [`now`] counts.
pub(crate) fn after(milliseconds: u64) -> u64 {
    now().saturating_add(milliseconds.saturating_mul(TIMEBASE_HZ.load(Ordering::Relaxed) / 1000))
}

/// Returns the microseconds since the machine was switched on.
pub(crate) fn microseconds() -> u64 {
    in_microseconds(now())
}

/// Converts a difference of [`now`]s into microseconds.
pub(crate) fn in_microseconds(ticks: u64) -> u64 {
    let hz = TIMEBASE_HZ.load(Ordering::Relaxed);
    ticks / hz * 1_000_000 + ticks % hz * 1_000_000 / hz
}

/// Returns the first point in time, as [`now`] counts, at which [`microseconds`] is at least so
/// many.
pub(crate) fn at_microseconds(microseconds: u64) -> u64 {
    let hz = TIMEBASE_HZ.load(Ordering::Relaxed);
    let (seconds, rest) = (microseconds / 1_000_000, microseconds % 1_000_000);
    let whole = seconds.saturating_mul(hz);
    whole.saturating_add((rest * hz).div_ceil(1_000_000))
}

/// Sets the clock up, and calls `at_ticks` at each of the system's ticks from then on.
pub(crate) fn init(machine: &Machine, at_ticks: fn()) {
    TIMEBASE_HZ.store(machine.timebase_hz, Ordering::Relaxed);
    AT_TICKS.call_once(|| at_ticks);
    NEXT_TICK.store(now(), Ordering::Relaxed);
}

/// The time for which a hart pauses, in microseconds.
const PAUSE: u64 = 50;

/// Starts the ticks of this hart.
pub(crate) fn start() {
    hart::next_tick().set(now());
    tick();
}

/// Sleeps until the next interrupt, a millisecond at most.
///
/// The clock's interrupt may be pending afterwards, and [`tick`] serves it.
pub(crate) fn wait_for_interrupt() {
    sbi_rt::set_timer(after(1));
    riscv::asm::wfi();
}

/// Sleeps for [`PAUSE`], whatever else is pending.
///
/// For a hart that has spun for long. A host that runs it can then give the processor to other
/// harts, such as the one that this hart waits for. The next tick and the first sleeper's time come
/// as they would have.
#[cold]
pub(crate) extern "C" fn pause() {
    const CLOCK: usize = 1 << 5;
    let enabled: usize;
    // SAFETY: what is enabled ends `wfi`, and is not taken in the kernel.
    unsafe { asm!("csrrw {}, sie, {}", out(reg) enabled, in(reg) CLOCK) };
    sbi_rt::set_timer(now() + TIMEBASE_HZ.load(Ordering::Relaxed) * PAUSE / 1_000_000);
    riscv::asm::wfi();
    arm();
    // SAFETY: as it was.
    unsafe { asm!("csrw sie, {}", in(reg) enabled) };
}

/// Serves the clock's interrupt: wakes the sleepers that are due and, when a tick is due, checks
/// the priorities.
pub(crate) fn tick() {
    let now = now();
    let is_done = wake_sleepers(now);
    let period = TIMEBASE_HZ.load(Ordering::Relaxed) / TICKS_PER_SECOND;
    let after = |due: u64| due + ((now - due) / period + 1) * period;
    let due = NEXT_TICK.load(Ordering::Relaxed);
    if now >= due {
        let next = after(due);
        let counted = NEXT_TICK.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed);
        if counted.is_ok() {
            let passed = (next - due) / period;
            system_page().ticks.fetch_add(passed, Ordering::Relaxed);
            if let Some(at_ticks) = AT_TICKS.get() {
                at_ticks();
            }
        }
    }
    let own = hart::next_tick();
    if now >= own.get() {
        // At the system's ticks, so that a hart is not late by nearly a period.
        let next = NEXT_TICK.load(Ordering::Relaxed);
        own.set(if next > now { next } else { now + period });
    }
    if is_done {
        arm();
    } else {
        // From the end of this: what is more urgent than the sleepers goes on in between.
        sbi_rt::set_timer(self::now() + TIMEBASE_HZ.load(Ordering::Relaxed) * AGAIN / 1_000_000);
    }
}

/// Asks for the next interrupt: at the next tick or when the first sleeper's time comes.
///
/// To be called after each change of the first sleeper.
fn arm() {
    let first = FIRST.load(Ordering::Relaxed);
    sbi_rt::set_timer(first.min(hart::next_tick().get()));
}

/// Wakes the sleepers that are due, the most urgent ones first.
///
/// Returns whether it could wake all. If not, more than [`WOKEN_AT_ONCE`] were due, or another hart
/// is at the sleepers, perhaps to wake them.
fn wake_sleepers(now: u64) -> bool {
    for _ in 0..WOKEN_AT_ONCE {
        if FIRST.load(Ordering::Relaxed) > now {
            return true;
        }
        let Some(mut sleepers) = SLEEPERS.try_lock() else {
            return false;
        };
        let due = sleepers.take_due(now);
        drop(sleepers);
        if let Some(waker) = due {
            waker.wake();
        }
    }
    FIRST.load(Ordering::Relaxed) > now
}

impl Sleepers {
    /// Returns the levels at which there are any, the most urgent one first.
    fn levels(&self) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.levels;
        core::iter::from_fn(move || {
            let level = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (level < LEVELS).then_some(level)
        })
    }

    fn insert(&mut self, key: SleeperKey, sleeper: Waker) {
        let level = usize::from(key.level);
        self.levels |= 1 << level;
        self.by_level[level].insert((key.deadline, key.number), sleeper);
        if key.deadline < FIRST.load(Ordering::Relaxed) {
            FIRST.store(key.deadline, Ordering::Relaxed);
        }
    }

    fn get_mut(&mut self, key: &SleeperKey) -> Option<&mut Waker> {
        self.by_level[usize::from(key.level)].get_mut(&(key.deadline, key.number))
    }

    fn remove(&mut self, key: &SleeperKey) -> Option<Waker> {
        let level = usize::from(key.level);
        let waker = self.by_level[level].remove(&(key.deadline, key.number));
        self.note_removed(level, key.deadline);
        waker
    }

    /// Takes out the most urgent sleeper that is due.
    fn take_due(&mut self, now: u64) -> Option<Waker> {
        for level in self.levels() {
            if let Some(first) = self.by_level[level].first_entry()
                && first.key().0 <= now
            {
                let ((deadline, _), waker) = first.remove_entry();
                self.note_removed(level, deadline);
                return Some(waker);
            }
        }
        None
    }

    fn note_removed(&mut self, level: usize, deadline: u64) {
        if self.by_level[level].is_empty() {
            self.levels &= !(1 << level);
        }
        if deadline > FIRST.load(Ordering::Relaxed) {
            return;
        }
        let firsts = self.levels().filter_map(|level| {
            let first = self.by_level[level].first_key_value();
            first.map(|((deadline, _), _)| *deadline)
        });
        FIRST.store(firsts.min().unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Adds a sleeper of this level.
///
/// Returns its key.
fn add_sleeper(deadline: u64, level: u8, sleeper: Waker) -> SleeperKey {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let key = SleeperKey {
        level: level.min(LEVELS as u8 - 1),
        deadline,
        number: NEXT.fetch_add(1, Ordering::Relaxed),
    };
    let mut sleepers = SLEEPERS.lock();
    let is_first = deadline < FIRST.load(Ordering::Relaxed);
    sleepers.insert(key, sleeper);
    drop(sleepers);
    if is_first && deadline < hart::next_tick().get() {
        arm();
    }
    key
}

fn remove_sleeper(key: &SleeperKey) {
    let waker = SLEEPERS.lock().remove(key);
    drop(waker);
}

/// A registration that wakes a sleeper at a point in time, again and again.
///
/// Dropped, it leaves nothing behind.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    key: Option<SleeperKey>,
}

impl Alarm {
    /// Wakes `sleeper`, which is of this level, when [`now`] has reached `deadline`, and at no time
    /// that was set before.
    ///
    /// The deadline must not have been reached yet. `u64::MAX` stands for never.
    pub(crate) fn set(&mut self, deadline: u64, level: u8, sleeper: impl FnOnce() -> Waker) {
        let known = self.key.map(|key| (key.deadline, key.level));
        if known == Some((deadline, level)) {
            return;
        }
        self.clear();
        if deadline != u64::MAX {
            self.key = Some(add_sleeper(deadline, level, sleeper()));
        }
    }

    fn clear(&mut self) {
        if let Some(key) = self.key.take() {
            remove_sleeper(&key);
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A wait until [`now`] has reached a deadline.
///
/// Dropped early, it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Sleep {
    deadline: u64,
    /// The key among the sleepers, once there is one.
    key: Option<SleeperKey>,
}

/// Sleeps until `deadline`, in ticks of the `time` register. `u64::MAX` stands for ever.
pub(crate) fn sleep_until(deadline: u64) -> Sleep {
    Sleep {
        deadline,
        key: None,
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.deadline == u64::MAX {
            return Poll::Pending;
        }
        if now() >= self.deadline {
            return Poll::Ready(());
        }
        let sleeper = context.waker();
        let is_known = self.key.is_some_and(|key| {
            let mut sleepers = SLEEPERS.lock();
            let known = sleepers.get_mut(&key);
            known.map(|known| known.clone_from(sleeper)).is_some()
        });
        if !is_known {
            let level = current_level();
            self.key = Some(add_sleeper(self.deadline, level, sleeper.clone()));
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            remove_sleeper(&key);
        }
    }
}
