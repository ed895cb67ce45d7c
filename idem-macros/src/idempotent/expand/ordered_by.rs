//! What messages have in common that run one after the other.

use proc_macro2::{Span, TokenStream};
use quote::quote;

use super::{key, local};
use crate::idempotent::{arguments::Arguments, key_source::KeySource, signature::Signature};

/// `const ORDERED_BY`, if they are ordered.
pub(super) fn constant(
    root: &TokenStream,
    arguments: &Arguments,
    signature: &Signature,
) -> Option<TokenStream> {
    let sources = arguments.ordered_by.as_ref()?;
    let [message, envelope] = ["message", "envelope"].map(|name| local(name, Span::call_site()));
    let taken = &signature.message;
    let parts = sources.iter().map(|source| key::part(root, source));
    let name = quote! {
        #root::message::Key::builder(<Self as #root::handler::Operation>::SCOPE) #(#parts)* .build()
    };
    let in_envelope = sources
        .iter()
        .all(KeySource::is_in_envelope)
        .then(|| quote!(.in_envelope(|#envelope: &#root::message::Envelope| #name)));
    let overtaking =
        (arguments.overtake_failed == Some(true)).then(|| quote!(.overtaking_failed()));
    Some(quote! {
        const ORDERED_BY: ::core::option::Option<#root::handler::OrderedBy<Self>> =
            ::core::option::Option::Some(#root::handler::OrderedBy::new(
                |#message: &#taken, #envelope: &#root::message::Envelope| #name,
            ) #in_envelope #overtaking);
    })
}
