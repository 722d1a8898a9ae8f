//! What the kernel learns from the device tree.
use core::ops::Range;
use fdt::Fdt;
use fdt::node::FdtNode;

/// The number of harts that the kernel has room for.
pub(crate) const MAX_HARTS: usize = 8;

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
    /// Reads the device tree, which lies at `tree_address`.
    ///
    /// `kernel` is an address in the kernel, whose memory is found by it.
    ///
    /// # Panics
    /// If the tree describes no memory there, or no processor.
    pub(crate) fn read(
        tree: &Fdt<'_>,
        tree_address: usize,
        boot_hart: usize,
        kernel: usize,
    ) -> Machine {
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
