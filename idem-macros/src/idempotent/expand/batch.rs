//! How a handler of batches is called, and how large its batches are.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Type, parse_quote, spanned::Spanned as _};

use super::{local, policy};
use crate::idempotent::{
    arguments::Arguments,
    function::Function,
    signature::{Parameter, Signature},
};

/// The signature that the handler would have for one message; `None` if it has no batches.
pub(super) fn of_each(
    root: &TokenStream,
    arguments: &Arguments,
    signature: &Signature,
) -> Option<Signature> {
    arguments.batch.as_ref()?;
    let returned = &signature.output;
    let each = quote_spanned! {returned.span()=>
        <#returned as #root::__private::BatchReturned>::Each
    };
    let output: Type = parse_quote!(#each);
    Some(Signature {
        message: signature.of_batch()?.clone(),
        parameters: signature.parameters.clone(),
        output,
    })
}

/// `const BATCH`.
pub(super) fn constant(root: &TokenStream, arguments: &Arguments) -> Option<TokenStream> {
    let size = arguments.batch.as_ref()?;
    let bytes = arguments.batch_bytes.as_ref().map(|it| quote!(.bytes(#it)));
    let wait = arguments.batch_wait.map(|wait| {
        let wait = policy::duration(wait.duration);
        quote!(.wait(#wait))
    });
    Some(quote! {
        const BATCH: ::core::option::Option<#root::handler::BatchOptions> =
            ::core::option::Option::Some(#root::handler::BatchOptions::new(#size) #bytes #wait);
    })
}

/// The impl of `Handler`: with a batch, and with one message as a batch of one.
pub(super) fn call(root: &TokenStream, function: &Function, signature: &Signature) -> TokenStream {
    let name = &function.signature.ident;
    let conditions = function.conditions();
    let [message, context, lent, batch, state, failures] =
        ["message", "context", "lent", "batch", "state", "failures"]
            .map(|name| local(name, Span::call_site()));
    let (mut parts, mut made, mut passed) = (Vec::new(), Vec::new(), Vec::new());
    for (i, parameter) in signature.parameters.iter().enumerate() {
        match parameter {
            Parameter::Connection(_) => passed.push(lent.clone()),
            Parameter::Outbox(_) => {
                let parameter = local(&format!("parameter_{i}"), Span::call_site());
                made.push(quote!(let #parameter = #root::__private::outboxes(&#batch);));
                passed.push(parameter);
            }
            Parameter::Extractor(ty) => {
                let parameter = local(&format!("parameter_{i}"), Span::call_site());
                made.push(quote! {
                    let #parameter = <#ty as #root::handler::FromState<__S>>::from_state(#state);
                });
                parts.push(ty);
                passed.push(parameter);
            }
        }
    }
    let future = |output: TokenStream| {
        quote_spanned! {name.span()=>
            ::core::result::Result<
                impl ::core::future::Future<Output = #output> + ::core::marker::Send + '__a,
                #root::handler::Rejection
            >
        }
    };
    let of_one = future(quote!(::core::result::Result<Self::Output, Self::Error>));
    let of_all = future(quote! {
        #root::handler::BatchResults<Self::Output, Self::Error>
    });
    quote! {
        #(#conditions)*
        #[automatically_derived]
        impl<__S> #root::handler::Handler<__S> for #name
        where
            #(#parts: #root::handler::FromState<__S>,)*
        {
            fn call<'__a>(
                #message: Self::Message,
                #context: &'__a #root::handler::Context<'__a, __S>,
                #lent: <Self::Mode as #root::handler::Mode>::Lent<'__a>,
            ) -> #of_one {
                let #batch = #root::__private::batch_of_one(#message, #context);
                let #batch = <Self as #root::handler::Handler<__S>>::call_batch(
                    #batch,
                    #context.state,
                    #lent,
                )?;
                ::core::result::Result::Ok(#root::__private::result_of_one(#batch))
            }

            fn call_batch<'__a>(
                #batch: #root::handler::Batch<Self::Message, Self::Error>,
                #state: &'__a __S,
                #lent: <Self::Mode as #root::handler::Mode>::Lent<'__a>,
            ) -> #of_all {
                #(#made)*
                let #failures = #batch.failures();
                ::core::result::Result::Ok(async move {
                    #root::__private::results(#name(#batch, #(#passed),*).await, &#failures)
                })
            }
        }
    }
}
