//! Lets an interrupt come at every instruction between the opening of the interrupts' flag and its
//! closing, and checks that none is lost.
//!
//! Run it in a machine that counts instructions (`qemu -icount shift=8`). There a timer comes at an
//! instruction that depends on what was executed before and on nothing else. Each scene starts a
//! timer in the kernel, executes a number of empty instructions, and walks the path. The number
//! grows by one from round to round, so that the timer moves over the path instruction by
//! instruction. What it completes or wakes must have run when the path is over.
//!
//! The places of the interrupts are recorded, and must be complete. From each of them, the next
//! instruction of the path is among them too, where that follows from the code (not behind `ret`
//! and jumps through registers). The path ends with the instruction that closes the flag, or with a
//! system call.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::arch::global_asm;
use core::future::poll_fn;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::Poll;
use core::time::Duration;

use atomic_waker::AtomicWaker;
use corank_user::interrupt::{last_interrupted, preemptible};
use corank_user::sync::Semaphore;
use corank_user::{Priority, println, ring, runtime, spawn, thread, time};

corank_user::main!(main);

/// Most empty instructions that one round can add.
///
/// The timer that is to meet the path comes at most a millisecond after they begin: 3906
/// instructions.
const ROUNDS: usize = 6000;

// a0: the number of instructions to execute that do nothing.
global_asm!(
    ".section .text.sweep_delay, \"ax\", @progbits",
    ".globl sweep_delay",
    ".option push",
    ".option norvc",
    "sweep_delay:",
    "la t0, 1f",
    "slli a0, a0, 2",
    "sub t0, t0, a0",
    "jr t0",
    ".rept 6000",
    "nop",
    ".endr",
    "1: ret",
    ".option pop",
);

unsafe extern "C" {
    fn sweep_delay(instructions: usize);
}

fn delay(instructions: usize) {
    assert!(instructions <= ROUNDS);
    // SAFETY: keeps the calling convention, and jumps into its own instructions.
    unsafe { sweep_delay(instructions) };
}

