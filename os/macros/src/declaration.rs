//! What stands in the program: the declaration of one call, checked.

use proc_macro2::{Span, TokenStream};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{
    Attribute, Block, Error, FnArg, Ident, Pat, Path, Result, ReturnType, Signature, Token, Type,
    Visibility, parenthesized,
};

/// Registers that the arguments of a call have.
const REGISTERS: usize = 3;

/// One declared call.
pub(crate) struct Declaration {
    /// Number of the call: a constant.
    pub(crate) call: Path,
    /// How its effect is taken back.
    pub(crate) undo: Undo,
    /// Documentation and the like.
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    /// `unsafe`, where the caller answers for more than the types say.
    pub(crate) safety: Option<Token![unsafe]>,
    pub(crate) name: Ident,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) output: Type,
}

/// How the unseen effect of a call is taken back.
pub(crate) enum Undo {
    /// Not at all.
    Never,
    /// `undo = CALL(parameter)`: by another call.
    Call {
        call: Path,
        /// The parameter's place.
        argument: usize,
    },
    /// `payload = Type`: as this type says, which is a unit.
    Payload(Path),
}

/// One parameter.
pub(crate) struct Parameter {
    pub(crate) name: Ident,
    pub(crate) kind: Kind,
}

/// What a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `usize`
    Number,
    /// `&[u8]`
    Data,
    /// `&mut [u8]`
    Room,
    /// `&mut i32`
    Code,
}

impl Kind {
    fn of(ty: &Type) -> Option<Kind> {
        let text = |ty: &Type| quote::quote!(#ty).to_string().replace(' ', "");
        match text(ty).as_str() {
            "usize" => Some(Kind::Number),
            "&[u8]" => Some(Kind::Data),
            "&mut[u8]" => Some(Kind::Room),
            "&muti32" => Some(Kind::Code),
            _ => None,
        }
    }

    fn registers(self) -> usize {
        match self {
            Kind::Number | Kind::Code => 1,
            Kind::Data | Kind::Room => 2,
        }
    }
}

impl Declaration {
    pub(crate) fn parse(attribute: TokenStream, item: TokenStream) -> Result<Self> {
        let Settings { call, option } = syn::parse2(attribute)?;
        let Item {
            attributes,
            visibility,
            signature,
        } = syn::parse2(item)?;
        refuse_what_a_call_is_not(&signature)?;
        let output = match &signature.output {
            ReturnType::Type(_, output) if is_result(output) => (**output).clone(),
            output => {
                return Err(Error::new(
                    spot(output, &signature.ident),
                    "a call returns `Result<usize, Error>`",
                ));
            }
        };
        let parameters = parameters(&signature)?;
        let memory = parameters.iter().find(|one| one.kind != Kind::Number);
        let undo = match (option, memory) {
            (None, _) => Undo::Never,
            (Some(option), Some(memory)) => {
                return Err(Error::new(
                    option.span(),
                    format!(
                        "a call that works on memory (`{}`) can't be undone",
                        memory.name
                    ),
                ));
            }
            (Some(UndoOption::Payload(payload)), None) => Undo::Payload(payload),
            (Some(UndoOption::Call(call, name)), None) => {
                let place = parameters.iter().position(|one| one.name == name);
                let argument = place.ok_or_else(|| {
                    Error::new(name.span(), format!("the call has no parameter `{name}`"))
                })?;
                Undo::Call { call, argument }
            }
        };
        Ok(Self {
            call,
            undo,
            attributes,
            visibility,
            safety: signature.unsafety,
            name: signature.ident,
            parameters,
            output,
        })
    }
}

/// `CALL`, alone or followed by an option.
struct Settings {
    call: Path,
    option: Option<UndoOption>,
}

/// What may follow the number of a call.
enum UndoOption {
    /// `undo = CALL(parameter)`
    Call(Path, Ident),
    /// `payload = Type`
    Payload(Path),
}

impl UndoOption {
    fn span(&self) -> Span {
        match self {
            UndoOption::Call(path, _) | UndoOption::Payload(path) => path.span(),
        }
    }
}

impl Parse for UndoOption {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let option: Ident = input.parse()?;
        input.parse::<Token![=]>()?;
        let path = input.parse()?;
        if option == "payload" {
            return Ok(Self::Payload(path));
        }
        if option != "undo" {
            return Err(Error::new(
                option.span(),
                format!(
                    "there is no option `{option}`: write `undo = CALL(parameter)` or `payload = Type`"
                ),
            ));
        }
        let argument;
        parenthesized!(argument in input);
        Ok(Self::Call(path, argument.parse()?))
    }
}

