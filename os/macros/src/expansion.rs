//! What the compiler gets instead.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::declaration::{Declaration, Kind, Parameter, Undo};

/// Expands to both functions and the macro of a call.
pub(crate) fn expand(declaration: &Declaration) -> TokenStream {
    let blocking = blocking(declaration);
    let asynchronous = asynchronous(declaration);
    let macro_form = macro_form(declaration);
    quote! {
        #blocking
        #asynchronous
        #macro_form
    }
}

fn blocking(declaration: &Declaration) -> TokenStream {
    let Declaration {
        call,
        attributes,
        visibility,
        safety,
        name,
        parameters,
        output,
        ..
    } = declaration;
    let inputs = parameters.iter().map(|Parameter { name, kind }| {
        let ty = match kind {
            Kind::Number => quote!(usize),
            Kind::Data => quote!(&[u8]),
            Kind::Room => quote!(&mut [u8]),
            Kind::Code => quote!(&mut i32),
        };
        quote!(#name: #ty)
    });
    let arguments = parameters
        .iter()
        .flat_map(|Parameter { name, kind }| match kind {
            Kind::Number => vec![quote!(#name)],
            Kind::Data => vec![
                quote!(#name.as_ptr().expose_provenance()),
                quote!(#name.len()),
            ],
            Kind::Room => vec![
                quote!(#name.as_mut_ptr().expose_provenance()),
                quote!(#name.len()),
            ],
            Kind::Code => vec![quote!(::core::ptr::from_mut(#name).expose_provenance())],
        });
    let arguments = arguments.chain(std::iter::repeat(quote!(0))).take(3);
    let made = if parameters.iter().all(|one| one.kind == Kind::Number) {
        quote!(crate::raw::number_call(#call, arguments))
    } else {
        // Sound: the call writes to no other memory than what a parameter gives it exclusively
        // until it returns.
        quote!(crate::raw::check(unsafe { crate::raw::system_call(#call, arguments) }))
    };
    quote! {
        #(#attributes)*
        ///
        /// Blocks the calling thread.
        #visibility #safety fn #name(#(#inputs),*) -> #output {
            let arguments = [#(#arguments),*];
            #made
        }
    }
}

fn asynchronous(declaration: &Declaration) -> TokenStream {
    let Declaration {
        call,
        attributes,
        visibility,
        safety,
        name,
        parameters,
        undo,
        ..
    } = declaration;
    let name = format_ident!("{name}_async");
    let memory = parameters.iter().find(|one| one.kind != Kind::Number);
    let (payload, value) = match (memory, undo) {
        (Some(Parameter { name, kind }), _) => match kind {
            Kind::Room => (
                quote!(crate::ring::Fill),
                quote!(crate::ring::Fill::new(#name)),
            ),
            Kind::Data => (
                quote!(crate::ring::Data),
                quote!(crate::ring::Data::new(#name)),
            ),
            Kind::Code | Kind::Number => {
                (quote!(crate::ring::Code), quote!(crate::ring::Code::new()))
            }
        },
        (None, Undo::Call { call, argument }) => (
            quote!(crate::ring::Undo<{ #call }, #argument>),
            quote!(crate::ring::Undo),
        ),
        (None, Undo::Payload(payload)) => (quote!(#payload), quote!(#payload)),
        (None, Undo::Never) => (quote!(crate::ring::Plain), quote!(crate::ring::Plain)),
    };
    let inputs = parameters
        .iter()
        .filter_map(|Parameter { name, kind }| match kind {
            Kind::Number => Some(quote!(#name: usize)),
            Kind::Data | Kind::Room => Some(quote!(#name: ::alloc::vec::Vec<u8>)),
            Kind::Code => None,
        });
    let arguments = parameters
        .iter()
        .map(|Parameter { name, kind }| match kind {
            Kind::Number => quote!(#name),
            _ => quote!(0),
        });
    let arguments = arguments.chain(std::iter::repeat(quote!(0))).take(3);
    quote! {
        #(#attributes)*
        ///
        /// Blocks the coroutine that awaits it, and is cancelled when it is dropped: see
        /// [`crate::ring`].
        #visibility #safety fn #name(#(#inputs),*) -> crate::ring::AsyncCall<#payload> {
            crate::ring::AsyncCall::new(#call, [#(#arguments),*], #value)
        }
    }
}

fn macro_form(declaration: &Declaration) -> TokenStream {
    let Declaration {
        attributes,
        name,
        parameters,
        ..
    } = declaration;
    let asynchronous = format_ident!("{name}_async");
    let names: Vec<_> = parameters.iter().map(|one| &one.name).collect();
    // What the kernel writes for the asynchronous form is part of the future.
    let owned: Vec<_> = parameters
        .iter()
        .filter(|one| one.kind != Kind::Code)
        .map(|one| &one.name)
        .collect();
    let forms = |names: &[&syn::Ident]| {
        names
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let usage = format!(
        "`{name}!({})` blocks the thread, `{name}!({}, key, cid)` the coroutine",
        forms(&names),
        forms(&owned)
    );
    quote! {
        #(#attributes)*
        ///
        #[doc = #usage]
        #[macro_export]
        macro_rules! #name {
            (#($#names:expr),* $(,)?) => {
                $crate::calls::#name(#($#names),*)
            };
            (#($#owned:expr,)* $key:expr, $cid:expr $(,)?) => {
                $crate::calls::#asynchronous(#($#owned),*).named($key, $cid)
            };
            ($($other:tt)*) => {
                ::core::compile_error!(#usage)
            };
        }
    }
}
