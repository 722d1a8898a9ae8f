//! C's calling convention for what the engine calls of its users.
//!
//! Where panics come back (`std`) they may pass through such a call. Elsewhere a panic is the end, and the compiler need
//! not guard the calls against one.

/// The type of such a function.
#[cfg(feature = "std")]
macro_rules! c_fn {
    (($($argument:ty),*) $(-> $result:ty)?) => { unsafe extern "C-unwind" fn($($argument),*) $(-> $result)? };
}

/// The type of such a function.
#[cfg(not(feature = "std"))]
macro_rules! c_fn {
    (($($argument:ty),*) $(-> $result:ty)?) => { unsafe extern "C" fn($($argument),*) $(-> $result)? };
}

/// Such a function.
#[cfg(feature = "std")]
macro_rules! define_c_fn {
    ($(#[$about:meta])* fn $name:ident$([$($generic:ident),+])?($($argument:ident: $type:ty),*) $(-> $result:ty)? $body:block) => {
        $(#[$about])*
        unsafe extern "C-unwind" fn $name$(<$($generic),+>)?($($argument: $type),*) $(-> $result)? $body
    };
}

/// Such a function.
#[cfg(not(feature = "std"))]
macro_rules! define_c_fn {
    ($(#[$about:meta])* fn $name:ident$([$($generic:ident),+])?($($argument:ident: $type:ty),*) $(-> $result:ty)? $body:block) => {
        $(#[$about])*
        unsafe extern "C" fn $name$(<$($generic),+>)?($($argument: $type),*) $(-> $result)? $body
    };
}

pub(crate) use {c_fn, define_c_fn};
