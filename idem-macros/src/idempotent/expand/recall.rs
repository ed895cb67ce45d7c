//! How a remembered output is read again. A handler of a request returns the request's types; whether
//! the message is one, the compiler finds out in the expansion.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use super::local;
use crate::idempotent::{arguments::Arguments, signature::Signature};

/// `fn recall`.
pub(super) fn method(
    root: &TokenStream,
    arguments: &Arguments,
    signature: &Signature,
) -> TokenStream {
    let (message, returned) = (&signature.message, &signature.output);
    let [output, asked, kind] =
        ["output", "asked", "kind"].map(|name| local(name, Span::call_site()));
    let checked = quote_spanned! {returned.span()=>
        #asked.kind().returns::<#message, #returned>()
    };
    let recalled = if let Some(path) = &arguments.outdated {
        quote_spanned! {path.span()=> #kind.recall_or::<#message, _, _>(#output, #path) }
    } else {
        quote!(#kind.recall::<#message>(#output))
    };
    quote! {
        fn recall(
            #output: &[u8],
        ) -> ::core::result::Result<::std::borrow::Cow<'_, [u8]>, #root::handler::Refusal> {
            let #asked = #root::__private::Asked::<#message>::new();
            let #kind = #checked;
            #recalled
        }
    }
}
