//! The constraint that records what was handled, and what stands in its columns.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{LitStr, spanned::Spanned as _};

use super::{key, local};
use crate::idempotent::{arguments::Arguments, signature::Signature};

/// `const RECORDED_BY`, if there is such a constraint.
pub(super) fn constant(
    root: &TokenStream,
    arguments: &Arguments,
    signature: &Signature,
) -> Option<TokenStream> {
    let constraint: &LitStr = arguments.recorded_by.as_ref()?;
    let sources = arguments.key.as_deref().unwrap_or_default();
    let columns = sources.len();
    let [message, envelope, error] =
        ["message", "envelope", "error"].map(|name| local(name, Span::call_site()));
    let parts = sources.iter().map(|source| key::part(root, source));
    // So that an error that tells of no cause is found where it is named.
    let (taken, returned) = (&signature.message, &signature.output);
    let cause = quote_spanned!(returned.span()=> #root::__private::Caused::cause(#error));
    Some(quote! {
        const RECORDED_BY: ::core::option::Option<#root::handler::RecordingConstraint<Self>> =
            ::core::option::Option::Some(#root::handler::RecordingConstraint::new(
                #constraint,
                #columns,
                |#message: &#taken, #envelope: &#root::message::Envelope| {
                    #root::__private::Parts::none() #(#parts)* .build()
                },
                |#error: &<Self as #root::handler::Operation>::Error| #cause,
            ));
    })
}
