use corank_macros::async_fn;

#[async_fn(READ)]
pub fn read(buffer: &mut [u8], file: usize) -> Result<usize, Error>;

fn main() {}
