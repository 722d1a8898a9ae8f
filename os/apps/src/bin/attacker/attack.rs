//! Defines what an attacker does. It makes direct and asynchronous calls, and stores into all that
//! it shares with the kernel.

use core::arch::global_asm;
use core::sync::atomic::{AtomicUsize, Ordering};

use corank_abi::call::*;
use corank_abi::page::{PAGE_SIZE, ring_base, worker_page};
use corank_abi::ring::SUBMISSIONS;
use corank_abi::upcall::{STACK_SIZE, STACKS, stack_top};
use corank_user::process::{self, Fork};
use corank_user::{page, raw, thread};
use fastrand::Rng;

use crate::values::{CALLS, Call, RARE, arena, call_of, fill_arena, poke, word};

/// The least urgent level, as a set.
const LAST: u64 = 1 << 63;
/// Descriptors that a process may have inherited.
const INHERITED: usize = 16;
/// Depth to which attackers fork, and the number of threads that each may start.
const DEPTH: usize = 3;
const THREADS: usize = 6;
/// Address at which threads have their stacks, and bytes of each.
const THREAD_STACKS: usize = 0x20_0000_0000;
const THREAD_STACK: usize = 64 << 10;
/// Entries of a ring that most attackers ask for.
const ENTRIES: usize = 16;
/// Bytes of a submission.
const SUBMISSION: usize = size_of::<corank_abi::ring::Submission>();

global_asm!(
    ".globl attacker_returns",
    "attacker_returns:",
    "li a7, {RETURN}",
    "ecall",
    "j attacker_returns",
    // Sleeps in the handler with interrupts unmasked, on a stack below. `s11` of the interrupted
    // code is no longer of use.
    ".globl attacker_nests",
    "attacker_nests:",
    "mv s11, a0",
    "la t0, attacker_block",
    "ld t0, 0(t0)",
    "addi t1, sp, -512",
    "andi t1, t1, -16",
    "sd t1, 16(t0)",
    "sd zero, 0(t0)",
    "li a0, 1",
    "li a7, {SLEEP}",
    "ecall",
    "mv a0, s11",
    "j attacker_returns",
    RETURN = const UPCALL_RETURN,
    SLEEP = const SLEEP,
);

unsafe extern "C" {
    fn attacker_returns();
    fn attacker_nests();
}

/// Address of the block of user-level interrupts; the handler reads it.
#[unsafe(export_name = "attacker_block")]
static BLOCK: AtomicUsize = AtomicUsize::new(0);

/// Takes from this process all that an attacker does not have.
pub(crate) fn give_up_rights() {
    process::grant(process::id(), LAST).expect("itself");
    process::set_group(0, 0).expect("itself");
    page::process().ready.store(LAST, Ordering::Release);
    for descriptor in 0..INHERITED {
        call(CLOSE, [descriptor, 0, 0]);
    }
    thread::yield_now();
}

/// Starts a process that runs attackers one after another.
pub(crate) fn start(seed: u64) {
    let nest = process::spawn(|| {
        give_up_rights();
        for attacker in 0.. {
            let rng = Rng::with_seed(seed ^ (attacker << 48));
            match process::spawn(|| Attacker::new(rng, 0).go_on()) {
                Ok(pid) => drop(process::wait(pid)),
                Err(_) => thread::yield_now(),
            }
        }
        0
    });
    nest.expect("memory for a process");
}

/// Makes a system call of any kind.
fn call(number: usize, arguments: [usize; 3]) -> isize {
    // SAFETY: what the kernel writes goes into the arena, or harms this attacker alone, which is
    // meant to end.
    unsafe { raw::system_call(number, arguments) }
}

struct Attacker {
    rng: Rng,
    /// Number of a step that it takes more often than others.
    mood: u16,
    /// Number of forks above it.
    depth: usize,
    threads: usize,
    /// The worker that this thread is, if it is one.
    worker: Option<usize>,
}

impl Attacker {
    fn new(mut rng: Rng, depth: usize) -> Self {
        Self {
            mood: rng.u16(..1000),
            rng,
            depth,
            threads: 0,
            worker: None,
        }
    }

    fn go_on(mut self) -> ! {
        fill_arena(&mut self.rng);
        BLOCK.store(arena() + 0x8000, Ordering::Relaxed);
        loop {
            self.step();
        }
    }

