//! Values that an attacker passes: numbers of calls, and words of every kind.

use core::cell::UnsafeCell;

use corank_abi::call::*;
use corank_abi::page::{PAGE_SIZE, PROCESS_PAGE, RING_BASE, SYSTEM_PAGE, ring_base, worker_page};
use corank_abi::upcall::STACKS;
use fastrand::Rng;

/// Kind of value that an argument should have.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// A number without a meaning of its own, or nothing.
    Number,
    /// A descriptor.
    File,
    /// The number of a semaphore, thread, worker, or the key of a call.
    Object,
    /// The address of a string.
    Text,
    /// The address of memory that the kernel reads or writes.
    Memory,
    /// Bytes of that.
    Length,
}

/// A call and the kinds that its arguments should have.
pub(crate) type Call = (usize, [Kind; 3]);

use Kind::{File as F, Length as L, Memory as M, Number as N, Object as O, Text as T};

/// Calls that return soon, whatever their arguments are.
pub(crate) const CALLS: &[Call] = &[
    (DUP, [F, N, N]),
    (UDP_CONNECT, [N, O, O]),
    (LISTEN, [O, N, N]),
    (UNLINKAT, [F, T, N]),
    (LINKAT, [F, T, F]),
    (OPEN, [T, N, N]),
    (CLOSE, [F, N, N]),
    (PIPE, [M, N, N]),
    (WRITE, [F, M, L]),
    (FSTAT, [F, M, N]),
    (YIELD, [N, N, N]),
    (GET_TIME, [N, N, N]),
    (GETPID, [N, N, N]),
    (WAITPID, [N, M, N]),
    (YIELD_TO, [O, N, N]),
    (GETTID, [N, N, N]),
    (WAITTID, [O, N, N]),
    (MUTEX_CREATE, [O, N, N]),
    (MUTEX_UNLOCK, [O, N, N]),
    (SEMAPHORE_CREATE, [O, N, N]),
    (SEMAPHORE_UP, [O, N, N]),
    (CONDVAR_CREATE, [N, N, N]),
    (CONDVAR_SIGNAL, [O, N, N]),
    (SBRK, [N, N, N]),
    (RING_SETUP, [N, N, N]),
    (WAIT_MODE, [O, N, N]),
    (FRAMES_FREE, [N, N, N]),
    (GRANT, [O, N, N]),
    (GLOBAL, [O, N, N]),
    (HARTS, [N, N, N]),
    (RING_CANCEL, [O, N, N]),
    (RING_REPRIORITIZE, [O, O, N]),
    (CALLS_MADE, [N, N, N]),
    (FAULT, [O, O, O]),
    (HARTS_LIMIT, [O, N, N]),
    (WORKER, [N, N, N]),
    (UPCALL_RAISE, [O, N, N]),
    (SERVICE_MODEL, [O, N, N]),
    (PROCESS_LIST, [M, O, N]),
    (SYSTEM_STATUS, [M, N, N]),
    (FOREGROUND, [N, N, N]),
    (CALENDAR, [N, N, N]),
    (FILE_OPEN, [T, N, N]),
    (FILE_OPEN, [T, N, N]),
    (FILE_SEEK, [F, N, O]),
    (DIRECTORY_MAKE, [T, N, N]),
    (REMOVE, [T, O, N]),
    (RENAME, [T, T, N]),
    (STATUS, [T, M, N]),
    (STATUS_OF, [F, M, N]),
    (TRUNCATE, [F, L, N]),
    (SYNC, [N, N, N]),
    (DIRECTORY_ENTRY, [T, O, M]),
    (DIRECTORY_CHANGE, [T, N, N]),
    (DIRECTORY_CURRENT, [M, L, N]),
    (SPACE, [M, N, N]),
    (TCP_LISTEN, [O, O, N]),
    (SHUTDOWN, [F, N, N]),
    (SOCKET_SET, [F, O, N]),
    (SOCKET_STATUS, [F, M, N]),
    (NETWORK_STATUS, [M, N, N]),
];

/// Calls that may wait for ever, end the thread or make another one.
pub(crate) const RARE: &[Call] = &[
    (READ, [F, M, L]),
    (SLEEP, [O, N, N]),
    (MUTEX_LOCK, [O, N, N]),
    (SEMAPHORE_DOWN, [O, N, N]),
    (CONDVAR_WAIT, [O, O, N]),
    (WAIT_THREAD, [O, N, N]),
    (WAIT_PROCESS, [N, M, N]),
    (ACCEPT, [F, N, N]),
    (TCP_CONNECT, [N, O, O]),
    (RING_ENTER, [O, N, N]),
    (UPCALL_SETUP, [M, M, N]),
    (UPCALL_RETURN, [M, N, N]),
    (EXEC, [T, M, N]),
    (EXIT, [N, N, N]),
    (THREAD_CREATE, [M, M, N]),
    (QUIESCE, [N, N, N]),
    (FORK, [N, N, N]),
    (MEMORY_LIMIT, [L, N, N]),
];

