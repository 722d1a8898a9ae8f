//! The way from OpenSBI to the first program.
mod harts;
mod run;
mod shut_down;

use crate::machine::{MAX_HARTS, Machine};
use crate::memory::{PAGE_SIZE, frame, heap, kernel_space, page_down, page_up};
use crate::{clock, console, device, fs, lock, net, power, println, process, programs, user, vdso};
use alloc::string::String;
use alloc::vec::Vec;
use corank_abi::command_line;
use core::panic::PanicInfo;
use fdt::Fdt;

core::arch::global_asm!(include_str!("start.s"));

/// Hands out the memory behind the kernel: first the heap, then the frames.
///
/// The archive and the device tree stay.
fn share_out_memory(machine: &Machine) {
    let first = page_up(kernel_space::image_end());
    let heap_size = page_down((machine.memory.end - first) / 4);
    let mut kept = [machine.archive.clone(), machine.tree.clone()];
    kept.sort_by_key(|range| range.start);
    // The heap takes the beginning of the first gap that is large enough for it.
    let mut start = first;
    let mut heap_is_there = false;
    let ends = kept
        .iter()
        .map(|kept| page_down(kept.start))
        .chain([machine.memory.end]);
    let starts = kept.iter().map(|kept| page_up(kept.end));
    for (end, next) in ends.zip(starts.chain([machine.memory.end])) {
        // SAFETY: the device tree says that the memory exists; nothing else lies behind the kernel
        // than what is kept.
        unsafe {
            if !heap_is_there && start + heap_size <= end {
                heap::init(start..start + heap_size);
                start += heap_size;
                heap_is_there = true;
            }
            if start < end {
                frame::add(start..end);
            }
        }
        start = start.max(next);
    }
    assert!(
        heap_is_there,
        "no room for the kernel's heap of {heap_size} bytes"
    );
}

/// Boots the kernel, as its first function.
#[unsafe(no_mangle)]
extern "C" fn boot(hart: usize, tree_address: usize) {
    // SAFETY: OpenSBI passes the address of the device tree, which stays in place.
    let tree =
        unsafe { Fdt::from_ptr(tree_address as *const u8) }.expect("the device tree is readable");
    let machine = Machine::read(&tree, tree_address, hart, kernel_space::image_end());
    share_out_memory(&machine);
    let arguments: Vec<String> = tree
        .chosen()
        .bootargs()
        .unwrap_or("")
        .split_whitespace()
        .map(|word| {
            let bytes: Vec<u8> = command_line::unquote(word).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        })
        .collect();
    // First what can say that something else is missing.
    power::init(&machine);
    device::plic::init(&machine);
    console::init(&machine);
    programs::init(&machine);
    kernel_space::init(&machine, vdso::init).expect("there is memory for the kernel's page table");
    clock::init(&machine, process::follow_levels);
    lock::init(clock::pause);
    // SAFETY: the first hart comes here once; the kernel's address space has just been built.
    unsafe { harts::start_first(hart, &machine) };
    device::calendar::init(&machine);
    device::disk::init(&machine);
    device::net::init(&machine, net::interrupt);
    clock::start();
    fs::init();
    net::init();
    println!(
        "corank: booted with {} MiB of memory ({} free frames) and {} of {} harts",
        machine.memory.len() >> 20,
        machine.memory.len().min(frame::free() * PAGE_SIZE) / PAGE_SIZE,
        machine.harts().len(),
        tree.cpus().count()
    );
    let left_out = tree.cpus().count() - machine.harts().len();
    if left_out > 0 {
        println!(
            "corank: {left_out} more of them are left alone: this kernel serves {MAX_HARTS} at most"
        );
    }
    if !cfg!(feature = "conformance") {
        process::start_first(&arguments, user::start_main, shut_down::shut_down);
    }
    harts::start_others(&machine);
    // While the others serve the kernel's executor.
    #[cfg(feature = "conformance")]
    crate::conformance::run();
}

/// Runs after [`boot`], on an empty stack.
#[unsafe(no_mangle)]
extern "C" fn run() -> ! {
    run::run()
}

/// QEMU's exit status after a panic of the kernel.
const PANIC: i32 = 101;

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    // The holder of the console's lock is this hart, or is of no importance any more.
    console::break_lock();
    println!("corank: kernel {info}");
    power::off(PANIC)
}
