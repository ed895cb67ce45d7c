//! Where a message stands in its producer's sequence.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};

use super::{key, local, policy};
use crate::idempotent::{
    arguments::Arguments, key_source::KeySource, sequence::Sequence, signature::Signature,
};

/// `const SEQUENCE`, if the key is a sequence.
pub(super) fn constant(
    root: &TokenStream,
    arguments: &Arguments,
    signature: &Signature,
) -> Option<TokenStream> {
    let sequence = arguments.sequence.as_ref()?;
    let [message, envelope] = ["message", "envelope"].map(|name| local(name, Span::call_site()));
    let taken = &signature.message;
    let place = place(root, sequence);
    let in_envelope = in_envelope(sequence)
        .then(|| quote!(.in_envelope(|#envelope: &#root::message::Envelope| #place)));
    let set = set(sequence);
    Some(quote! {
        const SEQUENCE: ::core::option::Option<#root::handler::SequenceOptions<Self>> =
            ::core::option::Option::Some(#root::handler::SequenceOptions::new(
                |#message: &#taken, #envelope: &#root::message::Envelope| #place,
            ) #in_envelope #set);
    })
}

/// The sequence's key, and the number.
fn place(root: &TokenStream, sequence: &Sequence) -> TokenStream {
    let parts = sequence.producer.iter().chain(&sequence.epoch);
    let parts = parts.map(|source| key::part(root, source));
    let number = number(root, sequence);
    quote! {
        #root::__private::numbered(
            #root::message::Key::builder(<Self as #root::handler::Operation>::SCOPE) #(#parts)*,
            #number,
        )
    }
}

/// Whether the place can be told without the body's fields.
fn in_envelope(sequence: &Sequence) -> bool {
    let parts = sequence.producer.iter().chain(&sequence.epoch);
    parts
        .chain([&sequence.number])
        .all(KeySource::is_in_envelope)
}

/// The body of `fn key`: the sequence's key, with the number.
pub(super) fn key(root: &TokenStream) -> TokenStream {
    let [message, envelope] = ["message", "envelope"].map(|name| local(name, Span::call_site()));
    quote!(#root::__private::numbered_key::<Self>(#message, #envelope))
}

fn number(root: &TokenStream, sequence: &Sequence) -> TokenStream {
    let source = &sequence.number;
    let name = source.name();
    let value = key::value(root, source);
    quote_spanned!(source.span()=> #root::__private::number(#name, #value))
}

fn set(sequence: &Sequence) -> TokenStream {
    let window = (sequence.window.as_ref()).map(|window| quote!(.window(#window)));
    let skip = sequence.skip_gaps_after.map(|wait| {
        let wait = policy::duration(wait.duration);
        quote!(.skip_gaps_after(#wait))
    });
    quote!(#window #skip)
}
