//! The annotated function, its body unread: half-typed code must not take the handler away.

use proc_macro2::TokenStream;
use syn::{
    Attribute, Error, Result, Signature, Token, Visibility,
    parse::{Parse, ParseStream},
    token::Brace,
};

/// A free function.
pub(super) struct Function {
    pub(super) attributes: Vec<Attribute>,
    pub(super) visibility: Visibility,
    pub(super) signature: Signature,
}

impl Function {
    /// The `#[cfg(…)]`s, which hold for what is generated too.
    pub(super) fn conditions(&self) -> impl Iterator<Item = &Attribute> {
        self.attributes
            .iter()
            .filter(|attribute| attribute.path().is_ident("cfg"))
    }
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        let start = input.span();
        let signature: Signature = input.parse().map_err(|error| {
            if looks_like_a_function(input) {
                error
            } else {
                Error::new(start, "`#[idempotent]` goes on a free `async fn`")
            }
        })?;
        if input.peek(Token![;]) {
            return Err(Error::new_spanned(
                &signature.ident,
                "a handler needs a body: write a free `async fn`, not a trait's method",
            ));
        }
        if !input.peek(Brace) && !input.peek(Token![where]) {
            return Err(input.error("expected the function's body"));
        }
        input.parse::<TokenStream>()?;
        Ok(Self {
            attributes,
            visibility,
            signature,
        })
    }
}

/// Whether the error is about a function, so that the parser's own words fit.
fn looks_like_a_function(input: ParseStream<'_>) -> bool {
    let rest = input.fork();
    let tokens = rest.parse::<TokenStream>().unwrap_or_default();
    tokens.into_iter().any(|token| token.to_string() == "fn")
}
