//! What a handler with mistakes has instead of its impls.

use proc_macro2::TokenStream;
use quote::quote;

use super::{elision, expand, function::Function};

/// A type that can be given to a worker, so that the mistakes are all that rustc reports. It never
/// runs: a mistake does not compile. Not beside a method, where a type cannot stand.
pub(super) fn handler(root: &TokenStream, function: &Function) -> TokenStream {
    if is_method(function) {
        return TokenStream::new();
    }
    let name = &function.signature.ident;
    let conditions: Vec<_> = function.conditions().collect();
    let marker = expand::marker(function);
    quote! {
        #marker
        #(#conditions)*
        #[automatically_derived]
        impl #root::handler::Operation for #name {
            type Message = ();
            type Output = ();
            type Error = #root::handler::Failed;
            type Mode = #root::handler::Leased;
            const SCOPE: &'static str = "";
            fn decode(_: &#root::message::Envelope) -> ::core::result::Result<(), #root::handler::DecodeError> {
                ::core::unreachable!()
            }
            fn key(
                _: &(),
                _: &#root::message::Envelope,
            ) -> ::core::result::Result<#root::message::Key, #root::message::KeyError> {
                ::core::unreachable!()
            }
        }
        #(#conditions)*
        #[automatically_derived]
        impl<__S> #root::handler::Handler<__S> for #name {
            fn call<'__a>(
                _: (),
                _: &'__a #root::handler::Context<'__a, __S>,
                _: (),
            ) -> ::core::result::Result<
                impl ::core::future::Future<
                    Output = ::core::result::Result<(), #root::handler::Failed>
                > + ::core::marker::Send + '__a,
                #root::handler::Rejection,
            > {
                ::core::result::Result::Ok(::core::future::pending())
            }
        }
    }
}

fn is_method(function: &Function) -> bool {
    let signature = &function.signature;
    signature.receiver().is_some() || elision::mentions(signature, "Self").is_some()
}
