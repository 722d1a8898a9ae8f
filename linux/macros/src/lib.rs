//! The attributes of `corank-linux`: a function that is a runtime's first coroutine.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprPath, ItemFn, LitStr, Path, Token, parse_macro_input};

/// Runs an `async fn main()` as the first coroutine of a new runtime, which ends with it.
///
/// - `workers = 4`: the number of threads, by default one for each processor.
/// - `priority = 8`: the level of the coroutine, 0 to 63, by default the one in the middle.
/// - `name = "server"`: the name of its threads.
/// - `tokio`: whatever needs tokio works, with the crate's feature `tokio`. The tasks of
///   `tokio::spawn` have the level in the middle, or that of `tokio = 40`.
/// - `crate = path`: the path of the crate, if it has another name.
///
/// The function may do what any coroutine may. It runs on the thread that calls it, so neither its
/// future nor its output need be `Send`. A worker hands each of its polls to that thread: see
/// `Runtime::block_on`.
///
/// ```ignore
/// #[corank_linux::main(workers = 2, name = "server")]
/// async fn main() -> std::io::Result<()> {
///     Ok(())
/// }
/// ```
#[proc_macro_attribute]
pub fn main(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let arguments = parse_macro_input!(arguments as Arguments);
    expand(arguments, parse_macro_input!(item as ItemFn), false).into()
}

/// Runs an `async fn` as a test, in a runtime of its own.
///
/// Takes the arguments of [`main`](macro@main); by default there is one worker.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let arguments = parse_macro_input!(arguments as Arguments);
    expand(arguments, parse_macro_input!(item as ItemFn), true).into()
}

#[derive(Default)]
struct Arguments {
    workers: Option<Expr>,
    priority: Option<Expr>,
    name: Option<LitStr>,
    /// Set if tokio is to be hosted; then the level of its tasks, if that is named.
    tokio: Option<Option<Expr>>,
    corank_linux: Option<Path>,
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut arguments = Self::default();
        while !input.is_empty() {
            let name = input.call(<syn::Ident as syn::ext::IdentExt>::parse_any)?;
            if name == "tokio" && !input.peek(Token![=]) {
                arguments.tokio = Some(None);
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
                continue;
            }
            input.parse::<Token![=]>()?;
            match name.to_string().as_str() {
                "tokio" => arguments.tokio = Some(Some(input.parse()?)),
                "workers" => arguments.workers = Some(input.parse()?),
                "priority" => arguments.priority = Some(input.parse()?),
                "name" => arguments.name = Some(input.parse()?),
                "crate" => arguments.corank_linux = Some(input.parse::<ExprPath>()?.path),
                _ => {
                    return Err(Error::new(
                        name.span(),
                        "there are `workers`, `priority`, `name`, `tokio` and `crate`",
                    ));
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(arguments)
    }
}

fn expand(arguments: Arguments, mut function: ItemFn, is_test: bool) -> Tokens {
    let signature = &function.sig;
    if signature.asyncness.is_none() {
        let message = "this attribute is for an `async fn`";
        return Error::new(signature.fn_token.span(), message).to_compile_error();
    }
    if !signature.inputs.is_empty() || !signature.generics.params.is_empty() {
        let message = "this function cannot have arguments";
        return Error::new(signature.inputs.span(), message).to_compile_error();
    }
    function.sig.asyncness = None;
    let corank_linux = arguments
        .corank_linux
        .map_or_else(|| quote!(::corank_linux), |path| quote!(#path));
    let workers = (arguments.workers.map(|workers| quote!(.workers(#workers))))
        .or_else(|| is_test.then(|| quote!(.workers(1))));
    let name = arguments.name.map(|name| quote!(.name(#name)));
    let level = |level: Option<Expr>, name: &str| {
        let message = format!("{name} = a level from 0 to 63");
        level.map_or_else(
            || quote!(#corank_linux::Priority::DEFAULT),
            |level| quote!(#corank_linux::Priority::new(#level).expect(#message)),
        )
    };
    let priority = level(arguments.priority, "priority");
    let tokio = arguments.tokio.map(|chosen| {
        let level = level(chosen, "tokio");
        quote!(.tokio(#level))
    });
    let test = is_test.then(|| quote!(#[::core::prelude::v1::test]));
    let (attributes, visibility, signature) = (&function.attrs, &function.vis, &function.sig);
    let (body, inner) = (&function.block, format_ident!("body"));
    // Errors of the future point to the function.
    let run = quote_spanned! {function.sig.ident.span()=>
        #corank_linux::Runtime::builder()#workers #name #tokio
            .build()
            .expect("a runtime needs a few descriptors and threads")
            .block_on_at(#priority, #inner)
    };
    quote! {
        #test
        #(#attributes)*
        #visibility #signature {
            let #inner = async #body;
            #run
        }
    }
}