    fn step(&mut self) {
        let any = self.rng.u16(..1000);
        match if self.rng.bool() { any } else { self.mood } {
            0..=499 => {
                let (number, arguments) = call_of(&mut self.rng, CALLS);
                call(number, arguments);
            }
            500..=519 => {
                let number = self.rng.usize(..5000);
                let is_listed = |list: &[Call]| list.iter().any(|(other, _)| *other == number);
                if !is_listed(CALLS) && !is_listed(RARE) {
                    self.call(number);
                }
            }
            520..=539 => {
                let (number, arguments) = call_of(&mut self.rng, RARE);
                // These have steps of their own.
                let is_own = matches!(number, FORK | THREAD_CREATE | EXIT | UPCALL_RETURN);
                if !is_own || self.rng.u8(..8) == 0 {
                    call(number, arguments);
                }
            }
            540..=689 => self.submit(),
            690..=739 => self.store_into_ring(),
            740..=789 => self.store_into_page(),
            790..=879 => self.interrupt(),
            880..=939 => self.touch(),
            940..=949 => self.start_thread(),
            950..=954 => self.fork(),
            955..=969 => self.address_processes(),
            970..=979 => self.signal_itself(),
            _ => thread::yield_now(),
        }
    }

    fn call(&mut self, number: usize) -> isize {
        let arguments = [(); 3].map(|()| word(&mut self.rng));
        call(number, arguments)
    }

    /// Returns the worker that this thread is, with rings.
    fn worker(&mut self) -> usize {
        match self.worker {
            Some(worker) => worker,
            None => {
                let worker = call(WORKER, [0; 3]);
                call(RING_SETUP, [ENTRIES, 0, 0]);
                let worker = usize::try_from(worker).unwrap_or(0);
                self.worker = Some(worker);
                worker
            }
        }
    }

    /// Puts calls into the ring, and ensures that they are served.
    fn submit(&mut self) {
        let ring = ring_base(self.worker());
        // This program alone writes the tail.
        let tail = core::ptr::with_exposed_provenance_mut::<u32>(ring + 4);
        for _ in 0..self.rng.u8(1..6) {
            // SAFETY: the rings lie there, or the attacker ends.
            let number = unsafe { tail.read_volatile() };
            let place = ring + SUBMISSIONS + number as usize % ENTRIES * SUBMISSION;
            let list = if self.rng.u8(..4) == 0 { RARE } else { CALLS };
            let (call, arguments) = call_of(&mut self.rng, list);
            let rest = self.rng.u64(..) & 0x7 << 40 | self.rng.u64(..64) << 32;
            poke(place, self.rng.u64(..32));
            poke(place + 8, call as u64 | rest);
            for (at, argument) in arguments.into_iter().enumerate() {
                poke(place + 16 + at * 8, argument as u64);
            }
            // SAFETY: as above.
            unsafe { tail.write_volatile(number.wrapping_add(1)) };
        }
        // The deadline has passed, so no wait is long.
        poke(ring + 16, self.rng.u64(..1 << 20));
        call(RING_ENTER, [self.rng.usize(..3), 0, 0]);
        if self.rng.bool() {
            // Everything that has arrived is taken.
            let [taken, come] =
                [8, 12].map(|at| core::ptr::with_exposed_provenance_mut::<u32>(ring + at));
            // SAFETY: as above.
            unsafe { taken.write_volatile(come.read_volatile()) };
        }
        if self.rng.u8(..4) == 0 {
            call(RING_CANCEL, [self.rng.usize(..32), 0, 0]);
        }
    }

    fn store_into_ring(&mut self) {
        let ring = ring_base(self.worker());
        let at = match self.rng.u8(..4) {
            0 => self.rng.usize(..SUBMISSIONS),
            _ => self.rng.usize(..SUBMISSIONS + ENTRIES * (SUBMISSION + 16)),
        };
        let value = word(&mut self.rng) as u64;
        poke(ring + at, value);
    }

