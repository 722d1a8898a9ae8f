//! The interrupt controller for devices (PLIC).
//!
//! The interrupts of all devices go to the supervisor mode of all harts. The hart that claims an
//! interrupt first serves it.
use crate::hart;
use crate::machine::Machine;
use spin::Once;

/// How many interrupts the controller can tell apart, at most, as far as this kernel cares.
///
/// QEMU's `virt` has 96.
const MAX_INTERRUPTS: usize = 128;

static CONTROLLER: Once<Controller> = Once::new();

/// What serves each interrupt.
static HANDLERS: [Once<fn()>; MAX_INTERRUPTS] = [const { Once::new() }; MAX_INTERRUPTS];

/// Where the registers lie.
struct Controller {
    base: usize,
    /// Bit *i*: interrupts go to the hart with the number *i*.
    harts: u64,
}

/// Returns the context of a hart's supervisor mode.
///
/// Each hart has two contexts, the machine's first.
fn context(hart: usize) -> usize {
    2 * hart + 1
}

/// Returns the register that a hart reads and writes to claim and complete an interrupt.
fn claim(hart: usize) -> usize {
    0x20_0004 + 0x1000 * context(hart)
}

/// Finds the controller.
pub(crate) fn init(machine: &Machine) {
    if let Some(registers) = &machine.interrupts {
        let controller = CONTROLLER.call_once(|| Controller {
            base: registers.start,
            harts: machine
                .harts()
                .iter()
                .fold(0, |harts, &hart| harts | 1 << hart),
        });
        for hart in controller.harts() {
            // Every priority above 0 gets through.
            controller.write(0x20_0000 + 0x1000 * context(hart), 0);
        }
    }
}

/// Switches an interrupt on, so that [`serve`] calls `handler` for it from now on.
///
/// Without a controller nothing happens.
///
/// # Panics
/// If the interrupt has a number that no controller has.
pub(crate) fn enable(interrupt: u32, handler: fn()) {
    let Some(controller) = CONTROLLER.get() else {
        return;
    };
    let interrupt = interrupt as usize;
    HANDLERS[interrupt].call_once(|| handler);
    controller.write(4 * interrupt, 1);
    for hart in controller.harts() {
        let enabled = 0x2000 + 0x80 * context(hart) + 4 * (interrupt / 32);
        controller.write(enabled, controller.read(enabled) | 1 << (interrupt % 32));
    }
}

/// Serves the interrupts that are pending.
pub(crate) fn serve() {
    let Some(controller) = CONTROLLER.get() else {
        return;
    };
    let claim = claim(hart::id());
    loop {
        let interrupt = controller.read(claim);
        if interrupt == 0 {
            break;
        }
        if let Some(handler) = HANDLERS.get(interrupt as usize).and_then(Once::get) {
            handler();
        }
        controller.write(claim, interrupt);
    }
}

impl Controller {
    fn harts(&self) -> impl Iterator<Item = usize> {
        (0..64).filter(|hart| self.harts >> hart & 1 != 0)
    }

    fn read(&self, offset: usize) -> u32 {
        // SAFETY: the device tree says that a PLIC lies there, and it is mapped.
        unsafe { ((self.base + offset) as *const u32).read_volatile() }
    }

    fn write(&self, offset: usize, value: u32) {
        // SAFETY: as in `read`.
        unsafe { ((self.base + offset) as *mut u32).write_volatile(value) }
    }
}
