use corank_macros::async_fn;

mod raw {
    pub struct Error;

    pub fn number_call(_number: usize, _arguments: [usize; 3]) -> Result<usize, Error> {
        Ok(0)
    }
}

mod ring {
    pub struct Plain;

    pub struct AsyncCall<P>(P);

    impl<P> AsyncCall<P> {
        pub fn new(_number: usize, _arguments: [usize; 3], payload: P) -> Self {
            Self(payload)
        }
    }
}

use raw::Error;

const UNLOCK: usize = 1;

#[async_fn(UNLOCK)]
pub unsafe fn unlock(mutex: usize) -> Result<usize, Error>;

fn main() {
    let _ = unlock(0);
    let _ = unlock_async(0);
}
