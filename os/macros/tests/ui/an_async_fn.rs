use corank_macros::async_fn;

#[async_fn(READ)]
pub async fn read(file: usize) -> Result<usize, Error>;

fn main() {}
