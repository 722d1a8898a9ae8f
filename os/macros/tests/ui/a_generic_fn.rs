use corank_macros::async_fn;

#[async_fn(READ)]
pub fn read<T>(file: usize) -> Result<usize, Error>;

fn main() {}
