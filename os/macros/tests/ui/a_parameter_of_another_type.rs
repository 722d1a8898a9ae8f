use corank_macros::async_fn;

#[async_fn(READ)]
pub fn read(file: usize, buffer: &mut Vec<u8>) -> Result<usize, Error>;

fn main() {}
