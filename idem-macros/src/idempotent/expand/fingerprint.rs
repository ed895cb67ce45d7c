//! The fingerprint: of the whole body unless the arguments say otherwise.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};

use super::{key::access, local};
use crate::idempotent::arguments::{Arguments, Fingerprint};

/// Nothing, to keep the trait's default; or the method.
pub(super) fn method(root: &TokenStream, arguments: &Arguments) -> Option<TokenStream> {
    let message = local("message", Span::call_site());
    let envelope = local("envelope", Span::call_site());
    // What the handler's own table records has none.
    let off = arguments.recorded_by.as_ref().map(|_| &Fingerprint::Off);
    let fingerprint = match off.or(arguments.fingerprint.as_ref())? {
        Fingerprint::Off => quote!(::core::option::Option::None),
        Fingerprint::Fields(fields) => {
            let fields = fields.iter().map(|field| {
                let name = field.name();
                let value = access(field);
                quote_spanned!(field.span=> .field(#name, #value))
            });
            quote!(::core::option::Option::Some(#root::message::Fingerprint::builder() #(#fields)* .build()))
        }
    };
    Some(quote! {
        fn fingerprint(
            #message: &Self::Message,
            #envelope: &#root::message::Envelope,
        ) -> ::core::option::Option<#root::message::Fingerprint> {
            #fingerprint
        }
    })
}
