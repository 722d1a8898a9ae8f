//! What the shared scheduler saves each program: `hello-async` without the user library, to be
//! built with the scheduler in the image, as for every program of the system, and with a scheduler
//! of its own.
//!
//! It has no more than a program with coroutines needs, so what differs between the two is the
//! scheduler. Both run, which proves that each has all that it needs. `README.md` has the sizes.
#![no_std]
#![no_main]

#[cfg_attr(feature = "image", path = "shared.rs")]
#[cfg_attr(not(feature = "image"), path = "own.rs")]
mod scheduler;

use core::alloc::{GlobalAlloc, Layout};
use core::arch::asm;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use corank::{Config, Executor, JoinHandle, Priority, spawn, yield_now};
use corank_abi::call;

/// Exit code of a program that has panicked.
const PANICKED: usize = 101;

/// Begins the program: the kernel enters here.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.entry")]
extern "C" fn _start() -> ! {
    scheduler::init();
    let executor = Executor::with(Config::new());
    drop(or_exit(executor.spawn(Priority::DEFAULT, main())));
    executor.run_until_idle();
    exit(usize::from(executor.live() > 0))
}

async fn main() {
    let handles: [JoinHandle<()>; 3] = [40, 10, 20].map(|level| {
        let priority = or_exit(Priority::new(level).ok_or(()));
        or_exit(spawn(priority, greet(level)))
    });
    for handle in handles {
        or_exit(handle.await);
    }
    say(b"good bye\n");
}

async fn greet(level: u8) {
    let end = [b'0' + level / 10, b'0' + level % 10, b'\n'];
    say(b"hello from level ");
    say(&end);
    yield_now().await;
    say(b"and again from level ");
    say(&end);
}

/// Exits on an error, without a message: its formatting would count.
fn or_exit<T, E>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|_| exit(1))
}

fn say(text: &[u8]) {
    system_call(
        call::WRITE,
        [1, text.as_ptr().expose_provenance(), text.len()],
    );
}

fn exit(code: usize) -> ! {
    system_call(call::EXIT, [code, 0, 0]);
    // `EXIT` does not return.
    loop {
        core::hint::spin_loop();
    }
}

/// Makes one of the calls above. The kernel reads what they point to, and writes no memory.
fn system_call(number: usize, arguments: [usize; 3]) {
    // SAFETY: as in the summary; the kernel keeps all registers but the result's.
    unsafe {
        asm!(
            "ecall",
            inlateout("a0") arguments[0] => _,
            in("a1") arguments[1],
            in("a2") arguments[2],
            in("a7") number,
            options(nostack),
        );
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(PANICKED)
}

/// Memory that is given once and never comes back: the smallest allocator there is.
struct Once {
    memory: [AtomicUsize; WORDS],
    used: AtomicUsize,
}

const WORDS: usize = 8192;

#[global_allocator]
static MEMORY: Once = Once {
    memory: [const { AtomicUsize::new(0) }; WORDS],
    used: AtomicUsize::new(0),
};

// SAFETY: what is given lies in `memory`, aligned, and is given once.
unsafe impl GlobalAlloc for Once {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let start = self.memory.as_ptr().expose_provenance();
        let place = (start + self.used.load(Ordering::Relaxed)).next_multiple_of(layout.align());
        let used = place + layout.size() - start;
        if used > size_of_val(&self.memory) {
            return ptr::null_mut();
        }
        self.used.store(used, Ordering::Relaxed);
        ptr::with_exposed_provenance_mut(place)
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
