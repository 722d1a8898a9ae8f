/// Reads into `buffer`.
///
/// Blocks the calling thread.
pub fn read(file: usize, buffer: &mut [u8]) -> Result<usize, Error> {
    let arguments = [file, buffer.as_mut_ptr().expose_provenance(), buffer.len()];
    crate::raw::check(unsafe { crate::raw::system_call(READ, arguments) })
}
/// Reads into `buffer`.
///
/// Blocks the coroutine that awaits it, and is cancelled when it is dropped: see
/// [`crate::ring`].
pub fn read_async(
    file: usize,
    buffer: ::alloc::vec::Vec<u8>,
) -> crate::ring::AsyncCall<crate::ring::Fill> {
    crate::ring::AsyncCall::new(READ, [file, 0, 0], crate::ring::Fill::new(buffer))
}
/// Reads into `buffer`.
///
///`read!(file, buffer)` blocks the thread, `read!(file, buffer, key, cid)` the coroutine
#[macro_export]
macro_rules! read {
    ($file:expr, $buffer:expr $(,)?) => {
        $crate::calls::read($file, $buffer)
    };
    ($file:expr, $buffer:expr, $key:expr, $cid:expr $(,)?) => {
        $crate::calls::read_async($file, $buffer).named($key, $cid)
    };
    ($($other:tt)*) => {
        ::core::compile_error!("`read!(file, buffer)` blocks the thread, `read!(file, buffer, key, cid)` the coroutine")
    };
}
