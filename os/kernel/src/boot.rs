//! What the kernel learns from the device tree, and the way from OpenSBI to the first program.
use crate::hart::MAX_HARTS;
use crate::memory::{PAGE_SIZE, frame, heap, kernel_space, page_down, page_up};
use crate::{clock, console, device, fs, net, power, process, programs};
use alloc::string::String;
use alloc::vec::Vec;
use corank_abi::command_line;
use core::ops::Range;
use fdt::Fdt;
use fdt::node::FdtNode;

core::arch::global_asm!(include_str!("start.s"));

/// The machine as the device tree describes it.
///
/// Addresses are physical.
#[derive(Debug)]
pub(crate) struct Machine {
    /// Where the memory ends that begins at or before the kernel.
    pub memory: Range<usize>,
    /// The archive with the programs.
    pub archive: Range<usize>,
    /// Where the device tree lies.
    pub tree: Range<usize>,
    /// The numbers of the harts, beginning with the one that boots first; OpenSBI may choose any
    /// for that.
    harts: [usize; MAX_HARTS],
    /// How many of them there are.
    ///
    /// Any more than the kernel has room for are left alone.
    hart_count: usize,
    /// Ticks of the `time` register in a second.
    pub timebase_hz: u64,
    /// The serial port's registers and the number of its interrupt.
    pub serial: Option<(Range<usize>, u32)>,
    /// The interrupt controller's registers.
    pub interrupts: Option<Range<usize>>,
    /// The register that ends QEMU.
    pub power: Option<Range<usize>>,
    /// The clock that knows the date.
    pub calendar: Option<Range<usize>>,
    /// Places for virtio devices: registers, and the number of the interrupt.
    pub virtio: [Option<(Range<usize>, u32)>; MAX_VIRTIO],
}

/// The number of virtio devices that are checked; QEMU's `virt` has place for 8.
const MAX_VIRTIO: usize = 8;

impl Machine {
    fn read(tree: &Fdt<'_>, tree_address: usize, boot_hart: usize) -> Machine {
        let chosen = tree.find_node("/chosen");
        let word = |name| {
            let value = chosen.and_then(|node| node.property(name))?.value;
            // One or two cells of 32 bits.
            Some(
                value
                    .iter()
                    .fold(0, |number, byte| number << 8 | usize::from(*byte)),
            )
        };
        let device = |names: &[&str]| tree.find_compatible(names).and_then(registers);
        let with_interrupt = |node: FdtNode<'_, '_>| {
            let interrupt = node
                .interrupts()
                .and_then(|mut all| all.next())
                .unwrap_or(0);
            Some((registers(node)?, interrupt as u32))
        };
        let serial = tree.find_compatible(&["ns16550a"]).and_then(with_interrupt);
        let mut virtio = tree.all_nodes().filter(|node| {
            node.compatible()
                .is_some_and(|names| names.all().any(|name| name == "virtio,mmio"))
        });
        let mut harts = [boot_hart; MAX_HARTS];
        let mut hart_count = 1;
        for id in tree.cpus().filter_map(|cpu| cpu.ids().all().next()) {
            if id != boot_hart && hart_count < MAX_HARTS {
                harts[hart_count] = id;
                hart_count += 1;
            }
        }
        let kernel = kernel_space::image_end();
        let memory = tree
            .memory()
            .regions()
            .map(|region| {
                region.starting_address as usize
                    ..region.starting_address as usize + region.size.unwrap_or(0)
            })
            .find(|region| region.contains(&kernel))
            .expect("the device tree describes the memory that the kernel lies in");
        Machine {
            memory,
            archive: word("linux,initrd-start").unwrap_or(0)..word("linux,initrd-end").unwrap_or(0),
            tree: tree_address..tree_address + tree.total_size(),
            harts,
            hart_count,
            timebase_hz: tree
                .cpus()
                .next()
                .expect("a machine has a processor")
                .timebase_frequency() as u64,
            serial,
            interrupts: device(&["riscv,plic0", "sifive,plic-1.0.0"]),
            power: device(&["sifive,test0"]),
            calendar: device(&["google,goldfish-rtc"]),
            virtio: core::array::from_fn(|_| virtio.next().and_then(with_interrupt)),
        }
    }

    /// Returns the numbers of the harts, beginning with the one that boots first.
    pub(crate) fn harts(&self) -> &[usize] {
        &self.harts[..self.hart_count]
    }

    /// Returns the registers of all devices that the kernel uses.
    pub(crate) fn devices(&self) -> impl Iterator<Item = Range<usize>> {
        let serial = self.serial.as_ref().map(|(registers, _)| registers.clone());
        let virtio = self.virtio.iter().flatten();
        [
            serial,
            self.interrupts.clone(),
            self.power.clone(),
            self.calendar.clone(),
        ]
        .into_iter()
        .flatten()
        .chain(virtio.map(|(registers, _)| registers.clone()))
    }
}

fn registers(node: FdtNode<'_, '_>) -> Option<Range<usize>> {
    let region = node.reg()?.next()?;
    let start = region.starting_address as usize;
    Some(start..start + region.size?)
}

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
    let machine = Machine::read(&tree, tree_address, hart);
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
    kernel_space::init(&machine).expect("there is memory for the kernel's page table");
    clock::init(&machine);
    // SAFETY: the first hart comes here once; the kernel's address space has just been built.
    unsafe { crate::hart::start(0, hart) };
    device::calendar::init(&machine);
    device::disk::init(&machine);
    device::net::init(&machine);
    clock::start();
    fs::init();
    net::init();
    console::start();
    crate::println!(
        "corank: booted with {} MiB of memory ({} free frames) and {} of {} harts",
        machine.memory.len() >> 20,
        machine.memory.len().min(frame::free() * PAGE_SIZE) / PAGE_SIZE,
        machine.harts().len(),
        tree.cpus().count()
    );
    let left_out = tree.cpus().count() - machine.harts().len();
    if left_out > 0 {
        crate::println!(
            "corank: {left_out} more of them are left alone: this kernel serves {MAX_HARTS} at most"
        );
    }
    if !cfg!(feature = "conformance") {
        process::start_first(&arguments);
    }
    crate::hart::start_others(&machine);
    // While the others serve the kernel's executor.
    #[cfg(feature = "conformance")]
    crate::conformance::run();
}

/// Runs after [`boot`], on an empty stack.
#[unsafe(no_mangle)]
extern "C" fn run() -> ! {
    crate::hart::run()
}
