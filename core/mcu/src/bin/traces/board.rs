//! What the boards differ in: output and end.

#[cfg(target_arch = "arm")]
pub(crate) use {corank_mcu_firmware::exit, cortex_m_semihosting::hprintln as println};

#[cfg(target_arch = "riscv32")]
#[path = "riscv.rs"]
mod riscv;
#[cfg(target_arch = "riscv32")]
pub(crate) use riscv::{Output, exit, println};
