use corank_macros::async_fn;

#[async_fn(READ, undo = UNREAD(file))]
pub fn read(file: usize, buffer: &mut [u8]) -> Result<usize, Error>;

fn main() {}