/// Places that mean something, and some that mean nothing.
const PLACES: &[usize] = &[
    0,
    0x1_0000,
    0x0e_0000_0000,
    0x1f_ff00_0000,
    STACKS,
    PROCESS_PAGE,
    SYSTEM_PAGE,
    worker_page(7),
    RING_BASE,
    ring_base(7),
    1 << 38,
    0xffff_ffff_8020_0000,
    0xffff_ffff_ffff_f000,
];

const NUMBERS: &[usize] = &[
    usize::MAX,
    isize::MAX as usize,
    isize::MIN as usize,
    u32::MAX as usize,
    1 << 32,
    i32::MIN as usize,
    PAGE_SIZE,
    60 << 30,
];

/// Bytes of the memory that the attackers let the kernel read and write.
const ARENA: usize = 64 << 10;
/// Strings and lists of strings lie at its beginning, in a row.
const SLOT: usize = 64;
const STRINGS: &[&[u8]] = &[
    b"true\0",
    b"a\0",
    b"b\0",
    b"b/c\0",
    b"/b\0",
    b"b/../a\0",
    b".\0",
    b"..\0",
    b"/\0",
    b"\0",
    b"A name that is longer than eleven.text\0",
    b"con\x01trol\0",
    b"\xff\xfe\0",
    b"a?*\"<>|\0",
    b"\xe5\x8d\x8f\0",
];

#[repr(C, align(4096))]
struct Arena(UnsafeCell<[u8; ARENA]>);

// SAFETY: only addresses of its bytes are used, by the kernel and through raw pointers.
unsafe impl Sync for Arena {}

static MEMORY: Arena = Arena(UnsafeCell::new([0; ARENA]));

/// Returns the address at which the memory begins.
pub(crate) fn arena() -> usize {
    MEMORY.0.get().expose_provenance()
}

/// Writes to memory of this process; if the memory does not exist, the process ends.
pub(crate) fn poke(address: usize, value: u64) {
    let place = core::ptr::with_exposed_provenance_mut::<u64>(address & !7);
    // SAFETY: an attacker harms itself; callers name no memory that Rust knows.
    unsafe { place.write_volatile(value) };
}

/// Fills the memory: strings, pointers to them, then random bytes.
pub(crate) fn fill_arena(rng: &mut Rng) {
    for at in (0..ARENA).step_by(8) {
        poke(arena() + at, rng.u64(..));
    }
    for (slot, string) in STRINGS.iter().enumerate() {
        for (at, byte) in string.iter().enumerate() {
            let place = core::ptr::with_exposed_provenance_mut::<u8>(arena() + slot * SLOT + at);
            // SAFETY: it lies in the arena.
            unsafe { place.write_volatile(*byte) };
        }
    }
    // Arguments of a program: two strings and the end.
    for (at, word) in [arena(), arena() + SLOT, 0].into_iter().enumerate() {
        poke(arena() + STRINGS.len() * SLOT + at * 8, word as u64);
    }
}

/// Returns one word of any kind.
pub(crate) fn word(rng: &mut Rng) -> usize {
    match rng.u8(..20) {
        0..=4 => rng.usize(..8),
        5 => rng.usize(..64),
        6..=8 => argument(rng, Kind::Text),
        9..=12 => argument(rng, Kind::Memory),
        13 => arena() + rng.usize(..ARENA),
        14 => arena() + ARENA - rng.usize(..64),
        15 => PLACES[rng.usize(..PLACES.len())].wrapping_add(rng.usize(..4) * 8),
        16 => NUMBERS[rng.usize(..NUMBERS.len())],
        17 => (1_usize << rng.u32(..64)).wrapping_sub(rng.usize(..2)),
        18 => rng.usize(..PAGE_SIZE),
        _ => rng.usize(..),
    }
}

/// Returns a word of this kind; now and then, of any kind.
pub(crate) fn argument(rng: &mut Rng, kind: Kind) -> usize {
    let odd = rng.u8(..) == 0;
    match kind {
        _ if odd => word(rng),
        Kind::Number if rng.bool() => word(rng),
        Kind::Number => rng.usize(..4096),
        Kind::File | Kind::Object => rng.usize(..12),
        Kind::Text => arena() + rng.usize(..STRINGS.len()) * SLOT,
        Kind::Memory => arena() + ARENA / 2 + rng.usize(..ARENA / 16) * 8,
        Kind::Length if rng.u8(..8) == 0 => NUMBERS[rng.usize(..NUMBERS.len())],
        Kind::Length => rng.usize(..ARENA / 4),
    }
}

/// Returns a call of a list, with arguments.
pub(crate) fn call_of(rng: &mut Rng, list: &[Call]) -> (usize, [usize; 3]) {
    let (number, kinds) = list[rng.usize(..list.len())];
    (number, kinds.map(|kind| argument(rng, kind)))
}