fn main() -> i32 {
    // A scene's name, what it does, and how many places it has at least: three quarters of the 471,
    // 67 and 32 that there were when this was written.
    type Scene = (&'static str, fn(&mut Sweep), usize);
    let scenes: [Scene; 3] = [
        ("a computation that allocates", computation, 350),
        ("the handler's own end", handler, 50),
        ("an executor that goes to wait", waiting, 24),
    ];
    let (mut passed, mut failed) = (0, 0);
    let chosen = |name: &str| {
        let mut words = corank_user::arguments().skip(1).peekable();
        words.peek().is_none() || words.any(|word| name.contains(word))
    };
    for (name, scene, least) in scenes.into_iter().filter(|(name, ..)| chosen(name)) {
        let mut sweep = Sweep::new(least);
        scene(&mut sweep);
        match sweep.missing() {
            None => {
                println!(
                    "ok   {name}: an interrupt at each of {} instructions",
                    sweep.places.len()
                );
                passed += 1;
            }
            Some(missing) => {
                println!("FAIL {name}: {}", missing.text);
                failed += 1;
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    i32::from(failed > 0)
}

fn forget_interrupts() {
    let _ = last_interrupted();
}

/// The rounds of one scene, and where interrupts came in them.
///
/// The first pass finds, in steps, the delays on which the interrupt meets the path. The other
/// passes take pseudo-random ones from that range: how long the kernel works differs from round to
/// round, in a pattern that comes back, so delays in order might leave out the same places again
/// and again. Missing places are aimed at with the delays around the one that met the instruction
/// before them.
struct Sweep {
    /// Places where interrupts came, and the last delay of each.
    places: BTreeMap<usize, usize>,
    /// Least number of places.
    least: usize,
    /// The first and the last delay that has met the path.
    ///
    /// There may be gaps in between. The kernel's work between a system call and the next
    /// instruction can take long, and an interrupt that comes meanwhile comes behind the call.
    range: Option<(usize, usize)>,
    /// Number of times that the first pass has found none.
    tries: usize,
    pass: usize,
    /// The rounds that this pass still has; unused in the first one.
    left: usize,
    /// The least delay of this pass, and the number of its delays.
    delays: (usize, usize),
    delay: usize,
    rounds: usize,
    random: fastrand::Rng,
}

/// Report of a missing place.
struct MissingPlace {
    text: String,
    /// The delay that met the instruction before it, if there is one.
    near: Option<usize>,
}

impl MissingPlace {
    fn anywhere(text: String) -> MissingPlace {
        MissingPlace { text, near: None }
    }
}

/// Step of the first pass: fewer instructions than any path has.
const STEP: usize = 8;
/// Distance by which a pass goes around its target: as far as a path may go on.
const MARGIN: usize = 8 * STEP;
/// Number of passes that go over the whole range.
///
/// Each pass leaves out many instructions, because the kernel's work takes a little longer in one
/// round than in the next.
const WHOLE: usize = 3;
/// Rounds at most.
const MOST: usize = 100_000;

impl Sweep {
    fn new(least: usize) -> Self {
        Self {
            places: BTreeMap::new(),
            least,
            range: None,
            tries: 0,
            pass: 0,
            left: 0,
            delays: (0, 0),
            delay: 0,
            rounds: 0,
            random: fastrand::Rng::with_seed(1),
        }
    }

    /// Returns the delay of the next round; `None` when there are enough.
    fn next(&mut self) -> Option<usize> {
        forget_interrupts();
        self.rounds += 1;
        if self.pass == 0 {
            self.delay += STEP;
            if self.delay <= ROUNDS {
                return Some(self.delay);
            }
            // There are other delays between those of the first pass.
            if self.range.is_none() && self.tries + 1 < STEP {
                self.tries += 1;
                self.delay = self.tries;
                return Some(self.delay);
            }
        }
        if self.left == 0 && !self.begin_pass() {
            return None;
        }
        self.left -= 1;
        let (first, count) = self.delays;
        self.delay = first + self.random.usize(..count);
        Some(self.delay)
    }

    /// Begins the next pass, unless there are places enough, or there have been too many rounds.
    fn begin_pass(&mut self) -> bool {
        let Some((first, last)) = self.range else {
            return false;
        };
        self.pass += 1;
        let missing = self.missing();
        if self.pass > WHOLE && missing.is_none() || self.rounds > MOST {
            return false;
        }
        let near = missing.and_then(|missing| missing.near);
        // Every eighth pass goes over the whole range again, where other instructions are missing,
        // too.
        let is_aimed = self.pass > WHOLE && !self.pass.is_multiple_of(8);
        let (first, last) = match near.filter(|_| is_aimed) {
            Some(near) => (near, near),
            None => (first, last),
        };
        let first = first.saturating_sub(MARGIN);
        let count = (last + MARGIN).min(ROUNDS) - first + 1;
        self.delays = (first, count);
        self.left = count;
        true
    }

    /// Notes where the round's interrupt came, if there was one.
    fn end(&mut self) -> Option<usize> {
        let place = last_interrupted()?;
        self.places.insert(place, self.delay);
        let (first, last) = self.range.unwrap_or((self.delay, self.delay));
        self.range = Some((first.min(self.delay), last.max(self.delay)));
        Some(place)
    }

    fn missing(&self) -> Option<MissingPlace> {
        let (count, least) = (self.places.len(), self.least);
        if count < least {
            return Some(MissingPlace::anywhere(format!(
                "interrupts at {count} instructions, {least} at least were expected"
            )));
        }
        let is_there = |place: &usize| self.places.contains_key(place);
        if !self
            .places
            .keys()
            .any(|place| next(place - 4) == Next::Behind(*place))
        {
            let text = "no interrupt just behind the flag's opening";
            return Some(MissingPlace::anywhere(text.into()));
        }
        self.places.iter().find_map(|(place, delay)| {
            let missing = match next(*place) {
                // The kernel's work in between takes another time when the interrupt comes
                // meanwhile. An interrupt that would be due on the next instruction may be due
                // further on.
                _ if is_behind_call(*place) => None,
                Next::Anywhere | Next::Behind(_) => None,
                Next::One(to) => (!is_there(&to)).then_some(to),
                Next::Either(to, or) => (!is_there(&to) && !is_there(&or)).then_some(to),
            };
            missing.map(|to| MissingPlace {
                text: format!("an interrupt at {place:#x}, and never at {to:#x}"),
                near: Some(*delay),
            })
        })
    }
}

/// The instruction that is executed after another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The code doesn't say, or it is the path's end.
    Anywhere,
    /// It opens or closes the flag.
    ///
    /// What follows may be the path's first instruction, or not part of it.
    Behind(usize),
    One(usize),
    Either(usize, usize),
}

const ECALL: u32 = 0x73;

/// Returns the four bytes at `place`: an instruction, or a short one and what follows.
fn instruction(place: usize) -> u32 {
    let halves = core::ptr::with_exposed_provenance::<u16>(place);
    let [low, high] = [0, 1].map(|half| {
        // SAFETY: the program's text lies there, which it may read; instructions are aligned to two
        // bytes.
        u32::from(unsafe { *halves.add(half) })
    });
    low | high << 16
}

/// Tests whether the instruction in front of `place` is a system call.
fn is_behind_call(place: usize) -> bool {
    instruction(place - 4) == ECALL
}

fn next(place: usize) -> Next {
    let word = instruction(place);
    let low = word & 0xffff;
    let jump = |offset: i32| place.wrapping_add_signed(offset as isize);
    // A field of the instruction, at a place in the offset; the highest one with its sign.
    if low & 3 == 3 {
        let field = |from: u32, bits: u32, to: u32| (word >> from & ((1 << bits) - 1)) << to;
        let sign = |bit: u32| (word as i32 >> 31) << bit;
        let behind = place + 4;
        match word & 0x7f {
            0x63 => {
                let offset = field(8, 4, 1) | field(25, 6, 5) | field(7, 1, 11);
                Next::Either(behind, jump(offset as i32 | sign(12)))
            }
            // A call comes back; another jump doesn't.
            0x6f if word >> 7 & 31 == 1 => Next::One(behind),
            0x6f => {
                let offset = field(21, 10, 1) | field(20, 1, 11) | field(12, 8, 12);
                Next::One(jump(offset as i32 | sign(20)))
            }
            0x67 if word >> 7 & 31 == 1 => Next::One(behind),
            0x67 => Next::Anywhere,
            // ecall; then amoswap.w, which opens and closes the flag.
            0x73 if word >> 12 & 7 == 0 => Next::Anywhere,
            0x2f if word >> 27 == 1 && word >> 12 & 7 == 2 => Next::Behind(behind),
            _ => Next::One(behind),
        }
    } else {
        let field = |from: u32, bits: u32, to: u32| (low >> from & ((1 << bits) - 1)) << to;
        let sign = |bit: u32| if low >> 12 & 1 == 1 { -1 << bit } else { 0 };
        let behind = place + 2;
        match (low & 3, low >> 13) {
            (1, 5) => {
                let offset = field(3, 3, 1) | field(11, 1, 4) | field(2, 1, 5) | field(7, 1, 6);
                let offset = offset | field(6, 1, 7) | field(9, 2, 8) | field(8, 1, 10);
                Next::One(jump(offset as i32 | sign(11)))
            }
            (1, 6 | 7) => {
                let offset = field(3, 2, 1) | field(10, 2, 3) | field(2, 1, 5) | field(5, 2, 6);
                Next::Either(behind, jump(offset as i32 | sign(8)))
            }
            // c.jr and c.jalr; with a second register they are moves.
            (2, 4) if low >> 2 & 31 == 0 && low >> 12 & 1 == 0 => Next::Anywhere,
            _ => Next::One(behind),
        }
    }
}

fn level(level: u8) -> Priority {
    Priority::new(level).expect("below 64")
}

/// Starts a more urgent coroutine that sleeps, in the kernel, and then counts.
fn urgent(milliseconds: u64, then: impl FnOnce() + 'static) -> Arc<AtomicU32> {
    let count = Arc::new(AtomicU32::new(0));
    let counter = count.clone();
    spawn(level(5), async move {
        ring::sleep(Duration::from_millis(milliseconds))
            .await
            .expect("a call");
        then();
        counter.store(1, Ordering::Relaxed);
    })
    .expect("memory");
    count
}

/// Waits until the urgent coroutine has counted.
async fn end(count: &AtomicU32) {
    while count.load(Ordering::Relaxed) == 0 {
        ring::sleep(Duration::from_millis(1)).await.expect("a call");
    }
}

/// Runs a computation that allocates and frees, which masks interrupts.
fn computation(sweep: &mut Sweep) {
    run(sweep, async |sweep, nops| {
        let count = urgent(1, || ());
        corank_user::yield_now().await;
        delay(nops);
        preemptible(|| drop(core::hint::black_box(Box::new(nops))));
        if let Some(place) = sweep.end() {
            // On the last instructions, already masked, the urgent coroutine is left to the
            // executor.
            corank_user::yield_now().await;
            let ran = count.load(Ordering::Relaxed) == 1;
            assert!(ran, "the interrupt at {place:#x} is lost");
        }
        end(&count).await;
    });
}

/// Runs the handler to its end while a second interrupt comes.
///
/// The first interrupt's coroutine executes the empty instructions, so that the second one comes
/// when the handler ends. The second comes a millisecond after the first, and the handler begins
/// some hundred instructions after the first. So the end of the handler is met with about 3100
/// empty instructions, and with fewer where the kernel takes longer.
fn handler(sweep: &mut Sweep) {
    run(sweep, async |sweep, nops| {
        let first = urgent(1, move || {
            forget_interrupts();
            delay(nops);
        });
        let second = urgent(2, || ());
        corank_user::yield_now().await;
        preemptible(|| {
            while first.load(Ordering::Relaxed) == 0 {
                core::hint::spin_loop();
            }
        });
        sweep.end();
        end(&second).await;
    });
}

/// Runs a scene as the main coroutine of an executor.
fn run(sweep: &mut Sweep, round: impl AsyncFn(&mut Sweep, usize) + 'static) {
    let empty = Sweep::new(sweep.least);
    let mut theirs = core::mem::replace(sweep, empty);
    *sweep = runtime::block_on(async move {
        while let Some(nops) = theirs.next() {
            round(&mut theirs, nops).await;
        }
        theirs
    });
}

/// Lets another thread wake a coroutine while the executor goes to wait for that.
fn waiting(sweep: &mut Sweep) {
    let gate = Arc::new(Semaphore::new(0).expect("a semaphore"));
    let shared = Arc::new((AtomicU32::new(0), AtomicWaker::new()));
    let thread = thread::spawn({
        let (gate, shared) = (gate.clone(), shared.clone());
        move || {
            for round in 1.. {
                gate.down();
                if shared.0.load(Ordering::Relaxed) == STOP {
                    break;
                }
                time::sleep(Duration::from_millis(1));
                shared.0.store(round, Ordering::Release);
                shared.1.wake();
            }
        }
    })
    .expect("a thread");
    let round = Arc::new(AtomicU32::new(0));
    let (last_gate, stop) = (gate.clone(), shared.clone());
    run(sweep, async move |sweep, nops| {
        let round = round.fetch_add(1, Ordering::Relaxed) + 1;
        gate.up();
        // The other thread goes to sleep.
        thread::yield_now();
        delay(nops);
        poll_fn(|context| {
            shared.1.register(context.waker());
            if shared.0.load(Ordering::Acquire) == round {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        sweep.end();
    });
    stop.0.store(STOP, Ordering::Relaxed);
    last_gate.up();
    assert_eq!(thread.join(), Ok(()));
}

/// Round number that tells the other thread to end.
const STOP: u32 = u32::MAX;
