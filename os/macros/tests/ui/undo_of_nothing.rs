use corank_macros::async_fn;

#[async_fn(MUTEX_LOCK, undo = MUTEX_UNLOCK(lock))]
pub fn lock(mutex: usize) -> Result<usize, Error>;

fn main() {}
