//! The attributes of `corank-mcu`.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Error, Expr, FnArg, ItemFn, MetaNameValue, Token, parse_macro_input};

/// What the attributes take.
#[derive(Default)]
struct Arguments {
    level: Option<Expr>,
    pool_size: Option<Expr>,
    entry: Option<Expr>,
}

impl Arguments {
    fn parse(tokens: TokenStream, known: &[&str]) -> syn::Result<Self> {
        let pairs = Punctuated::<MetaNameValue, Token![,]>::parse_terminated.parse(tokens)?;
        let mut arguments = Self::default();
        for pair in pairs {
            let name = pair.path.require_ident()?.to_string();
            if !known.contains(&name.as_str()) {
                let known = known.join("`, `");
                return Err(Error::new_spanned(
                    &pair.path,
                    format!("unknown argument: use `{known}`"),
                ));
            }
            match name.as_str() {
                "level" => arguments.level = Some(pair.value),
                "pool_size" => arguments.pool_size = Some(pair.value),
                _ => arguments.entry = Some(pair.value),
            }
        }
        Ok(arguments)
    }
}

/// Makes a task of an `async fn`: its memory is static and has the size of its future.
///
/// The function then returns a `Result<Token<_>, SpawnError>` at once: an error if all its memory
/// is in use. `#[task(pool_size = 4)]` has memory for four at a time, and `level = 3` sets the
/// level.
#[proc_macro_attribute]
pub fn task(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let function = parse_macro_input!(item as ItemFn);
    let arguments = match Arguments::parse(arguments, &["level", "pool_size"]) {
        Ok(arguments) => arguments,
        Err(error) => return error.into_compile_error().into(),
    };
    expand_task(&arguments, function)
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

fn check(function: &ItemFn) -> syn::Result<()> {
    let signature = &function.sig;
    if signature.asyncness.is_none() {
        return Err(Error::new_spanned(
            signature.fn_token,
            "a task is an `async fn`",
        ));
    }
    if !signature.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &signature.generics,
            "a task has static memory, so it has no generic parameters",
        ));
    }
    Ok(())
}

fn expand_task(arguments: &Arguments, function: ItemFn) -> syn::Result<Tokens> {
    check(&function)?;
    let pool_size = match &arguments.pool_size {
        Some(size) => quote!({ #size }),
        None => quote!(1),
    };
    let level = arguments
        .level
        .as_ref()
        .map(|level| quote!(.map(|token| token.at(::corank_mcu::Priority::at::<{ #level }>()))));
    let ItemFn {
        attrs,
        vis,
        sig,
        block,
    } = function;
    let (name, output, inputs) = (&sig.ident, &sig.output, &sig.inputs);
    let (mut outer, mut names, mut types) = (Vec::new(), Vec::new(), Vec::new());
    for (at, input) in inputs.iter().enumerate() {
        let FnArg::Typed(argument) = input else {
            return Err(Error::new_spanned(input, "a task is no method"));
        };
        let (name, kind) = (format_ident!("argument{at}"), &argument.ty);
        outer.push(quote!(#name: #kind));
        names.push(name);
        types.push(kind);
    }
    let output_type = match output {
        syn::ReturnType::Default => quote!(()),
        syn::ReturnType::Type(_, output) => quote!(#output),
    };
    Ok(quote! {
        #(#attrs)*
        #vis fn #name(#(#outer),*) -> ::core::result::Result<
            ::corank_mcu::Token<impl ::core::future::Future<Output = #output_type> + 'static>,
            ::corank_mcu::SpawnError,
        > {
            async fn run(#inputs) #output #block
            type Arguments = (#(#types,)*);
            const POOL_SIZE: usize = #pool_size;
            static MEMORY: ::corank_mcu::pool::Memory<
                { ::corank_mcu::pool::size::<_, Arguments, POOL_SIZE>(run) },
                { ::corank_mcu::pool::align::<_, Arguments>(run) },
            > = ::corank_mcu::pool::Memory::new();
            // SAFETY: size and alignment are those of this function and number.
            unsafe {
                MEMORY.claim::<_, Arguments, POOL_SIZE>(run, move || run(#(#names),*))
            } #level
        }
    })
}

/// Makes the program's start of an `async fn`, which is the first task.
///
/// It takes a `Spawner`, and may return: the other tasks go on. `level = 3` sets its level, and
/// `entry = path` names the attribute of another runtime crate than `cortex_m_rt::entry` or
/// `riscv_rt::entry`.
#[proc_macro_attribute]
pub fn main(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let function = parse_macro_input!(item as ItemFn);
    let arguments = match Arguments::parse(arguments, &["level", "entry"]) {
        Ok(arguments) => arguments,
        Err(error) => return error.into_compile_error().into(),
    };
    expand_main(&arguments, function)
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

fn expand_main(arguments: &Arguments, mut function: ItemFn) -> syn::Result<Tokens> {
    check(&function)?;
    let entry = match &arguments.entry {
        Some(entry) => quote!(#[#entry]),
        None => quote! {
            #[cfg_attr(target_arch = "arm", ::cortex_m_rt::entry)]
            #[cfg_attr(target_arch = "riscv32", ::riscv_rt::entry)]
        },
    };
    let spawner = match function.sig.inputs.len() {
        0 => quote!(),
        1 => quote!(spawner),
        _ => {
            return Err(Error::new_spanned(
                &function.sig.inputs,
                "`main` takes a `Spawner`, or nothing",
            ));
        }
    };
    let name = core::mem::replace(&mut function.sig.ident, format_ident!("corank_main"));
    let attribute = arguments
        .level
        .as_ref()
        .map(|level| quote!((level = #level)));
    Ok(quote! {
        #[::corank_mcu::task #attribute]
        #function

        #entry
        fn #name() -> ! {
            struct Here(::corank_mcu::Executor);
            // SAFETY: this function alone refers to it, and it runs once.
            unsafe impl ::core::marker::Sync for Here {}
            static EXECUTOR: Here = Here(::corank_mcu::Executor::new());
            EXECUTOR.0.run(|spawner| {
                let _ = spawner;
                if let Ok(token) = corank_main(#spawner) {
                    spawner.spawn(token);
                }
            })
        }
    })
}
