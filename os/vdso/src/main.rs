//! The shared scheduler: the core's engine as one ELF image, mapped into the kernel and into every process (seed 002,
//! sections 3.4 and 4.1).
//!
//! The image exports one symbol, [`corank_engine`]: a table of functions with a C interface. It has no variables, so that all
//! its pages are shared. `build.rs` says how it is linked, `exports.map` with which version.
#![no_std]
#![no_main]

/// The table of the engine's functions.
#[repr(C)]
struct Engine {
    /// Bytes of the table. A later image of the same version may have more functions at its end.
    size: usize,
    /// The most urgent of some levels, 64 if there is none: what each pick begins with.
    most_urgent: extern "C" fn(levels: u64) -> u32,
}

#[allow(non_upper_case_globals, reason = "it is the symbol's name")]
// SAFETY: nothing else in the image has this name.
#[unsafe(no_mangle)]
static corank_engine: Engine = Engine {
    size: size_of::<Engine>(),
    most_urgent,
};

extern "C" fn most_urgent(levels: u64) -> u32 {
    corank::Levels::from_bits(levels)
        .most_urgent()
        .map_or(64, |priority| priority.level().into())
}

corank::context_slot! {
    get: core::ptr::null,
    set: |_| {},
}

/// The engine does not panic unless it, or what a client promised it, is wrong. The client's exception handler says where.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: an instruction that does not exist traps.
    unsafe { core::arch::asm!("unimp", options(noreturn)) }
}