    fn store_into_page(&mut self) {
        let page = worker_page(self.worker());
        let at = match self.rng.u8(..3) {
            0 => self.rng.usize(..PAGE_SIZE),
            _ => self.rng.usize(..64),
        };
        let value = match self.rng.u8(..3) {
            0 => self.rng.u64(..),
            1 => 1 << self.rng.u32(..64),
            _ => word(&mut self.rng) as u64,
        };
        poke(page + at, value);
    }

    /// Sets interrupts up, raises one, or damages their block.
    fn interrupt(&mut self) {
        let worker = self.worker();
        let block = BLOCK.load(Ordering::Relaxed);
        match self.rng.u8(..16) {
            0..=4 => {
                let handler = match self.rng.bool() {
                    true => attacker_returns as unsafe extern "C" fn() as usize,
                    false => attacker_nests as unsafe extern "C" fn() as usize,
                };
                let stack = stack_top(worker, self.rng.usize(..8)).unwrap_or(0);
                poke(block + 16, stack as u64);
                poke(block, 0);
                call(UPCALL_SETUP, [handler, block, 0]);
            }
            5..=11 => drop(call(UPCALL_RAISE, [self.rng.usize(..3), 0, 0])),
            12..=13 => {
                let at = self.rng.usize(..3) * 8;
                let value = word(&mut self.rng) as u64;
                poke(block + at, value);
            }
            14 => drop(call(UPCALL_SETUP, [0, 0, 0])),
            _ => drop(self.call(UPCALL_SETUP)),
        }
    }

    /// Touches pages that exist from the first touch on.
    fn touch(&mut self) {
        let value = self.rng.u64(..);
        match self.rng.u8(..4) {
            // Pages of threads, whether or not these exist.
            0 => {
                let stack = THREAD_STACKS + self.rng.usize(..8) * THREAD_STACK;
                let at = match self.rng.bool() {
                    true => self.rng.usize(PAGE_SIZE..THREAD_STACK),
                    false => THREAD_STACK - 8,
                };
                poke(stack + at, value);
            }
            1 => poke(STACKS + self.rng.usize(..64 * STACK_SIZE), value),
            _ => {
                let size = self.rng.usize(1..64) * PAGE_SIZE;
                if let Ok(end) = usize::try_from(call(SBRK, [size, 0, 0])) {
                    (0..size)
                        .step_by(PAGE_SIZE)
                        .for_each(|at| poke(end + at, value));
                    if self.rng.u8(..4) > 0 {
                        call(SBRK, [size.wrapping_neg(), 0, 0]);
                    }
                }
            }
        }
    }

    fn start_thread(&mut self) {
        if self.threads < THREADS {
            self.threads += 1;
            let mut rng = self.rng.fork();
            let (depth, threads) = (self.depth, self.threads);
            let started = thread::spawn(move || {
                let mut attacker = Attacker::new(rng.fork(), depth);
                attacker.threads = threads;
                for _ in 0..rng.usize(1..500) {
                    attacker.step();
                }
            });
            if self.rng.bool()
                && let Ok(thread) = started
            {
                call(WAIT_THREAD, [thread.id(), 0, 0]);
            }
        }
    }

    fn fork(&mut self) {
        if self.depth < DEPTH
            && let Ok(Fork::Child) = process::fork()
        {
            self.depth += 1;
            self.worker = None;
            self.rng = self.rng.fork();
        }
    }

    /// Makes calls that name a process: the first one, the victim, others, or itself and its group.
    fn address_processes(&mut self) {
        let own = process::id();
        let pid = match self.rng.u8(..4) {
            0 => self.rng.usize(..4),
            1 => self.rng.usize(..4).wrapping_neg(),
            2 => self.rng.usize(..2 * own),
            _ => own + self.rng.usize(..3),
        };
        match self.rng.u8(..5) {
            0 => call(GRANT, [pid, word(&mut self.rng), 0]),
            1 => call(GROUP_SET, [pid, self.rng.usize(..2 * own), 0]),
            2 => call(WAITPID, [pid, arena(), 0]),
            3 if pid != own && pid != own.wrapping_neg() => call(KILL, [pid, 9, 0]),
            _ => call(KILL, [pid, 0, 0]),
        };
    }

    fn signal_itself(&mut self) {
        let signal = if self.rng.u8(..16) == 0 {
            self.rng.usize(..40)
        } else {
            0
        };
        call(KILL, [process::id(), signal, 0]);
    }
}
