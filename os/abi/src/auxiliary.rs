//! What a program finds on its stack when it begins: the layout of Linux, so that code written for
//! that works.
//!
//! ```text
//! sp ─▶ argc
//!       argv[0] … argv[argc - 1], 0
//!       the environment, which is empty: 0
//!       the auxiliary vector: pairs of a tag (below) and a value, up to the tag END
//!       … the strings
//! ```
//! Besides, `a0` holds argc and `a1` the address of `argv[0]`, as in rCore-Tutorial-v3.

/// The vector ends.
pub const END: usize = 0;
/// The size of a page in bytes.
pub const PAGE_SIZE: usize = 6;
/// Where the header of the shared scheduler's ELF image lies (see [`vdso`](crate::vdso)).
pub const SYSINFO_EHDR: usize = 33;
