//! The crate through which the user has the macros, and whose items an expansion names.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

/// Which facade's entry was called.
#[derive(Clone, Copy)]
pub(crate) enum Facade {
    Core,
    Amqp,
}

impl Facade {
    /// The path that all generated paths start with: the one in `crate = path`, or the facade's.
    pub(crate) fn root(self, renamed: Option<&syn::Path>) -> TokenStream {
        match (renamed, self) {
            (Some(path), _) => path.to_token_stream(),
            (None, Self::Core) => quote!(::idem_core),
            (None, Self::Amqp) => quote!(::idem_amqp),
        }
    }
}
