use corank_macros::async_fn;

#[async_fn(READ)]
pub fn read(file: usize, key: usize) -> Result<usize, Error>;

fn main() {}
