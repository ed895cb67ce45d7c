//! The handler's durable name inside its keys.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;

use crate::idempotent::{arguments::Arguments, function::Function};

/// Unless it is given, the package's and the function's name: two services that share a store have functions of
/// one name more often than packages. Never the module's path, which nobody takes for durable.
pub(super) fn value(root: &TokenStream, arguments: &Arguments, function: &Function) -> TokenStream {
    if let Some(scope) = &arguments.scope {
        return quote!(#scope);
    }
    let function = function.signature.ident.unraw().to_string();
    // Cargo tells the package's name to the crate that is compiled, so only rustc can say that the two are too long.
    quote! {{
        const __DEFAULT: &::core::primitive::str = ::core::concat!(
            ::core::env!(
                "CARGO_PKG_NAME",
                "without cargo, no scope can be made of the package's name: write `scope = \"orders.charge\"`"
            ),
            ".",
            #function,
        );
        ::core::assert!(
            #root::message::Key::is_scope(__DEFAULT),
            "the names of package and function are too long for a scope: write `scope = \"orders.charge\"`"
        );
        __DEFAULT
    }}
}
