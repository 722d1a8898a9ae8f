//! Traps: from user mode back into the kernel, and the kernel's own.
//!
//! The kernel runs with interrupts off and checks for pending ones itself (see [`crate::hart`]). So
//! a trap is always the end of a call of [`run_user`]: the call enters user mode and returns at the
//! next trap.
use crate::hart;
use crate::memory::kernel_space::{TRAMPOLINE, trampoline_address};
use crate::memory::user::Access;
use alloc::boxed::Box;
use corank_abi::upcall::Frame;
use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicU64, Ordering};
use riscv::register::sstatus::{self, FS};
use riscv::register::stval;

global_asm!(include_str!("trap.s"));

unsafe extern "C" {
    fn trap_entry();
    fn trap_leave();
    fn enter_user(context: *mut Context, satp: usize) -> usize;
}

/// The registers of a thread while it is not in user mode.
///
/// `trap.s` knows this layout.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Context {
    /// Register *i* at index *i*; the first place is not used.
    pub x: [usize; 32],
    /// The next instruction.
    pub pc: usize,
    /// The floating-point registers, made when the thread first computes with floating point.
    float: Option<Box<Float>>,
}

// What trap.s says of the layout.
const _: () =
    assert!(core::mem::offset_of!(Context, x) == 0 && core::mem::offset_of!(Context, pc) == 256);

/// The floating-point registers.
#[repr(C)]
#[derive(Clone, Debug)]
struct Float {
    f: [u64; 32],
    control: usize,
    /// The number that tells whose registers a hart holds.
    owner: u64,
}

/// `sstatus`: the state of the floating-point unit.
const FLOAT: usize = 3 << 13;
const FLOAT_CLEAN: usize = 2 << 13;

/// What is clear in `sstatus` while the kernel runs: return to user mode, interrupts off before and
/// now, no floating point. A trap from user mode leaves all but the last of these as they were.
const STATUS: usize = 1 << 8 | 1 << 5 | 1 << 1 | FLOAT;

/// Makes `sstatus` what [`run_user`] expects.
///
/// Called once per hart.
pub(crate) fn init() {
    // SAFETY: interrupts go off, and the kernel computes without floating point.
    unsafe { asm!("csrc sstatus, {}", in(reg) STATUS) };
}

impl Context {
    /// Returns the registers of a thread that starts at `pc` with its stack at `sp`.
    pub(crate) fn new(pc: usize, sp: usize) -> Context {
        let mut context = Context {
            x: [0; 32],
            pc,
            float: None,
        };
        context.x[2] = sp;
        context
    }

    /// Returns the number of the system call, and its arguments.
    pub(crate) fn call(&self) -> (usize, [usize; 3]) {
        (self.x[17], [self.x[10], self.x[11], self.x[12]])
    }

    /// Sets what the system call returns.
    pub(crate) fn set_result(&mut self, result: isize) {
        self.x[10] = result as usize;
    }

    /// Returns a copy for a child.
    pub(crate) fn fork(&self) -> Context {
        let float = self.float.as_ref().map(|float| {
            Box::new(Float {
                owner: next_owner(),
                ..(**float).clone()
            })
        });
        Context {
            x: self.x,
            pc: self.pc,
            float,
        }
    }

    /// Returns the registers, for a handler of user-level interrupts.
    pub(crate) fn frame(&self) -> Frame {
        let (f, fcsr) = match &self.float {
            Some(float) => (float.f, float.control),
            None => ([0; 32], 0),
        };
        Frame {
            x: self.x,
            pc: self.pc,
            f,
            fcsr,
        }
    }

    /// Goes on with the registers of a frame.
    ///
    /// A thread that has never used the floating-point registers does not get any by that.
    pub(crate) fn restore(&mut self, frame: &Frame) {
        self.x = frame.x;
        self.pc = frame.pc;
        if let Some(float) = &mut self.float {
            float.f = frame.f;
            float.control = frame.fcsr;
            // What a hart holds of it is not true any more.
            float.owner = next_owner();
        }
    }

    /// Goes on at the begin of a handler.
    ///
    /// Its arguments are the address of its frame, which is also where its stack begins, and
    /// whether a system call waits.
    pub(crate) fn enter_handler(&mut self, handler: usize, frame: usize, call_waits: bool) {
        self.pc = handler;
        self.x[2] = frame;
        self.x[10] = frame;
        self.x[11] = usize::from(call_waits);
    }

    /// Returns the registers at the begin of a handler that runs beside this context.
    pub(crate) fn of_handler(&self, handler: usize, frame: usize) -> Context {
        let mut context = Context::new(handler, frame);
        // gp and tp are the thread's.
        context.x[3..=4].copy_from_slice(&self.x[3..=4]);
        context.enter_handler(handler, frame, true);
        context
    }

