use corank_macros::async_fn;

#[async_fn(READ, cancel = CLOSE(file))]
pub fn read(file: usize) -> Result<usize, Error>;

fn main() {}
