//! A field of the message, or a field of a field: `order_id`, `"customer.id"`.

use proc_macro2::Span;
use syn::{
    Error, Ident, Index, LitStr, Member, Result, Token,
    ext::IdentExt,
    parse::{ParseStream, Parser},
};

/// One or more members, outermost first.
pub(super) struct FieldPath {
    pub(super) members: Vec<Member>,
    pub(super) span: Span,
}

impl FieldPath {
    /// As it was written: `customer.id`.
    pub(super) fn name(&self) -> String {
        let names = self.members.iter().map(|member| match member {
            Member::Named(ident) => ident.unraw().to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        });
        names.collect::<Vec<_>>().join(".")
    }

    /// Bare or in quotes.
    pub(super) fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(LitStr) {
            Self::quoted(&input.parse()?)
        } else {
            Self::bare(input)
        }
    }

    /// Every member carries the literal's span, so that rustc's "no field" points into it.
    fn quoted(literal: &LitStr) -> Result<Self> {
        let span = literal.span();
        let text = literal.value();
        let members = text.split('.').map(|name| member(name.trim(), span));
        let members = members.collect::<Option<Vec<_>>>().ok_or_else(|| {
            let message = format!(
                "`{text}` is not the name of a field: write `\"order_id\"`, or `\"customer.id\"` for a field of a field"
            );
            Error::new(span, message)
        })?;
        Ok(Self { members, span })
    }

    fn bare(input: ParseStream<'_>) -> Result<Self> {
        let span = input.span();
        let mut members = Vec::new();
        loop {
            let name: Ident = input.call(Ident::parse_any)?;
            let member = member(&name.to_string(), name.span())
                .ok_or_else(|| Error::new_spanned(&name, format!("`{name}` is not a field")))?;
            members.push(member);
            if input.parse::<Option<Token![.]>>()?.is_none() {
                return Ok(Self { members, span });
            }
        }
    }
}

/// A field by name or number; a keyword means the raw identifier, as in serde.
fn member(name: &str, span: Span) -> Option<Member> {
    if let Ok(index) = name.parse() {
        return Some(Member::Unnamed(Index { index, span }));
    }
    if matches!(name, "_" | "self" | "Self" | "super" | "crate") {
        return None;
    }
    let mut ident = Ident::parse_any.parse_str(name).ok()?;
    if syn::parse_str::<Ident>(name).is_err() {
        ident = Ident::new_raw(name, span);
    }
    ident.set_span(span);
    Some(Member::Named(ident))
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    fn name(tokens: proc_macro2::TokenStream) -> Option<String> {
        let path = FieldPath::parse.parse2(tokens).ok()?;
        Some(path.name())
    }

    #[test]
    fn fields_may_be_bare_or_quoted() {
        assert_eq!(name(quote!(order_id)).unwrap(), "order_id");
        assert_eq!(name(quote!("order_id")).unwrap(), "order_id");
        assert_eq!(name(quote!(customer.id)).unwrap(), "customer.id");
        assert_eq!(name(quote!("customer.id")).unwrap(), "customer.id");
        assert_eq!(name(quote!("0")).unwrap(), "0");
    }

    #[test]
    fn a_keyword_is_a_raw_name() {
        assert_eq!(name(quote!("type")).unwrap(), "type");
        assert_eq!(name(quote!(r#type)).unwrap(), "type");
    }

    #[test]
    fn anything_else_is_no_field() {
        for text in ["", ".", "a..b", "a-b", "a b", "self", "a()", "_"] {
            assert_eq!(name(quote!(#text)), None, "{text:?}");
        }
    }
}
