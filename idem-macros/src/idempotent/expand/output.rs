//! The handler's return type taken apart, aliases of `Result` included.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{GenericArgument, PathArguments, Type};

/// `type Output` and `type Error`, each located at its part of the return type where that is
/// written out.
pub(super) fn types(root: &TokenStream, returned: &Type) -> TokenStream {
    let output = part(root, returned, "Output", 0);
    let error = part(root, returned, "Error", 1);
    quote! {
        type Output = #output;
        type Error = #error;
    }
}

fn part(root: &TokenStream, returned: &Type, name: &str, argument: usize) -> TokenStream {
    let (first, last) = place(returned, argument);
    let name = Ident::new(name, last);
    let open = quote_spanned!(first=> <);
    let close = quote_spanned!(last=> >::#name);
    quote!(#open #returned as #root::__private::Returned #close)
}

/// Where the part starts and ends: the type argument of `Result<T, E>`, or the whole of an alias.
fn place(returned: &Type, argument: usize) -> (Span, Span) {
    let arguments = arguments(returned);
    let tokens = match arguments.as_slice() {
        [_, _] => arguments[argument].to_token_stream(),
        _ => returned.to_token_stream(),
    };
    let mut spans = tokens.into_iter().map(|token| token.span());
    let first = spans.next().unwrap_or_else(Span::call_site);
    (first, spans.last().unwrap_or(first))
}

fn arguments(ty: &Type) -> Vec<&GenericArgument> {
    let Type::Path(path) = ty else {
        return Vec::new();
    };
    match path.path.segments.last().map(|segment| &segment.arguments) {
        Some(PathArguments::AngleBracketed(arguments)) => arguments.args.iter().collect(),
        _ => Vec::new(),
    }
}
