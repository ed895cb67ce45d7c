//! A field of the message, or a field of a field: `order_id`, `"customer.id"`.

use proc_macro2::Span;
use quote::ToTokens;
use syn::{
    Error, Ident, Index, Lit, LitStr, Member, Result, Token,
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
        let text = literal.value();
        let mut span = literal.span();
        if text.contains('.') {
            // What rustc suggests would replace the whole literal, wrong for a part of it.
            span = span.resolved_at(Span::call_site());
        }
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
        let mut members = bare_members(input)?;
        while input.parse::<Option<Token![.]>>()?.is_some() {
            members.extend(bare_members(input)?);
        }
        Ok(Self { members, span })
    }
}

/// One name or number; in `pair.0.1`, `0.1` is one token.
fn bare_members(input: ParseStream<'_>) -> Result<Vec<Member>> {
    let span = input.span();
    let text = if input.peek(Lit) {
        input.parse::<Lit>()?.to_token_stream().to_string()
    } else {
        input.call(Ident::parse_any)?.to_string()
    };
    let members = text.split('.').map(|name| member(name, span));
    let members = members.collect::<Option<Vec<_>>>();
    members.ok_or_else(|| Error::new(span, format!("`{text}` is not a field")))
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
        assert_eq!(name(quote!("pair.0.1")).unwrap(), "pair.0.1");
        assert_eq!(name(quote!(pair.0.1)).unwrap(), "pair.0.1");
    }

    #[test]
    fn a_keyword_is_a_raw_name() {
        assert_eq!(name(quote!("type")).unwrap(), "type");
        assert_eq!(name(quote!(r#type)).unwrap(), "type");
    }

    #[test]
    fn anything_else_is_no_field() {
        assert_eq!(name(quote!(pair.0u8)), None);
        assert_eq!(name(quote!(pair.'x')), None);
        for text in ["", ".", "a..b", "a-b", "a b", "self", "a()", "_"] {
            assert_eq!(name(quote!(#text)), None, "{text:?}");
        }
    }
}
