use corank_macros::async_fn;

#[async_fn(READ)]
pub fn read(file: usize, buffer: &mut [u8], offset: usize) -> Result<usize, Error>;

fn main() {}
