use corank_macros::async_fn;

#[async_fn(READ)]
pub fn read(file: usize) -> Result<usize, Error> {
    Ok(file)
}

fn main() {}
