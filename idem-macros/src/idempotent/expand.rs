//! What is generated beside the function: a type of its name, what it is, how it is called.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{ext::IdentExt, spanned::Spanned};

use super::{
    arguments::Arguments,
    function::Function,
    signature::{Parameter, Signature},
};

mod batch;
mod fingerprint;
mod key;
mod ordered_by;
mod output;
mod policy;
mod recall;
mod recorded_by;
mod scope;
mod sequence;

/// The type and its two impls. Names of locals have `mixed_site` hygiene, so that a handler may
/// have any name.
pub(super) fn handler(
    root: &TokenStream,
    arguments: &Arguments,
    function: &Function,
    signature: &Signature,
) -> TokenStream {
    let marker = marker(function);
    let (operation, handler) = match batch::of_each(root, arguments, signature) {
        Some(each) => (
            operation(root, arguments, function, &each),
            batch::call(root, function, signature),
        ),
        None => (
            operation(root, arguments, function, signature),
            call(root, function, signature),
        ),
    };
    quote!(#marker #operation #handler)
}

/// The type. Braced, so that it lives in the type namespace only and shares the function's name.
pub(super) fn marker(function: &Function) -> TokenStream {
    let name = &function.signature.ident;
    let text = name.unraw().to_string();
    let visibility = &function.visibility;
    let conditions: Vec<_> = function.conditions().collect();

    let mut located = name.clone();
    located.set_span(Span::call_site().located_at(name.span()));
    let marker = quote_spanned!(located.span()=> struct #located {});
    quote! {
        #(#conditions)*
        #[doc(hidden)]
        #[allow(non_camel_case_types)]
        #visibility #marker

        #(#conditions)*
        #[automatically_derived]
        impl ::core::fmt::Debug for #name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(#text)
            }
        }
    }
}

fn operation(
    root: &TokenStream,
    arguments: &Arguments,
    function: &Function,
    signature: &Signature,
) -> TokenStream {
    let name = &function.signature.ident;
    let conditions = function.conditions();
    let message = &signature.message;
    let message = quote_spanned!(message.span()=> type Message = #message;);
    let output = output::types(root, &signature.output);
    let mode = mode(root, arguments, signature);
    let scope = scope::value(root, arguments, function);
    let policy = policy::constant(root, arguments);
    let decode = decode(root, arguments, signature);
    let validate = validate(root, arguments);
    let key = key::method(root, arguments, signature);
    let fingerprint = fingerprint::method(root, arguments);
    let recall = recall::method(root, arguments, signature);
    let recorded_by = recorded_by::constant(root, arguments, signature);
    let numbered = sequence::constant(root, arguments, signature);
    let ordered_by = ordered_by::constant(root, arguments, signature);
    let batch = batch::constant(root, arguments);
    let publishes = signature.outbox().map(|_| {
        quote!(
            const PUBLISHES: bool = true;
        )
    });
    let named_by_position = arguments.is_named_by_position().then(|| {
        quote!(
            const IS_NAMED_BY_POSITION: bool = true;
        )
    });
    quote! {
        #(#conditions)*
        #[automatically_derived]
        impl #root::handler::Operation for #name {
            #message
            #output
            type Mode = #mode;
            const SCOPE: &'static str = #scope;
            #policy
            #recorded_by
            #numbered
            #ordered_by
            #batch
            #named_by_position
            #publishes
            #decode
            #validate
            #key
            #fingerprint
            #recall
        }
    }
}

fn mode(root: &TokenStream, arguments: &Arguments, signature: &Signature) -> TokenStream {
    let has_batches = arguments.batch.is_some();
    let Some(tx) = signature.connection() else {
        return if has_batches {
            quote!(#root::handler::LeasedBatch)
        } else {
            quote!(#root::handler::Leased)
        };
    };
    match (&arguments.recorded_by, &arguments.group) {
        (Some(_), _) => quote!(#root::handler::RecordedBy<#tx>),
        (None, Some(size)) => quote!(#root::handler::Grouped<#tx, #size>),
        (None, None) if has_batches => quote!(#root::handler::AtomicBatch<#tx>),
        (None, None) => quote!(#root::handler::Atomic<#tx>),
    }
}

fn decode(root: &TokenStream, arguments: &Arguments, signature: &Signature) -> TokenStream {
    let envelope = local("envelope", Span::call_site());
    let decoded = if let Some(path) = &arguments.decode {
        quote_spanned!(path.span()=> #path(#envelope))
    } else {
        let message = &signature.message;
        quote_spanned!(message.span()=> #root::message::Envelope::json::<#message>(#envelope))
    };
    quote! {
        fn decode(
            #envelope: &#root::message::Envelope,
        ) -> ::core::result::Result<Self::Message, #root::handler::DecodeError> {
            #decoded
        }
    }
}

fn validate(root: &TokenStream, arguments: &Arguments) -> Option<TokenStream> {
    let path = arguments.validate.as_ref()?;
    let message = local("message", Span::call_site());
    let validated = quote_spanned!(path.span()=> #path(#message));
    Some(quote! {
        fn validate(
            #message: &Self::Message,
        ) -> ::core::result::Result<(), #root::handler::Invalid> {
            #validated.map_err(#root::handler::Invalid::new)
        }
    })
}

/// Each parameter's bound is the impl's, so that a worker whose state lacks one says which.
fn call(root: &TokenStream, function: &Function, signature: &Signature) -> TokenStream {
    let name = &function.signature.ident;
    let conditions = function.conditions();
    let [message, context, lent] =
        ["message", "context", "lent"].map(|name| local(name, Span::call_site()));
    let (mut extractors, mut made, mut passed) = (Vec::new(), Vec::new(), Vec::new());
    for (i, parameter) in signature.parameters.iter().enumerate() {
        match parameter {
            Parameter::Connection(_) => passed.push(lent.clone()),
            Parameter::Outbox(_) => {
                let parameter = local(&format!("parameter_{i}"), Span::call_site());
                made.push(quote!(let #parameter = #root::__private::outbox(#context);));
                passed.push(parameter);
            }
            Parameter::Extractor(ty) => {
                let parameter = local(&format!("parameter_{i}"), Span::call_site());
                made.push(quote! {
                    let #parameter = <#ty as #root::handler::FromContext<__S>>::from_context(#context)?;
                });
                extractors.push(ty);
                passed.push(parameter);
            }
        }
    }
    let output = &signature.output;
    let returned = quote_spanned! {name.span()=>
        ::core::result::Result<
            impl ::core::future::Future<Output = #output> + ::core::marker::Send + '__a,
            #root::handler::Rejection
        >
    };
    quote! {
        #(#conditions)*
        #[automatically_derived]
        impl<__S> #root::handler::Handler<__S> for #name
        where
            #(#extractors: #root::handler::FromContext<__S>,)*
        {
            fn call<'__a>(
                #message: Self::Message,
                #context: &'__a #root::handler::Context<'__a, __S>,
                #lent: <Self::Mode as #root::handler::Mode>::Lent<'__a>,
            ) -> #returned {
                #(#made)*
                ::core::result::Result::Ok(#name(#message, #(#passed),*))
            }
        }
    }
}

/// A local variable that no item of the user's can be mistaken for.
fn local(name: &str, at: Span) -> Ident {
    Ident::new(&format!("__{name}"), Span::mixed_site().located_at(at))
}
