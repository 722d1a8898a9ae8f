//! The longest stretches of kernel work between two points at which a hart checks for more urgent
//! work.
//!
//! A *stretch* ends where the executor picks a coroutine, where user mode is entered, where a hart
//! sleeps, and at each [`checkpoint`](crate::pace::checkpoint). Behind a checkpoint the work is the
//! same as before it. The length is counted in instructions. The instruments exist only with the
//! feature `stretch`; in other builds each function here is empty.
//!
//! Lengths are exact on one hart of a machine in which QEMU counts instructions (`-icount`). The
//! counter that is read is then the number of instructions that the machine has executed. `cargo
//! xtask os --stretches` runs such a machine.
use core::fmt;

/// What the kernel works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A coroutine that has not said what it does.
    #[cfg(feature = "stretch")]
    Coroutine,
    /// Pending interrupts.
    Interrupts,
    /// A system call of a thread.
    Call(usize),
    /// A submission in a ring, by the number of its call.
    Submission(usize),
    /// A page fault.
    PageFault,
    /// The end of a process.
    End,
    /// A service of the kernel.
    Service(&'static str),
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "stretch")]
            Work::Coroutine => f.write_str("coroutine"),
            Work::Interrupts => f.write_str("interrupts"),
            Work::Call(number) => write!(f, "call-{number}"),
            Work::Submission(number) => write!(f, "submission-{number}"),
            Work::PageFault => f.write_str("page-fault"),
            Work::End => f.write_str("end"),
            Work::Service(name) => f.write_str(name),
        }
    }
}

#[cfg(not(feature = "stretch"))]
mod measure {
    use super::Work;

    /// Says what the kernel works on from here on.
    #[inline(always)]
    pub(crate) fn works_on(_: Work) {}

    /// Says before each poll of a future that the kernel works on this.
    #[inline(always)]
    pub(crate) fn during<F: Future>(_: Work, future: F) -> F {
        future
    }

    /// Ends a stretch, and begins another one of the same work.
    #[inline(always)]
    pub(crate) fn check() {}

    /// Ends a stretch, and begins another one of unknown work.
    #[inline(always)]
    pub(crate) fn pick() {}

    /// Begins a stretch behind user mode or sleep, which do not count.
    #[inline(always)]
    pub(crate) fn begin() {}

    /// Prints the longest stretches of each kind of work.
    #[inline(always)]
    pub(crate) fn report() {}
}

#[cfg(feature = "stretch")]
mod measure {
    use super::Work;
    use crate::hart;
    use crate::lock::Mutex;
    use crate::machine::MAX_HARTS;
    use crate::println;
    use core::arch::asm;
    use core::pin::Pin;
    use core::task::{Context, Poll};

    /// The length above which a stretch is printed when it ends: so the output shows which program
    /// caused it.
    const GOAL: u64 = 100_000;

    /// The number of kinds of work that are distinguished.
    const KINDS: usize = 256;

    /// The number of lines that a report has at most.
    const LINES: usize = 64;

    /// A hart's stretch.
    #[derive(Clone, Copy)]
    struct Current {
        start: u64,
        /// The first and the last work.
        works: Option<(Work, Work)>,
    }

    /// The longest stretch that began with one kind of work and ended with another.
    #[derive(Clone, Copy)]
    struct Longest {
        works: (Work, Work),
        instructions: u64,
        count: u64,
    }

    struct Measured {
        current: [Current; MAX_HARTS],
        longest: heapless::Vec<Longest, KINDS>,
    }

    static MEASURED: Mutex<Measured> = Mutex::new(Measured {
        current: [Current {
            start: 0,
            works: None,
        }; MAX_HARTS],
        longest: heapless::Vec::new(),
    });

    fn instructions() -> u64 {
        let count: u64;
        // SAFETY: OpenSBI lets the kernel read the counter.
        unsafe { asm!("rdinstret {}", out(reg) count, options(nomem, nostack)) };
        count
    }

    pub(crate) fn works_on(work: Work) {
        let works = &mut MEASURED.lock().current[hart::index()].works;
        *works = Some((works.map_or(work, |works| works.0), work));
    }

    pub(crate) fn during<F: Future>(work: Work, future: F) -> During<F> {
        During { work, future }
    }

    /// A future with the work that it does, which it names before each poll.
    pub(crate) struct During<F> {
        work: Work,
        future: F,
    }

    impl<F: Future> Future for During<F> {
        type Output = F::Output;

        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
            works_on(self.work);
            // SAFETY: the future is moved neither here nor anywhere else, as long as this is not.
            unsafe { self.map_unchecked_mut(|this| &mut this.future) }.poll(context)
        }
    }

    pub(crate) fn check() {
        let works = MEASURED.lock().current[hart::index()].works;
        pick();
        MEASURED.lock().current[hart::index()].works = works.map(|(_, last)| (last, last));
    }

    pub(crate) fn pick() {
        let now = instructions();
        let mut measured = MEASURED.lock();
        let current = measured.current[hart::index()];
        // The boot is no stretch.
        if current.start == 0 {
            return;
        }
        let works = current.works.unwrap_or((Work::Coroutine, Work::Coroutine));
        let length = now - current.start;
        let is_new = measured.note(works, length);
        drop(measured);
        if is_new && length > GOAL {
            println!("corank: stretch {length} {} {}", works.0, works.1);
        }
        begin();
    }

    pub(crate) fn begin() {
        MEASURED.lock().current[hart::index()] = Current {
            start: instructions(),
            works: None,
        };
    }

    impl Measured {
        /// Counts a stretch.
        ///
        /// Returns whether it is the longest of its kind by far.
        fn note(&mut self, works: (Work, Work), length: u64) -> bool {
            let Some(known) = self.longest.iter_mut().find(|known| known.works == works) else {
                let longest = Longest {
                    works,
                    instructions: length,
                    count: 1,
                };
                return self.longest.push(longest).is_ok();
            };
            known.count += 1;
            let is_new = length > known.instructions + known.instructions / 8;
            known.instructions = known.instructions.max(length);
            is_new
        }
    }

    pub(crate) fn report() {
        let by_length = |longest: &Longest| core::cmp::Reverse(longest.instructions);
        MEASURED.lock().longest.sort_unstable_by_key(by_length);
        for line in 0..LINES {
            let longest = MEASURED.lock().longest.get(line).copied();
            let Some(longest) = longest else { break };
            println!(
                "corank: longest {} {} {} of {}",
                longest.instructions, longest.works.0, longest.works.1, longest.count
            );
        }
    }
}

pub(crate) use measure::{begin, check, during, pick, report, works_on};
