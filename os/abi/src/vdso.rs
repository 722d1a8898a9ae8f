//! The shared scheduler's image: where it lies, and what its clients look for in it (COPS, sections
//! 3.4 and 4.1).
//!
//! The image is an ELF shared object, mapped at the same address in the kernel and in every
//! process, so that its pages need relocating only once and are the same frames for all. A program
//! learns the address from its [auxiliary vector](crate::auxiliary), and looks the symbol up by
//! name *and* version: an image that offers another version does not have the symbol that the
//! program was built for.
use crate::page::RING_BASE;

/// Where the image is mapped, in every process and in the kernel. Programs rely on
/// [`SYSINFO_EHDR`](crate::auxiliary::SYSINFO_EHDR) instead.
pub const BASE: usize = 0x3f_0008_0000;
/// Most bytes that an image may take.
pub const MAX_SIZE: usize = RING_BASE - BASE;
/// The image's name in the archive that the machine boots with.
pub const FILE: &str = "vdso.so";

/// The symbol that clients look up: the table of the engine's functions.
pub const SYMBOL: &str = "corank_engine";
/// Its version: the layout of the table and of all that its functions take and give. It changes
/// whenever those do.
pub const VERSION: &str = "corank_4";

/// Exit code of a program that was built for another version of the image, and of a machine with
/// a kernel that was.
pub const WRONG_VERSION: i32 = 126;
