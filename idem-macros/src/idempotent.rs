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
mod scope;
mod signature;
mod suggestion;

use arguments::Arguments;
use function::Function;
use signature::Signature;

/// Parse, check, expand. With a mistake the function is emitted all the same, so that its callers
/// still resolve and the mistake is all that rustc reports.
pub(crate) fn expand(facade: Facade, arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let arguments = Arguments::parse(arguments, &mut mistakes);
    let root = facade.root(arguments.renamed.as_ref());

    let handler = mistakes.keep(syn::parse2::<Function>(item.clone()));
    let handler = handler.and_then(|function| {
        let signature = Signature::check(&function, &mut mistakes);
        arguments.check(&function, signature.as_ref(), &mut mistakes);
        Some((function, signature?))
    });

    match (mistakes.finish(), handler) {
        (Ok(()), Some((function, signature))) => {
            let impls = expand::handler(&root, &arguments, &function, &signature);
            quote!(#item #impls)
        }
        (Ok(()), None) => item,
        (Err(errors), _) => quote!(#errors #item),
    }
}
