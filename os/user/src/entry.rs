//! From the kernel's entry into the program to `main`, and out again.
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use corank_abi::auxiliary::END;

use crate::local::ThreadBlock;
use crate::println;
use crate::thread::Tid;

/// Exit code of a program after its main thread has panicked.
pub const PANICKED: i32 = 101;

/// The number of the main thread.
const MAIN: Tid = 0;

/// The main thread's block.
///
/// In a type that may be a static, although cells may not be shared.
struct MainThread(UnsafeCell<ThreadBlock>);

// SAFETY: only the main thread reaches it, through `tp`.
unsafe impl Sync for MainThread {}

static MAIN_THREAD: MainThread = MainThread(UnsafeCell::new(ThreadBlock::new(MAIN)));
static ARGUMENT_COUNT: AtomicUsize = AtomicUsize::new(0);
static ARGUMENTS: AtomicPtr<*const c_char> = AtomicPtr::new(ptr::null_mut());

unsafe extern "Rust" {
    /// Runs what [`main!`](crate::main) or [`async_main!`](crate::async_main) defined.
    fn corank_main() -> i32;
}

/// Receives control from the kernel: `argc` in `a0`, `argv` in `a1`, a stack below `sp`.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.entry")]
extern "C" fn _start(count: usize, arguments: *mut *const c_char) -> ! {
    // SAFETY: this is the main thread, and the static outlives it.
    unsafe { (*MAIN_THREAD.0.get()).install() };
    ARGUMENT_COUNT.store(count, Ordering::Relaxed);
    ARGUMENTS.store(arguments, Ordering::Relaxed);
    // SAFETY: nothing has run before.
    unsafe { crate::vdso::init() };
    // SAFETY: defined by the macros above with this signature; a program with neither doesn't link.
    let code = unsafe { corank_main() };
    crate::process::exit(code)
}

/// Returns the program's arguments; the first is its name.
///
/// One that isn't UTF-8 is left out.
pub fn arguments() -> impl Iterator<Item = &'static str> {
    let arguments = ARGUMENTS.load(Ordering::Relaxed);
    (0..ARGUMENT_COUNT.load(Ordering::Relaxed)).filter_map(move |index| {
        // SAFETY: the kernel has put `argc` pointers to NUL-terminated strings on the stack, above
        // where the program's frames begin, so they stay.
        let argument = unsafe { CStr::from_ptr(*arguments.add(index)) };
        argument.to_str().ok()
    })
}

/// Returns the value of an entry of the auxiliary vector (see [`corank_abi::auxiliary`]), if it is
/// there.
pub fn auxiliary(tag: usize) -> Option<usize> {
    let mut words = ARGUMENTS
        .load(Ordering::Relaxed)
        .cast_const()
        .cast::<usize>();
    // SAFETY: the kernel has put the vector behind the arguments and the environment, each of which
    // ends with a null pointer; it ends with the tag `END`, and all of it stays where it is.
    unsafe {
        for _ in ["arguments", "environment"] {
            while words.read() != 0 {
                words = words.add(1);
            }
            words = words.add(1);
        }
        while words.read() != END {
            if words.read() == tag {
                return Some(words.add(1).read());
            }
            words = words.add(2);
        }
    }
    None
}

/// What a main function may return.
pub trait Outcome {
    /// Returns the exit code.
    fn code(self) -> i32;
}

impl Outcome for () {
    fn code(self) -> i32 {
        0
    }
}

impl Outcome for i32 {
    fn code(self) -> i32 {
        self
    }
}

impl<E: core::fmt::Display> Outcome for Result<(), E> {
    /// Returns 0, or 1 after printing the error.
    fn code(self) -> i32 {
        match self {
            Ok(()) => 0,
            Err(error) => {
                println!("error: {error}");
                1
            }
        }
    }
}

/// Names the program's main function, which returns an [`Outcome`].
///
/// ```no_run
/// #![no_std]
/// #![no_main]
/// corank_user::main!(main);
///
/// fn main() {
///     corank_user::println!("hello");
/// }
/// ```
#[macro_export]
macro_rules! main {
    ($main:path) => {
        // SAFETY: the name is ours; a second definition doesn't link.
        #[unsafe(no_mangle)]
        extern "Rust" fn corank_main() -> i32 {
            $crate::entry::Outcome::code($main())
        }
    };
}

/// Names the program's asynchronous main function, which returns an [`Outcome`]. It runs as the
/// first coroutine, at the default priority (COPS, section 4.2). The program ends when it has
/// returned, whatever other coroutines do.
///
/// ```no_run
/// #![no_std]
/// #![no_main]
/// corank_user::async_main!(main);
///
/// async fn main() {
///     corank_user::println!("hello from a coroutine");
/// }
/// ```
#[macro_export]
macro_rules! async_main {
    ($main:path) => {
        // SAFETY: the name is ours; a second definition doesn't link.
        #[unsafe(no_mangle)]
        extern "Rust" fn corank_main() -> i32 {
            $crate::entry::Outcome::code($crate::block_on($main()))
        }
    };
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    println!("{info}");
    crate::process::exit(PANICKED)
}
