use corank_macros::async_fn;

#[async_fn]
pub fn read(file: usize) -> Result<usize, Error>;

fn main() {}