    /// Gives the thread floating-point registers.
    ///
    /// Returns false if it had them already.
    #[cold]
    pub(crate) fn enable_float(&mut self) -> bool {
        let missing = self.float.is_none();
        if missing {
            self.float = Some(Box::new(Float {
                f: [0; 32],
                control: 0,
                owner: next_owner(),
            }));
        }
        missing
    }
}

fn next_owner() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Why user mode was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trap {
    /// A system call.
    Call,
    /// The clock.
    Timer,
    /// A device.
    Device,
    /// Another hart: check again what there is to do.
    Signal,
    /// An address that is not there, or not for this use.
    Page(usize, Access),
    /// An instruction that does not exist or is not for user mode.
    Illegal(usize),
    /// Anything else: the number of the cause, and its value.
    Other(usize, usize),
}

/// Runs user mode from `context` in the address space `satp`, up to the next trap.
///
/// # Safety
/// `satp` names an address space that stays as it is meanwhile and has the trampoline and the
/// hart's page mapped.
pub(crate) unsafe fn run_user(context: &mut Context, satp: usize) -> Trap {
    match &context.float {
        Some(float) => {
            if hart::float_owner().replace(float.owner) != float.owner {
                load_float(float);
            }
            hart::float_on().set(true);
            // SAFETY: on and clean: what is dirty afterwards, the thread has written.
            unsafe {
                asm!("csrc sstatus, {}", "csrs sstatus, {}", in(reg) FLOAT, in(reg) FLOAT_CLEAN)
            };
        }
        None => {
            if hart::float_on().replace(false) {
                // SAFETY: the registers stay as they are.
                unsafe { asm!("csrc sstatus, {}", in(reg) FLOAT) };
            }
        }
    }
    // SAFETY: the caller vouches for the address space; `sstatus` says user mode, interrupts off.
    let cause = unsafe { enter_user(context, satp) };
    hart::leave_user();
    if let Some(float) = &mut context.float
        && sstatus::read().fs() == FS::Dirty
    {
        save_float(float);
    }
    let value = stval::read;
    const INTERRUPT: usize = 1 << 63;
    match cause {
        8 => Trap::Call,
        2 => Trap::Illegal(value()),
        1 | 12 => Trap::Page(value(), Access::Execute),
        5 | 13 => Trap::Page(value(), Access::Read),
        7 | 15 => Trap::Page(value(), Access::Write),
        _ if cause == INTERRUPT | 5 => Trap::Timer,
        _ if cause == INTERRUPT | 9 => Trap::Device,
        _ if cause == INTERRUPT | 1 => Trap::Signal,
        _ => Trap::Other(cause, value()),
    }
}

macro_rules! each_float_register {
    ($instruction:literal, $base:expr, $($tail:tt)*) => {
        asm!(
            ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
            concat!($instruction, " f\\r, \\r*8({base})"),
            ".endr",
            base = in(reg) $base,
            $($tail)*
        )
    };
}

fn load_float(float: &Float) {
    // SAFETY: the unit is switched on first; the kernel itself computes without floating point, so
    // that nothing of the kernel is lost.
    unsafe {
        asm!("csrs sstatus, {}", in(reg) FLOAT_CLEAN);
        each_float_register!("fld", float.f.as_ptr(), options(readonly, nostack));
        asm!("csrw fcsr, {}", in(reg) float.control);
    }
}

fn save_float(float: &mut Float) {
    // Registers that another hart kept from an earlier turn of this thread are not these any more.
    float.owner = next_owner();
    hart::float_owner().set(float.owner);
    // SAFETY: the unit is on (its state was dirty when user mode was left), and `f` has room for
    // all registers.
    unsafe {
        each_float_register!("fsd", float.f.as_mut_ptr(), options(nostack));
        asm!("csrr {}, fcsr", out(reg) float.control);
    }
}

/// Returns addresses inside the trampoline: where traps enter and where user mode is left for.
pub(crate) fn trampoline_entries() -> (usize, usize) {
    let mapped = |address: usize| address - trampoline_address() + TRAMPOLINE;
    (
        mapped(trap_entry as *const () as usize),
        mapped(trap_leave as *const () as usize),
    )
}

/// Handles traps of the kernel itself, on the emergency stack.
pub(crate) extern "C" fn kernel_trap(cause: usize, value: usize, pc: usize) -> ! {
    panic!("trap in the kernel: cause {cause:#x}, value {value:#x}, pc {pc:#x}");
}
