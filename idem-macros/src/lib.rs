//! The macros of idem: `#[idempotent]` and `#[derive(IdempotencyKey)]`.
//!
//! Use them through `idem-amqp` or `idem-core`, which re-export them under these names. Each
//! facade has entries of its own here, because an expansion must name the crate that its user
//! depends on.

use proc_macro::TokenStream;

use crate::facade::Facade;

mod facade;
mod idempotency_key;
mod idempotent;
mod mistakes;

/// `#[idempotent]`, as `idem-core` re-exports it.
#[proc_macro_attribute]
pub fn idempotent_core(arguments: TokenStream, item: TokenStream) -> TokenStream {
    idempotent::expand(Facade::Core, arguments.into(), &item.into()).into()
}

/// `#[idempotent]`, as `idem-amqp` re-exports it.
#[proc_macro_attribute]
pub fn idempotent_amqp(arguments: TokenStream, item: TokenStream) -> TokenStream {
    idempotent::expand(Facade::Amqp, arguments.into(), &item.into()).into()
}

/// `#[derive(IdempotencyKey)]`, as `idem-core` re-exports it.
#[proc_macro_derive(IdempotencyKeyCore, attributes(key))]
pub fn idempotency_key_core(item: TokenStream) -> TokenStream {
    idempotency_key::expand(Facade::Core, item.into()).into()
}

/// `#[derive(IdempotencyKey)]`, as `idem-amqp` re-exports it.
#[proc_macro_derive(IdempotencyKeyAmqp, attributes(key))]
pub fn idempotency_key_amqp(item: TokenStream) -> TokenStream {
    idempotency_key::expand(Facade::Amqp, item.into()).into()
}
