//! What a type inside a signature may say and an associated type may not: `'_`, `impl`, `Self`.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::Type;

/// Whether the word stands anywhere in the type; for `'_`, the word is `_` after an apostrophe.
pub(super) fn mentions(ty: &impl ToTokens, word: &str) -> Option<Span> {
    find(ty.to_token_stream(), word, false)
}

/// Where the type leaves a lifetime to be inferred.
pub(super) fn anonymous_lifetime(ty: &Type) -> Option<Span> {
    find(ty.to_token_stream(), "_", true)
}

fn find(tokens: TokenStream, word: &str, lifetime: bool) -> Option<Span> {
    let mut after_apostrophe = false;
    for token in tokens {
        match &token {
            TokenTree::Group(group) => {
                if let Some(span) = find(group.stream(), word, lifetime) {
                    return Some(span);
                }
            }
            TokenTree::Ident(ident) if after_apostrophe == lifetime && ident == word => {
                return Some(ident.span());
            }
            _ => {}
        }
        after_apostrophe = is_apostrophe(&token);
    }
    None
}

/// `Transaction<'_, Postgres>` as an associated type can name it: `Transaction<'static, Postgres>`.
pub(super) fn made_static(tokens: TokenStream) -> TokenStream {
    let mut after_apostrophe = false;
    let tokens = tokens.into_iter().map(|token| {
        let lifetime = std::mem::replace(&mut after_apostrophe, is_apostrophe(&token));
        match token {
            TokenTree::Group(group) => {
                let mut made = Group::new(group.delimiter(), made_static(group.stream()));
                made.set_span(group.span());
                TokenTree::Group(made)
            }
            TokenTree::Ident(ident) if lifetime && ident == "_" => {
                TokenTree::Ident(Ident::new("static", ident.span()))
            }
            other => other,
        }
    });
    tokens.collect()
}

fn is_apostrophe(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == '\'')
}

#[cfg(test)]
mod tests {
    use quote::quote;
    use syn::parse_quote;

    use super::*;

    #[test]
    fn an_anonymous_lifetime_becomes_static() {
        let ty: Type = parse_quote!(&mut Transaction<'_, Postgres>);
        let expected: Type = parse_quote!(&mut Transaction<'static, Postgres>);
        let made: Type = syn::parse2(made_static(ty.to_token_stream())).unwrap();
        assert!(anonymous_lifetime(&ty).is_some());
        assert_eq!(
            made.to_token_stream().to_string(),
            expected.to_token_stream().to_string()
        );
    }

    #[test]
    fn an_inferred_type_is_not_a_lifetime() {
        assert!(anonymous_lifetime(&parse_quote!(Vec<_>)).is_none());
    }

    #[test]
    fn words_are_found_inside_brackets() {
        assert!(mentions(&quote!(Result<(Self, u8), ()>), "Self").is_some());
        assert!(mentions(&quote!(State<impl Clone>), "impl").is_some());
        assert!(mentions(&quote!(State<Mailer>), "impl").is_none());
    }
}
