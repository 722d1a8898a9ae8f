//! The shared scheduler: the core's engine as one ELF image, mapped into the kernel and into every
//! process (COPS, sections 3.4 and 4.1).
//!
//! The image exports one symbol: the table of the engine's functions (see `corank::image`). It has
//! no variables, so that all its pages are shared. `build.rs` says how it is linked, `image.ld`
//! where its parts lie, `exports.map` with which version.
#![no_std]
#![no_main]

use corank::image::{ENGINE, Engine};

/// The table of the engine's functions.
#[allow(non_upper_case_globals, reason = "it is the symbol's name")]
// SAFETY: nothing else in the image has this name.
#[unsafe(no_mangle)]
static corank_engine: Engine = engine();

#[cfg(not(any(feature = "alike", feature = "alternating")))]
const fn engine() -> Engine {
    ENGINE
}

#[cfg(feature = "alike")]
const fn engine() -> Engine {
    ENGINE.alike()
}

#[cfg(all(feature = "alternating", not(feature = "alike")))]
const fn engine() -> Engine {
    ENGINE.alternating()
}

/// What makes the other image larger.
#[cfg(feature = "alike")]
#[used]
static PADDING: [u8; 16 * 4096] = [1; 16 * 4096];

/// Traps. The engine does not panic unless it, or what a client promised it, is wrong.
///
/// The client's exception handler says where.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: an instruction that does not exist traps.
    unsafe { core::arch::asm!("unimp", options(noreturn)) }
}
