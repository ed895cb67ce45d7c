//! `#[idempotent]`: an ordinary function becomes a handler, and stays an ordinary function.

use proc_macro2::TokenStream;
use quote::quote;

use crate::{facade::Facade, mistakes::Mistakes};

mod arguments;
mod duration;
mod elision;
mod expand;
mod field_path;
mod function;
mod key_source;
mod list;
mod scope;
mod sequence;
mod signature;
mod stand_in;
mod suggestion;

use arguments::Arguments;
use function::Function;
use signature::Signature;

/// Parse, check, expand.
pub(crate) fn expand(facade: Facade, arguments: TokenStream, item: &TokenStream) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let arguments = Arguments::parse(arguments, &mut mistakes);
    let root = facade.root(arguments.renamed.as_ref());
    let generated = match mistakes.keep(syn::parse2::<Function>(item.clone())) {
        Some(function) => beside(&root, &arguments, &function, &mut mistakes),
        None => TokenStream::new(),
    };
    // A handler is `async` whether or not it awaits something.
    let attribute = mistakes
        .is_empty()
        .then(|| quote!(#[allow(clippy::unused_async)]));
    let errors = mistakes.into_compile_errors();
    quote!(#errors #attribute #item #generated)
}

/// What stands beside the function, which itself is emitted as it is: the handler, or what keeps
/// its users from reporting further errors.
fn beside(
    root: &TokenStream,
    arguments: &Arguments,
    function: &Function,
    mistakes: &mut Mistakes,
) -> TokenStream {
    let signature = Signature::check(function, mistakes);
    arguments.check(function, signature.as_ref(), mistakes);
    match signature {
        Some(signature) if mistakes.is_empty() => {
            expand::handler(root, arguments, function, &signature)
        }
        _ => stand_in::handler(root, function),
    }
}
