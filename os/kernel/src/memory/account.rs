//! The memory of the kernel's heap that it holds on behalf of programs.
//!
//! Each object that the kernel makes for a process carries a [`Charge`], which is a number of
//! reserved bytes. They are reserved in the account of the process, in those of the ancestors that
//! have limits, and in the root's. The root's limit is what the heap can serve, and the sum of all
//! charges never exceeds that. A charge is an upper bound of what the object costs the allocator,
//! so a small block that was charged for is there. Where the heap lies in pieces the block comes
//! from the [reserve](super::heap). A table or a buffer that may be large is asked for with
//! `try_reserve` beside its charge ([`List`](super::list::List), [`buffer`]), and a refusal is the
//! call's error.
use super::OutOfMemory;
use super::{bulk, heap};
use crate::{executor, fault};
use alloc::sync::Arc;
use alloc::vec::Vec;
use corank::{Priority, SharedHandle};
pub(crate) use corank_account::{Account, Charge};
use spin::Once;

/// What the allocator and a count of references add to a block at most, in bytes.
const BLOCK: usize = 32;

/// What the executor keeps for a coroutine beside its future, and queues and timers for what it
/// waits in, in bytes.
const COROUTINE: usize = 144;

/// What the kernel may use beside what is charged, in bytes: the requests of its services, and
/// their answers.
const OWN: usize = 1 << 20;

static ROOT: Once<Arc<Account>> = Once::new();

/// Returns the account above those of all processes.
///
/// Its first use is when the first process begins. What the heap then has left is what programs can
/// be served with from then on, less a sixteenth, for what the executor keeps of coroutines that
/// are gone.
pub(crate) fn root() -> &'static Arc<Account> {
    ROOT.call_once(|| {
        let room = heap::room();
        Account::root((room - room / 16).saturating_sub(OWN.min(room / 4)))
    })
}

/// Returns what an object of its own block costs, in bytes.
pub(crate) const fn of<T>() -> usize {
    size_of::<T>() + BLOCK
}

/// Returns what a coroutine with a future of this type costs, in bytes.
const fn of_coroutine<F>() -> usize {
    of::<F>() + COROUTINE
}

/// Reserves so many bytes in an account and those above it.
///
/// # Errors
/// When one of them has reached its limit, or the kernel's heap is in too small pieces.
pub(crate) fn charge(account: &Arc<Account>, bytes: usize) -> Result<Charge, OutOfMemory> {
    check()?;
    account.charge(bytes)
}

/// Reserves so many bytes more for the same object.
///
/// # Errors
/// As [`charge`].
pub(super) fn grow(
    charge: &mut Charge,
    account: &Arc<Account>,
    bytes: usize,
) -> Result<(), OutOfMemory> {
    if charge.account().is_none() {
        *charge = self::charge(account, bytes)?;
        return Ok(());
    }
    check()?;
    charge.grow(bytes)
}

#[inline]
fn check() -> Result<(), OutOfMemory> {
    if fault::fails_allocation() {
        return Err(OutOfMemory);
    }
    if heap::is_reserve_intact() {
        return Ok(());
    }
    trim();
    heap::is_reserve_intact().then_some(()).ok_or(OutOfMemory)
}

/// Gives back what the executor keeps of coroutines that are gone.
#[cold]
fn trim() {
    executor::executor().trim();
}

/// Makes room for so many more items than there are, no less and no more.
///
/// # Errors
/// When the heap has no block of that size.
pub(crate) fn make_room<T>(items: &mut Vec<T>, more: usize) -> Result<(), OutOfMemory> {
    if items.try_reserve_exact(more).is_ok() {
        return Ok(());
    }
    trim();
    items.try_reserve_exact(more).map_err(|_| OutOfMemory)
}

/// Returns a buffer of so many zeros.
///
/// It is not charged.
///
/// # Errors
/// When the heap has no block of that size.
pub(crate) fn buffer(length: usize) -> Result<Vec<u8>, OutOfMemory> {
    let mut bytes = Vec::new();
    make_room(&mut bytes, length)?;
    bulk::append_zeros(&mut bytes, length);
    Ok(bytes)
}

/// Makes a coroutine whose future `make` makes, which keeps the charge that it is given.
///
/// That is for the coroutine and so many bytes more.
///
/// # Errors
/// When there is no memory for it. What `make` has captured is dropped.
#[inline(always)]
pub(crate) fn spawn<F>(
    account: &Arc<Account>,
    priority: Priority,
    more: usize,
    make: impl FnOnce(Charge) -> F,
) -> Result<SharedHandle<F::Output>, OutOfMemory>
where
    F: Future<Output: Send> + Send + 'static,
{
    let charge = charge(account, of_coroutine::<F>() + more)?;
    executor::executor()
        .spawn_with(priority, || make(charge))
        .map_err(|_| OutOfMemory)
}
