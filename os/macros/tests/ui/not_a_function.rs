use corank_macros::async_fn;

#[async_fn(READ)]
pub struct Read;

fn main() {}
