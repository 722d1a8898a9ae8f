//! Which break holds now.

use core::sync::atomic::{AtomicUsize, Ordering};

static CHOSEN: AtomicUsize = AtomicUsize::new(usize::MAX);
static REACHED: AtomicUsize = AtomicUsize::new(0);

/// Lets the break with this number in [`BREAKS`](crate::BREAKS) hold in the whole process, or none.
pub fn choose(number: Option<usize>) {
    CHOSEN.store(number.unwrap_or(usize::MAX), Ordering::Relaxed);
    REACHED.store(0, Ordering::Relaxed);
}

/// Returns how often the place of the chosen break was reached.
pub fn reached() -> usize {
    REACHED.load(Ordering::Relaxed)
}

/// Tests whether the break with this number holds; called at its place.
pub(crate) fn is(number: usize) -> bool {
    let is_chosen = CHOSEN.load(Ordering::Relaxed) == number;
    if is_chosen {
        REACHED.fetch_add(1, Ordering::Relaxed);
    }
    is_chosen
}
