use corank_macros::async_fn;

#[async_fn(READ)]
pub unsafe fn read(file: usize) -> Result<usize, Error>;

fn main() {}