impl Parse for Settings {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.is_empty() {
            return Err(Error::new(
                Span::call_site(),
                "name the number of the call: `#[async_fn(READ)]`",
            ));
        }
        let call = input.parse()?;
        let comma = input.parse::<Option<Token![,]>>()?;
        let option = if comma.is_some() && !input.is_empty() {
            Some(input.parse()?)
        } else {
            None
        };
        input.parse::<Option<Token![,]>>()?;
        if !input.is_empty() {
            return Err(input.error("nothing is expected here"));
        }
        Ok(Self { call, option })
    }
}

/// `/// … pub fn name(…) -> …;`
struct Item {
    attributes: Vec<Attribute>,
    visibility: Visibility,
    signature: Signature,
}

impl Parse for Item {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attributes = Attribute::parse_outer(input)?;
        let visibility = input.parse()?;
        if !input.peek(Token![fn])
            && !input.peek(Token![async])
            && !input.peek(Token![unsafe])
            && !input.peek(Token![const])
            && !input.peek(Token![extern])
        {
            return Err(input.error("`#[async_fn]` declares a function: `pub fn name(…) -> …;`"));
        }
        let signature = input.parse()?;
        if input.peek(syn::token::Brace) {
            let body: Block = input.parse()?;
            return Err(Error::new(
                body.span(),
                "a call is declared, not defined: end it with `;`",
            ));
        }
        input.parse::<Token![;]>()?;
        Ok(Self {
            attributes,
            visibility,
            signature,
        })
    }
}

fn refuse_what_a_call_is_not(signature: &Signature) -> Result<()> {
    let refuse = |span: Span, why: &str| Err(Error::new(span, why));
    if let Some(word) = &signature.asyncness {
        return refuse(
            word.span(),
            "both forms come from one declaration: leave `async` away",
        );
    }
    if let Some(word) = &signature.constness {
        return refuse(word.span(), "a call can't be made at build time");
    }
    if let Some(word) = &signature.abi {
        return refuse(word.span(), "the calling convention is that of the kernel");
    }
    if !signature.generics.params.is_empty() {
        return refuse(signature.generics.span(), "a call has no type parameters");
    }
    Ok(())
}

fn is_result(ty: &Type) -> bool {
    quote::quote!(#ty).to_string().replace(' ', "") == "Result<usize,Error>"
}

/// Returns where to point at: what is there, or else the name.
fn spot(there: &ReturnType, name: &Ident) -> Span {
    match there {
        ReturnType::Default => name.span(),
        ReturnType::Type(..) => there.span(),
    }
}

fn parameters(signature: &Signature) -> Result<Vec<Parameter>> {
    let mut parameters = Vec::new();
    let mut registers = 0;
    for (place, input) in signature.inputs.iter().enumerate() {
        let FnArg::Typed(typed) = input else {
            return Err(Error::new(
                input.span(),
                "a call is a function, not a method",
            ));
        };
        let Pat::Ident(name) = &*typed.pat else {
            return Err(Error::new(typed.pat.span(), "a parameter has a plain name"));
        };
        let Some(kind) = Kind::of(&typed.ty) else {
            return Err(Error::new(
                typed.ty.span(),
                format!(
                    "`{}` has to be a `usize`, or memory to work on: `&[u8]`, `&mut [u8]` or `&mut i32`",
                    name.ident
                ),
            ));
        };
        if name.ident == "key" || name.ident == "cid" {
            return Err(Error::new(
                name.span(),
                format!(
                    "`{}` is what the asynchronous form adds by itself",
                    name.ident
                ),
            ));
        }
        if kind != Kind::Number && place != 1 {
            return Err(Error::new(
                typed.span(),
                "the memory that a call works on is its second argument",
            ));
        }
        registers += kind.registers();
        if registers > REGISTERS {
            return Err(Error::new(
                typed.span(),
                format!("a call has {REGISTERS} registers for its arguments; a slice takes two"),
            ));
        }
        parameters.push(Parameter {
            name: name.ident.clone(),
            kind,
        });
    }
    Ok(parameters)
}
