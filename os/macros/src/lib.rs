//! One declaration of a system call gives both of its forms (COPS, section 4.3.1): see
//! [`macro@async_fn`].

use proc_macro::TokenStream;

mod declaration;
mod expansion;

/// Declares a system call that can wait, for threads and for coroutines.
///
/// ```ignore
/// /// Reads into `buffer`.
/// #[async_fn(READ)]
/// pub fn read(file: usize, buffer: &mut [u8]) -> Result<usize, Error>;
/// ```
///
/// declares
///
/// - the function `read`, which makes the call and blocks the thread;
/// - the function `read_async` with the same parameters, which returns an `AsyncCall`: a future
///   that blocks the coroutine alone. Where the blocking form borrows a buffer, this one owns it,
///   and gives it back with the result;
/// - the macro `read!`, in which the two differ by their parameters alone: `read!(file, buffer)`
///   blocks the thread, `read!(file, buffer, key, cid)` is the future. `key` is the number by which
///   both sides, kernel and process, know the call, and `cid` the coroutine that is woken when it
///   is done: the call is served at the live level of that coroutine.
///
/// # What can be declared
/// The attribute names the number of the call, a constant of `corank_abi::call`. There are up to
/// three arguments, as many as a call has registers. Each is a `usize`, or the memory that the call
/// works on, of which there is at most one. It stands in the second place, where the kernel expects
/// it:
///
/// | parameter | registers | owned by the asynchronous form as | comes back as |
/// |---|---|---|---|
/// | `usize` | the number | the number | |
/// | `&[u8]` | address and length | `Vec<u8>` | the same vector |
/// | `&mut [u8]` | address and capacity | `Vec<u8>` | the vector, as long as what was read |
/// | `&mut i32` | address | nothing: the future has room for it | the number |
///
/// A call that is declared `unsafe` is so in all its forms: the caller answers for what its
/// documentation says.
///
/// # Calls that can be undone
/// `#[async_fn(MUTEX_LOCK, undo = MUTEX_UNLOCK(mutex))]` names the call that takes the effect back,
/// and with which of the parameters. It is made when the future is dropped after the kernel has
/// completed the call and before the result has been seen: so a lock that no caller waits for any
/// more is free. Where one call does not suffice, `payload = Type` names a type that knows how, a
/// unit that implements `Payload`.
///
/// # Expansion
/// The declaration above becomes this (the test `a_declaration_expands_to_each_form` compares;
/// where `$crate` is the crate of the declaration):
///
/// ```ignore
#[doc = include_str!("../doc/read.rs")]
/// ```
#[proc_macro_attribute]
pub fn async_fn(attribute: TokenStream, item: TokenStream) -> TokenStream {
    declaration::Declaration::parse(attribute.into(), item.into())
        .map_or_else(
            |error| error.to_compile_error(),
            |call| expansion::expand(&call),
        )
        .into()
}

#[cfg(test)]
mod tests {
    use super::{declaration::Declaration, expansion};
    use quote::quote;

    /// The documentation shows what the macro really makes.
    #[test]
    fn a_declaration_expands_to_each_form() {
        let call = Declaration::parse(
            quote!(READ),
            quote! {
                /// Reads into `buffer`.
                pub fn read(file: usize, buffer: &mut [u8]) -> Result<usize, Error>;
            },
        )
        .unwrap();
        let file = syn::parse2(expansion::expand(&call)).unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/doc/read.rs");
        let expanded = prettyplease::unparse(&file);
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(path, &expanded).unwrap();
        }
        assert_eq!(
            expanded,
            std::fs::read_to_string(path).unwrap(),
            "BLESS=1 writes {path} anew"
        );
    }
}
