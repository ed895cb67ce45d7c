//! The method that names the unit of work.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use super::{local, sequence};
use crate::idempotent::{
    arguments::Arguments, field_path::FieldPath, key_source::KeySource, signature::Signature,
};

/// `fn key`.
pub(super) fn method(
    root: &TokenStream,
    arguments: &Arguments,
    signature: &Signature,
) -> TokenStream {
    let message = local("message", Span::call_site());
    let envelope = local("envelope", Span::call_site());
    let builder = quote!(#root::message::Key::builder(<Self as #root::handler::Operation>::SCOPE));
    let key = if let Some(path) = &arguments.key_with {
        quote_spanned!(path.span()=> #path(#message, #envelope, #builder))
    } else if arguments.sequence.is_some() {
        sequence::key(root)
    } else if let Some(sources) = &arguments.key {
        let parts = sources.iter().map(|source| part(root, source));
        quote!(#builder #(#parts)* .build())
    } else if arguments.is_plain() {
        quote!(::core::result::Result::Err(#root::message::KeyError::custom("its handler is plain")))
    } else {
        let ty = &signature.message;
        let parts = quote_spanned! {ty.span()=>
            <#ty as #root::IdempotencyKey>::parts(#message, #builder)
        };
        quote!(#parts.build())
    };
    quote! {
        fn key(
            #message: &Self::Message,
            #envelope: &#root::message::Envelope,
        ) -> ::core::result::Result<#root::message::Key, #root::message::KeyError> {
            #key
        }
    }
}

/// A call of `.part(…)` on the key in the making, or of `.first(…)`.
pub(super) fn part(root: &TokenStream, source: &KeySource) -> TokenStream {
    let span = source.span();
    if let KeySource::First(sources, _) = source {
        let sources = sources.iter().map(|source| {
            let name = source.name();
            let value = key_part(root, source);
            quote_spanned!(source.span()=> (#name, #value))
        });
        return quote_spanned!(span=> .first(&[#(#sources),*]));
    }
    let name = source.name();
    let value = key_part(root, source);
    quote_spanned!(span=> .part(#name, #value))
}

/// A reference to a `KeyPart`. That of a header knows one that is there and has no text from one that is not there.
fn key_part(root: &TokenStream, source: &KeySource) -> TokenStream {
    let KeySource::Header(name) = source else {
        return value(root, source);
    };
    let span = source.span();
    let envelope = local("envelope", span);
    quote_spanned!(span=> &#root::__private::Header(#envelope, #name))
}

/// A reference to something that is a `KeyPart`, or a number.
pub(super) fn value(root: &TokenStream, source: &KeySource) -> TokenStream {
    let span = source.span();
    let envelope = local("envelope", span);
    match source {
        KeySource::Field(path) => access(path),
        KeySource::Header(name) => quote_spanned!(span=> &#envelope.header(#name)),
        KeySource::MessageId(_) => quote_spanned!(span=> &#envelope.id()),
        KeySource::Position(_) => quote_spanned!(span=> &#envelope.position()),
        KeySource::Content(_) => quote_spanned!(span=> &#root::__private::Content(#envelope)),
        KeySource::First(..) => unreachable!("a `first` inside a `first` does not parse"),
    }
}

/// `&message.customer.id`, all of it written where the field is named: so that what rustc has to
/// say about it stands there. The binding makes the message known there: a name is visible only
/// where it has the same hygiene, and the field may come out of a `macro_rules!`.
pub(super) fn access(path: &FieldPath) -> TokenStream {
    let message = local("message", Span::call_site());
    let here = Ident::new("__here", path.span);
    let members = &path.members;
    quote_spanned!(path.span=> { let #here = #message; &#here #(.#members)* })
}
