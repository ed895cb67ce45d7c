//! The keys of an enum: each variant has its own, which begins with the variant's name.

use std::collections::BTreeSet;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{
    Attribute, DataEnum, Fields, FieldsNamed, LitStr, Token, Variant, ext::IdentExt as _,
    parse::ParseStream,
};

use super::{is_key, is_marked, marked_fields};
use crate::mistakes::Mistakes;

/// The parts of the variant that is there.
pub(super) fn parts(root: &TokenStream, data: &DataEnum, mistakes: &mut Mistakes) -> TokenStream {
    let mut names = BTreeSet::new();
    let arms: Vec<_> = data
        .variants
        .iter()
        .map(|variant| {
            let name = name(variant, mistakes);
            if !names.insert(name.clone()) {
                mistakes.at(
                    &variant.ident,
                    format!("another variant is `{name}` in its keys, too: one id in both would be one key; give this one another name, as in `#[key(name = \"placed\")]`"),
                );
            }
            arm(root, variant, &name, mistakes)
        })
        .collect();
    quote!(match self { #(#arms)* })
}

fn arm(root: &TokenStream, variant: &Variant, name: &str, mistakes: &mut Mistakes) -> TokenStream {
    let ident = &variant.ident;
    let key = quote!(key.part("variant", #name));
    match &variant.fields {
        Fields::Named(fields) => {
            let (pattern, parts) = named(variant, fields, mistakes);
            quote!(Self::#ident { #pattern .. } => #key #parts,)
        }
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
            let field = &fields.unnamed[0];
            if is_marked(field, mistakes) {
                return quote!(Self::#ident(part) => #key.part("0", part),);
            }
            let ty = &field.ty;
            quote!(Self::#ident(message) => <#ty as #root::IdempotencyKey>::parts(message, #key),)
        }
        _ => {
            mistakes.at(
                ident,
                "a variant's key is in its named fields, or in the one message that it holds: write it so, or implement `IdempotencyKey` by hand",
            );
            quote!(Self::#ident { .. } => key,)
        }
    }
}

/// What binds the marked fields, and the parts made of them.
fn named(
    variant: &Variant,
    fields: &FieldsNamed,
    mistakes: &mut Mistakes,
) -> (TokenStream, TokenStream) {
    let marked = marked_fields(fields, mistakes);
    if marked.is_empty() {
        mistakes.at(
            &variant.ident,
            "no field is this variant's key: mark at least one with `#[key]`",
        );
    }
    let bound = marked.iter().enumerate().map(|(at, (field, _))| {
        let local = format_ident!("part_{at}");
        quote!(#field: #local,)
    });
    let parts = marked.iter().enumerate().map(|(at, (field, _))| {
        let local = format_ident!("part_{at}");
        let text = field.unraw().to_string();
        quote!(.part(#text, #local))
    });
    (quote!(#(#bound)*), quote!(#(#parts)*))
}

/// What the variant is called in its keys: by its own name, or by that of `#[key(name = "…")]`.
fn name(variant: &Variant, mistakes: &mut Mistakes) -> String {
    let given = variant.attrs.iter().find(|attribute| is_key(attribute));
    let own = || variant.ident.unraw().to_string();
    given.map_or_else(own, |attribute| {
        parse_name(attribute).unwrap_or_else(|| {
            mistakes.at(
                attribute,
                "`#[key]` goes on fields; on a variant there is only `#[key(name = \"placed\")]`, which names it in its keys",
            );
            own()
        })
    })
}

fn parse_name(attribute: &Attribute) -> Option<String> {
    let name = attribute.parse_args_with(|input: ParseStream<'_>| {
        let word: syn::Ident = input.parse()?;
        input.parse::<Token![=]>()?;
        let name: LitStr = input.parse()?;
        Ok((word, name.value()))
    });
    let (word, name) = name.ok()?;
    (word == "name" && !name.is_empty()).then_some(name)
}
