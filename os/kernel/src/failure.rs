//! What an operation on a file or a socket comes to.
use crate::memory::user::BadAddress;
use corank_abi::call::FAILED;

/// Why an operation failed: a negative number from [`corank_abi::error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure(pub isize);

/// What an operation returns.
pub(crate) type Result<T> = core::result::Result<T, Failure>;

/// The file is not for this use, as rCore-Tutorial-v3 says it.
pub(crate) const NOT_ALLOWED: Failure = Failure(FAILED);

/// What came of reading or writing: the number of bytes.
pub(crate) type Transferred = core::result::Result<Result<usize>, BadAddress>;
